package zkserver

import (
	"sync"
	"time"
)

const (
	// maxEventBytes bounds the events that wait to be sent to a client. One that
	// lets more gather, with persistent watches and without reading, is cut off.
	// What waits of answers is bounded by maxOutstanding.
	maxEventBytes = 16 << 20
	// writeTime is how long a client may take none of what is sent to it.
	writeTime = 30 * time.Second
	// writeStep is how much is gathered for one write.
	writeStep = 64 << 10
)

// outgoing is a frame to be sent.
type outgoing struct {
	frame     []byte
	answer    bool      // makes room for another request
	last      bool      // nothing is sent behind it
	notBefore time.Time // what stands behind it waits as well
}

// outbox is what waits to be sent on a connection, in order.
type outbox struct {
	c       *conn
	closing chan struct{} // closed when the last frame is sent
	news    chan struct{} // of size 1: there is something to send

	mu         sync.Mutex
	queue      []outgoing
	eventBytes int  // of the events in queue
	sealed     bool // the last frame is in queue, or was
}

func newOutbox(c *conn) *outbox {
	return &outbox{c: c, closing: make(chan struct{}), news: make(chan struct{}, 1)}
}

// push adds a frame, unless there was a last one or the connection is closed. It
// does not wait.
func (o *outbox) push(f outgoing) {
	if o.c.closed.Load() {
		return
	}
	o.mu.Lock()
	if !o.sealed {
		o.queue = append(o.queue, f)
		o.sealed = f.last
		if !f.answer {
			o.eventBytes += len(f.frame)
		}
	}
	unsent := o.eventBytes
	o.mu.Unlock()
	if unsent > maxEventBytes && !o.c.closed.Load() {
		o.c.s.log.Warn("connection closed: its client does not read the events that it watches for", "peer", o.c.peer(), "unsent_bytes", unsent)
		o.c.abort()
		return
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *outbox) ending() bool {
	select {
	case <-o.closing:
		return true
	default:
		return false
	}
}

// run sends until the connection is closed or the last frame is sent.
func (o *outbox) run() {
	var buf []byte
	for {
		select {
		case <-o.news:
		case <-o.c.gone:
			return
		}
		for {
			frames, wait := o.take()
			if wait > 0 {
				if !o.pause(wait) {
					return
				}
				continue
			}
			if len(frames) == 0 {
				break
			}
			var ok bool
			if buf, ok = o.write(buf[:0], frames); !ok {
				return
			}
		}
	}
}

// take takes frames off the queue that may be sent now, or says how long the
// first one has to wait.
func (o *outbox) take() (frames []outgoing, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, size := 0, 0
	for _, f := range o.queue {
		if d := time.Until(f.notBefore); !f.notBefore.IsZero() && d > 0 {
			if n == 0 {
				return nil, d
			}
			break
		}
		n++
		if !f.answer {
			o.eventBytes -= len(f.frame)
		}
		if size += len(f.frame); size >= writeStep {
			break
		}
	}
	frames, o.queue = o.queue[:n:n], o.queue[n:]
	if len(o.queue) == 0 {
		o.queue = nil
	}
	return frames, 0
}

// pause waits, and fails when the connection is closed before.
func (o *outbox) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.c.gone:
		return false
	}
}

// write sends frames, gathered in buf. It fails when nothing more is to be sent.
func (o *outbox) write(buf []byte, frames []outgoing) ([]byte, bool) {
	last := false
	for _, f := range frames {
		buf = append(buf, f.frame...)
		last = last || f.last
	}
	c := o.c
	err := c.tcp.SetWriteDeadline(time.Now().Add(writeTime))
	if err == nil {
		_, err = c.tcp.Write(buf)
	}
	if err != nil {
		c.abort()
		return buf, false
	}
	for _, f := range frames {
		if len(f.frame) > 0 {
			c.sent.Add(1)
			c.s.sent.Add(1)
		}
		if f.answer {
			select {
			case <-c.slots:
			default: // a handshake takes none
			}
		}
	}
	if last {
		// The reader closes the connection once the peer has, or after a while.
		c.tcp.CloseWrite()
		c.tcp.SetReadDeadline(time.Now().Add(lingerTime))
		close(o.closing)
		return buf, false
	}
	if cap(buf) > 2*writeStep {
		buf = nil
	}
	return buf, true
}
