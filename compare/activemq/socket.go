package activemq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"kafkalab/compare/internal/coalesce"
)

// socket is the connection below go-stomp.
//
// The library cleans up properly on one path only, when its reader meets an
// error. On the others, an ERROR frame among them, a Send that waits holds the
// lock that the clean-up needs, and both stand still. So a socket swallows
// what is written after the end, and lets only Read report it, as it does an
// ERROR frame on a connection that sends. And it tells of writes, so that a
// sender can wait for room outside of the library.
type socket struct {
	net.Conn
	sock   *coalesce.Conn // nil with the plain socket
	raw    net.Conn
	sender bool          // what comes in are receipts and errors only
	wrote  chan struct{} // a write has happened since the last look

	once  sync.Once
	ended chan struct{} // closed when the connection has ended
	err   error         // why; set before ended is closed
}

func dialSocket(ctx context.Context, addr string, coalesced, sender bool) (*socket, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: raw, raw: raw, sender: sender, wrote: make(chan struct{}, 1), ended: make(chan struct{})}
	if coalesced {
		s.sock = coalesce.New(raw)
		s.Conn = s.sock
	}
	return s, nil
}

// settleTime is ample for a call to get from one goroutine to another.
const settleTime = 50 * time.Millisecond

// Read notes why reading ended.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.sender {
		// The broker's last frame. What came before it in the same read is
		// dropped with it: a receipt that comes with an error is no success.
		if i := bytes.Index(p[:n], []byte("ERROR\n")); i >= 0 {
			s.end(fmt.Errorf("the broker reports %q", p[i:min(n, i+300)]))
			s.settle()
			return 0, s.err
		}
	}
	if err != nil {
		reason := err
		if errors.Is(err, io.EOF) {
			reason = errors.New("the broker closed the connection")
		}
		s.end(reason)
		s.settle()
	}
	return n, err
}

// settle lets calls that were begun before the end reach the library's loop,
// which answers them when it ends, but not those that come later. Calls that
// begin now are refused by the link.
func (s *socket) settle() {
	if !errors.Is(s.err, net.ErrClosed) { // not our own doing
		time.Sleep(settleTime)
	}
}

// Write writes, and never fails: Read does, soon after.
func (s *socket) Write(p []byte) (int, error) {
	if _, err := s.Conn.Write(p); err != nil {
		s.end(err)
		// Makes Read return, if it has not. What it says is the same.
		_ = s.raw.Close()
	}
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

// Close writes what has gathered and closes the connection.
func (s *socket) Close() error {
	s.end(net.ErrClosed)
	return s.Conn.Close()
}

// abort closes the connection at once, so that every call on it returns.
func (s *socket) abort() {
	s.end(net.ErrClosed)
	if s.sock != nil {
		s.sock.Abort()
	}
	_ = s.raw.Close()
}

func (s *socket) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.ended)
	})
}

// because returns why the connection has ended, or err if it has not.
func (s *socket) because(err error) error {
	select {
	case <-s.ended:
		return s.err
	default:
		return err
	}
}
