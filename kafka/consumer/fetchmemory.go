package consumer

import "sync"

// DefaultFetchMemoryBytes is the default of [GroupConfig.FetchMemoryBytes].
const DefaultFetchMemoryBytes = 64 << 20

// fetchMemory bounds how much the streams of one consumer ask for at once where
// that adapts to the rate. Each has the smallest fetch for granted; what is beyond
// it they share: who comes first takes what the rate wants, until one that has less than an
// even share is refused more. Those that have more then give it back, as soon as
// they have to do with it anyway. So one busy partition among a thousand idle ones
// has large fetches, and a thousand busy ones have even ones.
//
// At no time is the sum more than total beyond the smallest fetch of each. The
// methods may be called concurrently; nil bounds nothing.
type fetchMemory struct {
	mu     sync.Mutex
	total  int // bytes beyond the smallest fetch of each share
	used   int
	shares int
	short  int // shares that were refused more though they have less than an even part
}

func newFetchMemory(bytes int) *fetchMemory { return &fetchMemory{total: bytes} }

// fetchShare is what a stream has of it. Its methods may be called concurrently.
type fetchShare struct {
	of    *fetchMemory // nil: not bounded
	extra int          // bytes beyond the smallest fetch
	short bool
	left  bool
}

// join returns a share, and how much its stream may ask for at once at first: up
// to want.
func (m *fetchMemory) join(want int) (*fetchShare, int) {
	s := &fetchShare{of: m}
	if m == nil {
		return s, want
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares++
	got := m.resize(s, want)
	m.setShort(s, false) // it has not shown that it needs so much
	return s, got
}

// resize asks for another size and returns the one that it may have: never more
// than want, nor less than the smaller of want and the smallest fetch.
func (s *fetchShare) resize(want int) int {
	m := s.of
	if m == nil {
		return want
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.left {
		return min(want, MinAdaptedFetchBytes)
	}
	return m.resize(s, want)
}

func (m *fetchMemory) resize(s *fetchShare, want int) int {
	extra := max(want-MinAdaptedFetchBytes, 0)
	m.setShort(s, false)
	even := m.total / m.shares
	most := m.total - m.used + s.extra
	if m.short > 0 {
		most = min(most, even)
	}
	got := min(extra, most)
	m.setShort(s, got < extra && got < even)
	m.used += got - s.extra
	s.extra = got
	return min(want, MinAdaptedFetchBytes+got)
}

func (m *fetchMemory) setShort(s *fetchShare, short bool) {
	if s.short == short {
		return
	}
	s.short = short
	if short {
		m.short++
	} else {
		m.short--
	}
}

// leave gives the share back. A second call does nothing.
func (s *fetchShare) leave() {
	m := s.of
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.left {
		return
	}
	m.setShort(s, false)
	m.used -= s.extra
	m.shares--
	s.extra, s.left = 0, true
}
