package zktest

import (
	"encoding/binary"
	"maps"
	"sync"
)

// maxFrameBytes is the length from which on a connection is taken to be no
// session: the four letters of a word, read as a length, are far beyond it.
const maxFrameBytes = 64 << 20

// keepBytes is how much of a frame a splitter hands out: the whole of each
// packet of a handshake, and the head of all others.
const keepBytes = 256

// splitter cuts one direction of a connection into frames, whatever pieces it
// comes in. It never holds more than the start of one.
type splitter struct {
	frame func(start []byte) // called with the first keepBytes of each frame

	lengthBytes int // how many of the four have come
	length      uint32
	start       []byte
	skip        int // bytes behind the start that belong to the frame
	off         bool
}

func (s *splitter) feed(b []byte) {
	for len(b) > 0 && !s.off {
		switch {
		case s.skip > 0:
			n := min(s.skip, len(b))
			s.skip -= n
			b = b[n:]
		case s.lengthBytes < 4:
			s.length = s.length<<8 | uint32(b[0])
			s.lengthBytes++
			b = b[1:]
			s.off = s.lengthBytes == 4 && s.length > maxFrameBytes
			if s.lengthBytes == 4 && s.length == 0 {
				s.end()
			}
		default:
			want := min(int(s.length), keepBytes) - len(s.start)
			n := min(want, len(b))
			s.start = append(s.start, b[:n]...)
			b = b[n:]
			if n == want {
				s.end()
			}
		}
	}
}

func (s *splitter) end() {
	s.skip = int(s.length) - len(s.start)
	s.frame(s.start)
	s.start, s.length, s.lengthBytes = s.start[:0], 0, 0
}

// ledger counts the requests of one line and keeps the sessions that were seen
// in its handshakes.
type ledger struct {
	mu       sync.Mutex
	requests map[Op]int64
	sessions map[int64]Session
}

func newLedger() *ledger {
	return &ledger{requests: make(map[Op]int64), sessions: make(map[int64]Session)}
}

// ofClient returns a splitter for what a client sends on one connection.
func (l *ledger) ofClient() *splitter {
	first := true
	return &splitter{frame: func(start []byte) {
		if first {
			first = false
			return // the handshake
		}
		if len(start) < 8 {
			return
		}
		l.mu.Lock()
		l.requests[Op(binary.BigEndian.Uint32(start[4:]))]++
		l.mu.Unlock()
	}}
}

// ofServer returns a splitter for what a server sends on one connection.
func (l *ledger) ofServer() *splitter {
	first := true
	return &splitter{frame: func(start []byte) {
		if !first {
			return
		}
		first = false
		s, err := parseHandshake(start)
		if err != nil || s.ID == 0 {
			return // refused
		}
		l.mu.Lock()
		l.sessions[s.ID] = s
		l.mu.Unlock()
	}}
}

func (l *ledger) session(id int64) (Session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.sessions[id]
	return s, ok
}

func (l *ledger) counts() map[Op]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.requests)
}
