package coord

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Session is one session of a client with ZooKeeper, over as many connections
// as it takes. Its methods may be called by several goroutines at the same time.
//
// A request of a session is carried out in that session or not at all: after the
// session's end it fails with [ErrExpired], or [ErrClosed] after Close.
type Session struct {
	requests
	client *Client
	conn   *zk.Conn
	events <-chan zk.Event // closed when the library is done with conn
	began  time.Time

	id         atomic.Int64 // 0 until there is one
	negotiated atomic.Int64 // time-out, nanoseconds
	zxid       atomic.Int64 // of the last answer
	lease      lease

	ctx         context.Context // ends with the session; its cause is ErrExpired or ErrClosed
	cancel      context.CancelCauseFunc
	dials       context.Context // ends when no connection is to be made any more
	stopDialing context.CancelFunc
	expired     atomic.Bool   // also if that became known after Close
	established chan struct{} // closed when the session is there

	mu   sync.Mutex
	link *link         // the connection, from the dialling on; nil before the first
	up   chan struct{} // closed while requests can be sent
	isUp bool
	down time.Time // since when it is not, after it was
	over bool      // no call of the library begins any more
	arms map[arm]<-chan zk.Event

	calls sync.WaitGroup // of the library
	// Of the library's goroutine that connects.
	ring    ring
	dialing dialing
}

// ID returns the session's id at the server.
func (s *Session) ID() int64 { return s.id.Load() }

// Timeout returns the negotiated time-out: the server ends the session when it
// has heard nothing of it for that long.
func (s *Session) Timeout() time.Duration { return time.Duration(s.negotiated.Load()) }

// Context ends when the session is known to be gone: the server has said so, or
// the client was closed. It does not end while no server can be reached, since
// ZooKeeper keeps its sessions over a restart, and then this one may still be
// alive, with its ephemeral nodes: see Valid for what may be done in the meantime.
func (s *Session) Context() context.Context { return s.ctx }

// OutOfTouch returns for how long the session has had no connection, 0 while it
// has one. Longer than its time-out, and the server has likely ended it.
func (s *Session) OutOfTouch() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isUp || s.down.IsZero() {
		return 0
	}
	return time.Since(s.down)
}

// CreateEphemeral makes a node that vanishes with the session and, where they
// are missing, persistent ones above it. That a node with that value is there
// which belongs to this session is success: the answer to an earlier attempt was
// lost. Any other node is a *[ConflictError], one with the same value of an
// older session too: that one will vanish.
func (s *Session) CreateEphemeral(ctx context.Context, path string, data []byte) (Stat, error) {
	err := checkRequest(path, data)
	var st Stat
	if err == nil {
		st, err = s.createEphemeral(ctx, path, data)
	}
	if err != nil {
		return Stat{}, fmt.Errorf("create ephemeral %s: %w", path, err)
	}
	return st, nil
}

// end makes the session one that is gone, for ever. It waits for nothing.
func (s *Session) end(cause error) {
	if cause == ErrExpired {
		s.expired.Store(true)
		s.stopDialing()
	}
	s.lease.end()
	s.cancel(cause)
}

// gone returns why the session is over, or nil.
func (s *Session) gone() error { return context.Cause(s.ctx) }
