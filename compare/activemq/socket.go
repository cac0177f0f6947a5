package activemq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"kafkalab/compare/internal/coalesce"
)

// socket is the connection below go-stomp.
//
// The library cleans up properly on one path only, when its reader meets an
// error; on the others a Send that waits for room holds the lock that the
// clean-up needs, and both stand still for ever. So a socket swallows what is
// written after the end, and lets only Read report it. And it tells of writes,
// so that a sender can wait for room outside of the library.
type socket struct {
	net.Conn
	sock  *coalesce.Conn // nil with the plain socket
	raw   net.Conn
	wrote chan struct{} // a write has happened since the last look

	once   sync.Once
	ended  chan struct{} // closed when the connection has ended
	err    error         // why; set before ended is closed
	report error         // of the reading goroutine: what the broker complained of
}

func dialSocket(ctx context.Context, addr string, coalesced bool) (*socket, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: raw, raw: raw, wrote: make(chan struct{}, 1), ended: make(chan struct{})}
	if coalesced {
		s.sock = coalesce.New(raw)
		s.Conn = s.sock
	}
	return s, nil
}

// Read notes what the broker reports in its last frame, an ERROR, which the
// library drops when nobody waits for an answer, and why reading ended.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if bytes.HasPrefix(p[:n], []byte("ERROR\n")) {
		s.report = fmt.Errorf("the broker reports %q", p[:min(n, 300)])
	}
	if err != nil {
		reason := err
		if errors.Is(err, io.EOF) {
			reason = errors.New("the broker closed the connection")
		}
		if s.report != nil {
			reason = s.report
		}
		s.end(reason)
	}
	return n, err
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
