package broker

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// While somebody waits for memory, a connection that holds some must see its
// peer move so many bytes in so much time. Who is only slow passes; the rule is
// for peers that sit on what they have, and could otherwise keep everybody
// waiting for as long as the time-outs allow.
const (
	stallTime  = time.Second
	stallBytes = smallestBuffer
)

// holder is a connection as its memory sees it.
type holder struct {
	done  <-chan struct{} // closed when the connection ends
	still func() bool     // whether it is the peer's turn, and nothing comes of it
	evict func()          // ends the connection, without waiting for anything
	ready chan struct{}   // of capacity 1: a token when what it waits for is granted

	moved atomic.Int64 // bytes from and to the peer
	// What its goroutines wait for: the peer to send, the peer to take bytes, or
	// something for which the peer has made its own requests wait.
	reading, sending atomic.Int32
	parked           atomic.Bool

	// Guarded by the memory's lock, but for granted, which belongs to whoever has
	// taken the token of ready.
	held    int64 // bytes, but for smallest buffers
	mapped  int64 // of them, those counted against the bound for mappings
	index   int   // among the holders
	want    int64 // bytes, while it waits
	granted buffer
	seen    int64     // moved, when it last was enough
	since   time.Time // of seen
	evicted bool
}

// watch begins to look for holders that stand still. The caller holds m.mu.
func (m *memory) watch() {
	if m.watching {
		return
	}
	m.watching = true
	now := time.Now()
	for _, h := range m.holders {
		h.seen, h.since = h.moved.Load(), now
	}
	m.timer.Reset(m.stall / 4)
}

// look cuts off holders that stand still, no more than those who wait need, and
// comes back as long as somebody waits.
func (m *memory) look(now time.Time) {
	m.mu.Lock()
	if m.arena == nil || len(m.queue)+len(m.mappedQueue) == 0 {
		m.watching = false
		m.mu.Unlock()
		return
	}
	forArena, forMapping := wants(m.queue), wants(m.mappedQueue)
	var stalled []*holder
	for _, h := range m.holders {
		wanted := &forArena
		if h.mapped > 0 || m.beyond == h {
			wanted = &forMapping
		}
		if h.evicted { // and not gone yet
			*wanted -= h.held
			continue
		}
		if moved := h.moved.Load(); moved-h.seen >= stallBytes {
			h.seen, h.since = moved, now
			continue
		}
		if !h.still() {
			h.since = now // what it waits for is not the peer
			continue
		}
		if now.Sub(h.since) >= m.stall && *wanted > 0 {
			h.evicted = true
			m.counts.evicted++
			*wanted -= h.held
			stalled = append(stalled, h)
		}
	}
	m.timer.Reset(m.stall / 4)
	m.mu.Unlock()
	for _, h := range stalled {
		h.evict()
	}
}

// wants is how many bytes a queue waits for.
func wants(queue []*holder) (bytes int64) {
	for _, h := range queue {
		bytes += h.want
	}
	return bytes
}

// still reports whether the connection waits for its peer, and the kernel has
// nothing for it either: when this machine has stood still itself, bytes that
// came meanwhile must count for the peer.
func (c *conn) still() bool {
	h := &c.holder
	if h.parked.Load() {
		return true
	}
	poll := [1]unix.PollFd{}
	if h.reading.Load() > 0 {
		poll[0].Events |= unix.POLLIN
	}
	if h.sending.Load() > 0 {
		poll[0].Events |= unix.POLLOUT
	}
	if poll[0].Events == 0 {
		return false
	}
	silent := false
	err := c.in.raw.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		n, err := unix.Poll(poll[:], 0)
		silent = err == nil && n == 0
	})
	return err == nil && silent
}

// evict ends the connection because others need the memory that it holds. Unlike
// close it does not wait for a system call on the socket.
func (c *conn) evict() {
	c.evicted.Store(true)
	c.cancel()
	_ = c.in.tcp.CloseRead() // fails only when the connection has ended
	_ = c.in.tcp.CloseWrite()
}
