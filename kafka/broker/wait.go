package broker

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// maxWait caps what a WaitFetch may ask for.
const maxWait = 30 * time.Second

func (c *conn) waitFetch(body []byte, _ int) error {
	m, err := wire.ParseWaitFetch(c.fetches[:0], body)
	if err != nil {
		return c.badFrame(err)
	}
	c.fetches = m.Fetches
	if m.MaxWaitMs < 0 || m.MinBytes < 0 {
		c.srv.metrics.fetchErrors.Inc()
		return c.answer(wire.CodeBadArgument, nil)
	}
	if c.readParts(); !c.enough(int(m.MinBytes)) && m.MaxWaitMs > 0 {
		c.releaseParts()
		// Answers to earlier requests must not wait with this one.
		if err := c.sendGathered(); err != nil {
			return err
		}
		c.releaseGathered()
		c.park(body)
		defer c.unpark()
		c.awaitParts(int(m.MinBytes), min(time.Duration(m.MaxWaitMs)*time.Millisecond, maxWait))
	}
	return c.sendParts(true)
}

// park lets go of the read buffer while a WaitFetch of this body waits: of ten
// thousand waiting consumers none holds any. Who has sent so much behind it that
// it must be kept waits on its own account, see holder. unpark ends that.
func (c *conn) park(body []byte) {
	held := true
	if len(body) <= smallestBuffer {
		c.parked = append(c.parked[:0], body...)
		if m, err := wire.ParseWaitFetch(c.fetches[:0], c.parked); err == nil { // as before
			c.fetches = m.Fetches // they point into the copy now
			held = !c.in.rest()
		}
	}
	c.holder.parked.Store(held)
}

func (c *conn) unpark() {
	c.holder.parked.Store(false)
	if cap(c.parked) > maxParked {
		c.parked = nil
	}
}

// maxParked is how large a parked body's space may be to be kept, in bytes.
const maxParked = 1 << 10

// enough reports whether c.parts should be sent without waiting: they hold
// minBytes together, one of them is an error, or one cannot grow, being as long
// as was asked for or ending with its segment.
func (c *conn) enough(minBytes int) bool {
	total := 0
	for i := range c.parts {
		p, f := &c.parts[i], &c.fetches[i]
		n := p.slice.Len()
		total += n
		if p.code != wire.CodeNone || n > 0 && n == int(f.MaxBytes) {
			return true
		}
		if n > 0 {
			log := c.srv.logs.Lookup(f.Topic, f.Partition)
			if log == nil || f.Offset+int64(n) < log.State().Watermark {
				return true
			}
		}
	}
	return total >= minBytes || len(c.parts) == 0
}

// watch is what a waiting connection listens to.
type watch struct {
	visible chan struct{}             // something became visible in a log asked for, or it was deleted
	topics  chan struct{}             // a log was made or deleted
	logs    []*storage.Log            // that are watched, one for each entry; nil where none is there
	stops   []func()                  // of watching them, each once
	seen    map[*storage.Log]struct{} // of logs, where there are several
	stop    func()                    // of being told of topics; nil: that is not needed
	poll    [1]unix.PollFd
}

// awaitParts waits until c.parts, which it fills, are enough, the time is over,
// the peer closes, or the broker stops.
func (c *conn) awaitParts(minBytes int, limit time.Duration) {
	w := &c.watch
	if w.visible == nil {
		w.visible, w.topics = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	gone, stopPeer := c.watchPeer()
	defer stopPeer()
	c.srv.metrics.waiting.Inc()
	defer c.srv.metrics.waiting.Dec()
	defer c.unwatch()
	for {
		// Looking comes after watching, so that nothing is missed.
		c.watchLogs()
		if c.readParts(); c.enough(minBytes) {
			return
		}
		select {
		case <-w.visible:
		case <-w.topics:
		case <-timer.C:
			return
		case <-gone:
			return
		case <-c.srv.stop:
			return
		}
		c.releaseParts()
	}
}

// watchLogs sees to it that the logs asked for are watched. Of topics, which all who
// wait would hear of, and all at once, a connection is told only while a log that it waits for
// is not there.
func (c *conn) watchLogs() {
	w := &c.watch
	for c.watchChanged() {
		c.unwatchLogs()
		missing := false
		for i := range c.fetches {
			log := c.srv.logs.Lookup(c.fetches[i].Topic, c.fetches[i].Partition)
			w.logs = append(w.logs, log)
			missing = missing || gone(log)
			if log != nil && w.isNew(log, len(c.fetches)) {
				w.stops = append(w.stops, log.Watch(w.visible))
			}
		}
		switch {
		case missing && w.stop == nil:
			w.stop = c.srv.topicWatchers.add(w.topics)
		case !missing && w.stop != nil:
			w.stop()
			w.stop = nil
		}
	}
}

// isNew reports whether a log of so many that are asked for is not watched yet. Who
// appends to it tells all who watch, so that nobody may be told a thousand times.
func (w *watch) isNew(log *storage.Log, of int) bool {
	if of == 1 {
		return true
	}
	if w.seen == nil {
		w.seen = make(map[*storage.Log]struct{})
	}
	_, known := w.seen[log]
	w.seen[log] = struct{}{}
	return !known
}

// gone reports whether there is no log, or one that was deleted, in whose place there
// may be another.
func gone(log *storage.Log) bool { return log == nil || log.State().Segments == 0 }

// watchChanged reports whether not all is watched that should be.
func (c *conn) watchChanged() bool {
	w := &c.watch
	if len(w.logs) != len(c.fetches) {
		return true
	}
	for i, watched := range w.logs {
		log := c.srv.logs.Lookup(c.fetches[i].Topic, c.fetches[i].Partition)
		if log != watched || gone(log) && w.stop == nil {
			return true
		}
	}
	return false
}

func (c *conn) unwatchLogs() {
	w := &c.watch
	for _, stop := range w.stops {
		stop()
	}
	w.stops, w.logs = forget(w.stops), forget(w.logs)
	if clear(w.seen); cap(w.logs) == 0 {
		w.seen = nil // as large as they were
	}
}

func (c *conn) unwatch() {
	c.unwatchLogs()
	if w := &c.watch; w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// watchPeer closes gone when the peer closes its side of the connection, which
// it sees behind any requests that are not read yet. stop ends the watch.
func (c *conn) watchPeer() (gone <-chan struct{}, stop func()) {
	c.in.disarm()
	closed, ended := make(chan struct{}), make(chan struct{})
	poll := &c.watch.poll
	go func() {
		defer close(ended)
		hungUp := false
		// The runtime calls this again whenever something happens on the socket.
		err := c.in.raw.Read(func(fd uintptr) bool {
			poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
			n, err := unix.Poll(poll[:], 0)
			hungUp = err == nil && n > 0
			return hungUp
		})
		// An error is the deadline by which the watch is ended, or the close of
		// the connection by this side, which whoever writes next meets.
		if err == nil && hungUp {
			close(closed)
		}
	}()
	return closed, func() {
		c.in.interrupt()
		<-ended
		c.in.disarm()
	}
}

// watchers are channels that get a token when something changes. Its methods
// may be called concurrently.
type watchers struct {
	mu  sync.Mutex
	chs map[chan<- struct{}]struct{}
}

// add makes ch, of capacity 1, one of them until remove is called.
func (w *watchers) add(ch chan<- struct{}) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chs == nil {
		w.chs = make(map[chan<- struct{}]struct{})
	}
	w.chs[ch] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.chs, ch)
	}
}

func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.chs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
