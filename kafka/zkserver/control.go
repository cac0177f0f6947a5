package zkserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The methods of this file are for tests, which want to see what a client does
// when something happens that is rare by itself.

// SessionInfo describes a session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // as negotiated by the last connection
	Connected  bool
	Ephemerals []string // paths, sorted
}

// sessionName is the form in which ids of sessions are written.
func sessionName(id int64) string { return fmt.Sprintf("%#x", id) }

// call lets the core call f, and returns when what f did is safe and all that
// it sent is on its way.
func (s *Server) call(f func()) error {
	done := make(chan struct{})
	select {
	case s.queue <- item{call: func() {
		f()
		s.after = append(s.after, func() { close(done) })
	}}:
	case <-s.coreDone:
		return ErrClosed
	}
	select {
	case <-done:
		return nil
	case <-s.coreDone:
		select {
		case <-done:
			return nil
		default:
			return ErrClosed
		}
	}
}

// Expire ends a session at once, as if its time-out had passed: its ephemeral
// nodes are removed and its connection is closed without a word. The error wraps
// [ErrNoSession] or is [ErrClosed]. For tests.
func (s *Server) Expire(session int64) error {
	err := fmt.Errorf("session %s: %w", sessionName(session), ErrNoSession)
	if closed := s.call(func() {
		if x := s.state.sessions[session]; x != nil {
			s.endSession(x, "Expire was called")
			err = nil
		}
	}); closed != nil {
		return closed
	}
	return err
}

// Drop closes the connection of a session, which lives on. The error wraps
// [ErrNoSession] or [ErrNotConnected], or is [ErrClosed]. For tests.
func (s *Server) Drop(session int64) error {
	err := fmt.Errorf("session %s: %w", sessionName(session), ErrNoSession)
	if closed := s.call(func() {
		switch x := s.state.sessions[session]; {
		case x == nil:
		case x.conn == nil:
			err = fmt.Errorf("session %s: %w", sessionName(session), ErrNotConnected)
		default:
			s.sever(x.conn)
			err = nil
		}
	}); closed != nil {
		return closed
	}
	return err
}

// DelayWatches holds back each watch event that fires from now on for d, and
// with it all that is sent behind it on the same connection: a client may rely
// on it that it sees no answer that is newer than an event before that event.
// Choose d well below the time-outs of the sessions, as answers to pings wait as
// well. 0 ends it for later events. For tests.
func (s *Server) DelayWatches(d time.Duration) { s.watchDelay.Store(int64(max(d, 0))) }

// Sessions returns the sessions that there are, by id; none once the server has
// ended. For tests.
func (s *Server) Sessions() []SessionInfo {
	var out []SessionInfo
	if s.call(func() {
		for id, x := range s.state.sessions {
			out = append(out, SessionInfo{ID: id, Timeout: x.patience, Connected: x.conn != nil, Ephemerals: s.state.tree.ephemeralsOf(id)})
		}
	}) != nil {
		return nil
	}
	slices.SortFunc(out, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Requests returns how many requests of each kind were carried out since the
// start, failed ones included: "create", "getData", "ping" and so on, "connect"
// for handshakes, and "unknown". It is nil once the server has ended. For tests.
func (s *Server) Requests() map[string]int64 {
	var out map[string]int64
	if s.call(func() { out = maps.Clone(s.requests) }) != nil {
		return nil
	}
	return out
}
