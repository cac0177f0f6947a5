package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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
// have run out, or but few descriptors are left, it pauses and tries again (fault
// B05): the waiting peers are served when there is room.
func (s *Server) accept() {
	defer s.tasks.Done()
	pause := time.Duration(0)
	var room fileRoom
	var tcp *net.TCPConn // for which there is no room yet
	defer func() {
		if tcp != nil {
			tcp.Close()
		}
	}()
	for {
		var err error
		if tcp == nil {
			tcp, err = s.listener.AcceptTCP()
		}
		if err == nil {
			err = room.take()
		}
		if err == nil {
			pause = 0
			s.admit(tcp)
			tcp = nil
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

// spareFiles is how many of the files that may be open connections leave to
// others: to segments that are rolled, read or restored, and to the web server,
// which is to say what is wrong.
func spareFiles(limit uint64) uint64 { return max(4, min(limit/32, 32)) }

// errFewFiles says that connections have taken all descriptors that they may.
var errFewFiles = fmt.Errorf("the few files that may still be opened are left to the segments: %w", unix.EMFILE)

// fileRoom knows how many connections there is room for. While that is many, open
// files are not counted for each: some may be let in unseen, for a moment, since
// others open files too.
type fileRoom struct {
	unseen int
	until  time.Time
}

const (
	manyFiles  = 512
	unseenTime = 250 * time.Millisecond
)

// take reports whether there is room for a connection, which is open already.
func (r *fileRoom) take() error {
	if now := time.Now(); r.unseen == 0 || now.After(r.until) {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
			return nil // as good as none
		}
		open, err := openFiles()
		if passing(err) {
			return fmt.Errorf("count the open files: %w", err)
		} else if err != nil {
			return nil // the system does not tell
		}
		free := int(limit.Cur) - open - int(spareFiles(limit.Cur))
		if free < 0 {
			return errFewFiles
		}
		r.unseen, r.until = max(free-manyFiles, 0)/2, now.Add(unseenTime)
		return nil
	}
	r.unseen--
	return nil
}

// openFiles counts the descriptors of this process.
func openFiles() (int, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, errors.Join(err, dir.Close()) // not that of the folder
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
