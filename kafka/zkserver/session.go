package zkserver

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"
)

const passwordBytes = 16

// session is one client's, over any number of connections one after the other.
type session struct {
	id       int64
	timeout  time.Duration // negotiated when it began; whole milliseconds
	password [passwordBytes]byte

	// heard is when a client was last heard of, in nanoseconds on the server's
	// clock, and patience for how long that holds, which the last connection has
	// negotiated. Readers of connections set the first, the core the second.
	heard    atomic.Int64
	patience time.Duration
	conn     *conn // nil while there is none
}

// appendSession appends what the log and snapshots keep.
func appendSession(b []byte, s *session) []byte {
	b = appendInt64(b, s.id)
	b = appendInt32(b, int32(s.timeout.Milliseconds()))
	return append(b, s.password[:]...)
}

func (d *decoder) session() *session {
	s := &session{id: d.int64(), timeout: time.Duration(d.int32()) * time.Millisecond}
	copy(s.password[:], d.take(passwordBytes))
	if s.id == 0 || s.timeout <= 0 {
		d.err = errMalformed
	}
	s.patience = s.timeout
	return s
}

// newSession returns a session with an id that no other has.
func (s *Server) newSession(timeout time.Duration) *session {
	var random [8 + passwordBytes]byte
	rand.Read(random[:]) // never fails
	// The first byte of an id is that of the server, in an ensemble.
	id := int64(binary.BigEndian.Uint64(random[:]) >> 8)
	for id == 0 || s.state.sessions[id] != nil {
		id++
	}
	n := &session{id: id, timeout: timeout, patience: timeout}
	copy(n.password[:], random[8:])
	return n
}

// negotiate brings the time-out that a client asks for, in milliseconds, into
// the server's bounds.
func (s *Server) negotiate(asked int32) time.Duration {
	d := time.Duration(asked) * time.Millisecond
	return min(max(d, s.cfg.MinSessionTimeout), s.cfg.MaxSessionTimeout).Truncate(time.Millisecond)
}

// excuse gives all sessions the time again for which the server stood still, as its
// disk did not answer or it was stopped by a signal: who has called meanwhile could
// not be heard.
func (s *Server) excuse(stood, now time.Duration) {
	s.log.Warn("the server stood still: sessions get that time again", "for", stood.Round(time.Millisecond), "sessions", len(s.state.sessions))
	for _, x := range s.state.sessions {
		heard := x.heard.Load()
		x.heard.CompareAndSwap(heard, min(heard+int64(stood), int64(now))) // else it has just been heard
	}
}

// expire ends the sessions that were not heard of within their time-outs.
func (s *Server) expire(now time.Duration) {
	for _, x := range s.state.sessions {
		if now-time.Duration(x.heard.Load()) >= x.patience {
			s.endSession(x, "its time-out has passed")
		}
	}
}

// endSession ends a session without being asked by its client, whose connection
// it closes without a word.
func (s *Server) endSession(x *session, why string) {
	s.log.Info("session ended", "session", sessionName(x.id), "why", why, "ephemerals", len(s.state.tree.ephemerals[x.id]))
	t := s.begin()
	s.must(t, change{kind: changeEndSession, session: x})
	s.commit(t)
	if x.conn != nil {
		s.sever(x.conn)
	}
}
