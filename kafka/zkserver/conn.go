package zkserver

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// helloTime is how long a connection may take until it has sent its handshake
	// or a four-letter word.
	helloTime = 10 * time.Second
	// lingerTime is how long the peer of a connection that is being closed may
	// take to notice.
	lingerTime = 500 * time.Millisecond
	// maxOutstanding bounds the requests of a connection that are not answered
	// yet. No more are read until there is room.
	maxOutstanding = 64
	// readStep is how much of a request is read before there is room for more: no
	// size is believed before as many bytes have come.
	readStep = 64 << 10
)

// conn is one connection. Its reader is the goroutine that it is served by; its
// writer sends what is in the outbox.
type conn struct {
	s    *Server
	tcp  *net.TCPConn
	addr netip.Addr
	out  *outbox

	slots  chan struct{} // one for each request that is not answered yet
	ready  chan struct{} // closed by the core when session is set
	gone   chan struct{} // closed when the connection is closed
	closed atomic.Bool

	received, sent atomic.Int64 // packets

	// session is set by the core before it closes ready.
	session *session
	auth    []authID // of the core
}

func newConn(s *Server, tcp *net.TCPConn) *conn {
	c := &conn{
		s: s, tcp: tcp,
		addr:  tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone(""),
		slots: make(chan struct{}, maxOutstanding), ready: make(chan struct{}), gone: make(chan struct{}),
	}
	c.out = newOutbox(c)
	return c
}

func (c *conn) peer() string { return c.tcp.RemoteAddr().String() }

// abort closes the connection at once. It may be called again.
func (c *conn) abort() {
	if !c.closed.Swap(true) {
		close(c.gone)
		c.tcp.Close()
	}
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.out.run()
	}()
	err := c.read()
	if c.out.ending() {
		// The answer that closes the connection is sent. What the peer still sends is
		// read, as closing on it would take the answer back.
		io.Copy(io.Discard, c.tcp)
	}
	c.abort()
	<-written
	if err != nil && err != io.EOF {
		c.s.log.Debug("connection ended", "peer", c.peer(), "error", err)
	}
	c.submit(item{c: c, ended: true})
}

// read is the loop of the reader.
func (c *conn) read() error {
	if err := c.tcp.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return err
	}
	br := bufio.NewReaderSize(c.tcp, 4<<10)
	size, err := readSize(br)
	if err != nil {
		return err
	}
	if word, ok := fourLetterWord(size); ok {
		c.count()
		return c.answerWord(word)
	}
	hello, err := c.readFrame(br, size)
	if err != nil {
		return err
	}
	if !c.submit(item{c: c, hello: true, body: hello, since: time.Now()}) || !c.wait(c.ready) {
		return nil
	}
	// From here on the session's time-out bounds all waiting, as its end closes
	// the connection.
	if err := c.tcp.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		select {
		case c.slots <- struct{}{}:
		case <-c.gone:
			return nil
		case <-c.out.closing:
			return nil
		}
		size, err := readSize(br)
		if err != nil {
			return err
		}
		body, err := c.readFrame(br, size)
		if err != nil {
			return err
		}
		if len(body) < 8 {
			return fmt.Errorf("request of %d bytes: %w", len(body), errMalformed)
		}
		c.session.heard.Store(int64(c.s.elapsed()))
		it := item{c: c, xid: int32(binary.BigEndian.Uint32(body)), op: opcode(binary.BigEndian.Uint32(body[4:])), body: body[8:], since: time.Now()}
		if !c.submit(it) {
			c.wait(nil) // what was answered before is still to be sent
			return nil
		}
	}
}

func readSize(r io.Reader) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// readFrame reads what stands behind a size.
func (c *conn) readFrame(r io.Reader, size uint32) ([]byte, error) {
	if int64(size) > int64(c.s.cfg.MaxRequestBytes) {
		err := fmt.Errorf("request of %d bytes, more than the %d that are allowed", size, c.s.cfg.MaxRequestBytes)
		c.s.log.Warn("connection closed because of what it sent", "peer", c.peer(), "error", err)
		return nil, err
	}
	var b []byte
	for len(b) < int(size) {
		n := min(int(size)-len(b), max(readStep, len(b)))
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(r, b[len(b)-n:]); err != nil {
			return nil, err
		}
	}
	c.count()
	return b, nil
}

// count counts a packet that was received.
func (c *conn) count() {
	c.received.Add(1)
	c.s.received.Add(1)
}

// submit hands an item to the core. It fails when the server has ended.
func (c *conn) submit(it item) bool {
	select {
	case c.s.queue <- it:
		return true
	case <-c.s.coreDone:
		return false
	}
}

// wait waits for ready, and fails when the connection ends before.
func (c *conn) wait(ready <-chan struct{}) bool {
	select {
	case <-ready:
		return true
	case <-c.gone:
	case <-c.out.closing:
	}
	return false
}

// deliver puts a frame into the outbox.
func (c *conn) deliver(p parcel, now time.Time) {
	o := outgoing{frame: p.frame, answer: p.kind != sendEvent, last: p.kind == sendLast}
	if p.kind == sendEvent {
		if d := time.Duration(c.s.watchDelay.Load()); d > 0 {
			o.notBefore = now.Add(d)
		}
	}
	c.out.push(o)
}
