package zkserver

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the pause after an accept that failed for want of something.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// accept takes connections until the server stops. When descriptors or memory
// have run out it pauses and tries again (fault B05).
func (s *Server) accept() {
	defer s.tasks.Done()
	pause := time.Duration(0)
	for {
		tcp, err := s.listener.AcceptTCP()
		if err == nil {
			pause = 0
			s.admit(tcp)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if !passing(err) {
			s.fail(fmt.Errorf("accept on %v: %w", s.Addr(), err))
			return
		}
		pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
		s.log.Warn("connection not accepted, trying again", "pause", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-s.stop:
			return
		}
	}
}

// passing reports whether an accept may succeed later.
func passing(err error) bool {
	for _, e := range []syscall.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EPROTO, unix.EINTR, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit starts to serve a connection, or closes it when there are too many or
// the server ends.
func (s *Server) admit(tcp *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		tcp.Close()
		return
	}
	select {
	case <-s.coreDone: // failed: nobody would answer
		tcp.Close()
		return
	default:
	}
	if limit := s.cfg.MaxConnections; limit > 0 && len(s.conns) >= limit {
		tcp.Close()
		if s.refused.Add(1) == 1 {
			s.log.Warn("connection refused: too many are open; further ones are refused without a word", "peer", tcp.RemoteAddr().String(), "limit", limit)
		}
		return
	}
	c := newConn(s, tcp)
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}
