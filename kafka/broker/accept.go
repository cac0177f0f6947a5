package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the pause after an accept that failed for want of something.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// accept takes connections until the broker stops. When descriptors or memory
// have run out it pauses and tries again (fault B05): the waiting peers are
// served when there is room.
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
		if s.stopping.Load() {
			return
		}
		if !passing(err) {
			s.fail(fmt.Errorf("accept on %v: %w", s.Addr(), err))
			return
		}
		s.metrics.acceptErrors.Inc()
		pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
		s.acceptLog.log(s.log, slog.LevelWarn, "connection not accepted, trying again", "pause", pause, "error", err)
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

// admit starts to serve a connection, or closes it when there are too many.
func (s *Server) admit(tcp *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		tcp.Close()
		return
	}
	addr := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	limit, whose := s.cfg.MaxConnections, "all"
	full := limit > 0 && len(s.conns) >= limit
	if !full {
		limit, whose = s.cfg.MaxConnectionsPerAddress, addr.String()
		full = limit > 0 && s.perAddr[addr] >= limit
	}
	if full {
		tcp.Close()
		s.metrics.refusedConns.Inc()
		s.acceptLog.log(s.log, slog.LevelWarn, "connection refused: too many are open",
			"peer", tcp.RemoteAddr().String(), "open_of", whose, "limit", limit)
		return
	}
	c, err := s.newConn(tcp)
	if err != nil {
		tcp.Close()
		s.acceptLog.log(s.log, slog.LevelWarn, "connection not served", "peer", tcp.RemoteAddr().String(), "error", err)
		return
	}
	c.addr = addr
	s.conns[c] = struct{}{}
	s.perAddr[addr]++
	s.metrics.connsOpened.Inc()
	s.metrics.conns.Inc()
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		c.run()
	}()
}

// ended forgets a connection and says what ended it, if that was not its peer.
func (s *Server) ended(c *conn, err error) {
	s.mu.Lock()
	delete(s.conns, c)
	if s.perAddr[c.addr]--; s.perAddr[c.addr] == 0 {
		delete(s.perAddr, c.addr)
	}
	s.mu.Unlock()
	s.metrics.conns.Dec()
	var refused *refusedError
	switch {
	case c.evicted.Load():
		s.stalledLog.log(c.log, slog.LevelWarn, "connection closed: it was slow, or stood still, while others waited for the memory that it held", "error", err)
	case errors.Is(err, errNoMemory):
		s.stalledLog.log(c.log, slog.LevelWarn, "connection closed: raise --max-request-memory, or let fewer clients send large requests at once", "error", err)
	case errors.As(err, &refused):
		s.refusedLog.log(c.log, slog.LevelWarn, "connection closed because of what it sent", append(refused.where, "error", err)...)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.metrics.timedOutConns.Inc()
		c.log.Info("connection closed: it stood still", "error", err)
	case err == io.EOF, errors.Is(err, errStopping), errors.Is(err, errPanicked):
	default:
		c.log.Debug("connection ended", "error", err)
	}
}

// limitedLog passes at most one message a second to the log and says how many
// it kept back, so that neither a broken disk nor a confused peer fills the
// disk with words. The zero value is ready; it may be used concurrently.
type limitedLog struct {
	mu   sync.Mutex
	next time.Time
	kept int
}

func (l *limitedLog) log(logger *slog.Logger, level slog.Level, msg string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Before(l.next) {
		l.kept++
		l.mu.Unlock()
		return
	}
	kept := l.kept
	l.next, l.kept = now.Add(time.Second), 0
	l.mu.Unlock()
	if kept > 0 {
		args = append(args, "similar_not_logged", kept)
	}
	logger.Log(context.Background(), level, msg, args...)
}
