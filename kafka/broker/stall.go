package broker

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// While somebody waits for memory, a connection that holds some must see its
// peer move as much as it holds, or as its request has if that is more, within
// wholeStalls times stallTime. Who is behind that by stallTime may be cut off, the
// slowest first, and no more than those who wait need. So who sends nothing goes
// after little more than stallTime, and nobody is slow with what others want for
// more than two and a half seconds or so. While nobody waits, everybody may be as
// slow as the time-outs allow.
//
// A peer is not asked for more than largestRate in a second, as the largest
// requests take their time on any link.
const (
	stallTime   = 500 * time.Millisecond
	wholeStalls = 4
	largestRate = 8 << 20 // bytes
	looks       = 4       // in stallTime
)

// holder is a connection as its memory sees it.
type holder struct {
	done <-chan struct{} // closed when the connection ends
	// progress returns how many bytes have gone from and to the peer so far, and
	// whether it is the peer's turn.
	progress func() (bytes int64, peersTurn bool)
	evict    func()        // ends the connection, without waiting for anything
	ready    chan struct{} // of capacity 1: a token when what it waits for is granted

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
	whole   int64         // bytes of the request that has a mapping
	looked  bool          // seen is known
	seen    int64         // the progress at the last look
	late    time.Duration // how far behind its peer is, from 0
	evicted bool
}

// watch begins to look for holders that stand still. The caller holds m.mu.
func (m *memory) watch() {
	if m.watching {
		return
	}
	m.watching = true
	for _, h := range m.holders {
		h.looked = false
	}
	m.timer.Reset(m.stall / looks)
}

// look cuts off holders that are behind, no more than those who wait need, and
// comes back as long as somebody waits.
func (m *memory) look() {
	m.mu.Lock()
	if m.arena == nil || len(m.queue)+len(m.mappedQueue) == 0 {
		m.watching = false
		m.mu.Unlock()
		return
	}
	forArena, forMapping := wants(m.queue), wants(m.mappedQueue)
	wantedOf := func(h *holder) *int64 {
		if h.mapped > 0 || m.beyond == h {
			return &forMapping
		}
		return &forArena
	}
	var behind, cut []*holder
	for _, h := range m.holders {
		switch {
		case h.evicted: // and not gone yet
			*wantedOf(h) -= h.held
		case h.judge(m.stall):
			behind = append(behind, h)
		}
	}
	slices.SortFunc(behind, func(a, b *holder) int { return cmp.Compare(b.late, a.late) })
	for _, h := range behind {
		if wanted := wantedOf(h); *wanted > 0 {
			h.evicted = true
			m.counts.evicted++
			*wanted -= h.held
			cut = append(cut, h)
		}
	}
	m.timer.Reset(m.stall / looks)
	m.mu.Unlock()
	for _, h := range cut {
		h.evict()
	}
}

// judge brings up to date how far behind the peer is, and reports whether the
// holder may be cut off. A look counts for the same time however late it comes:
// it is this machine that is late then. The caller holds the memory's lock.
func (h *holder) judge(stall time.Duration) bool {
	bytes, peersTurn := h.progress()
	if !h.looked {
		h.looked, h.seen, h.late = true, bytes, 0
		return false
	}
	gained := max(bytes-h.seen, 0)
	h.seen += gained
	whole := wholeStalls * stall
	need := min(float64(max(h.held, h.whole)), largestRate*whole.Seconds())
	// Who is far ahead may not rest on that, who is far behind can make up for it.
	h.late -= time.Duration(min(float64(gained)/need, 1) * float64(whole))
	if peersTurn {
		h.late += stall / looks
	}
	h.late = min(max(h.late, 0), 2*stall)
	return peersTurn && h.late >= stall
}

// wants is how many bytes a queue waits for.
func wants(queue []*holder) (bytes int64) {
	for _, h := range queue {
		bytes += h.want
	}
	return bytes
}

// progress is what the memory asks for, see holder. What the kernel has of the
// peer unread counts as come, and what it keeps for the peer as not gone: when
// this machine has stood still itself, that is not held against the peer.
func (c *conn) progress() (bytes int64, peersTurn bool) {
	h := &c.holder
	if h.parked.Load() {
		return h.moved.Load(), true
	}
	reading, sending := h.reading.Load() > 0, h.sending.Load() > 0
	var unread, unsent int
	writable := false
	var failed error
	err := c.in.raw.Control(func(fd uintptr) {
		unread, unsent, writable, failed = socketState(int(fd))
	})
	if err != nil || failed != nil {
		return h.moved.Load(), false // it has ended, or is about to
	}
	// With so much unread it is this machine that is slow.
	enough := smallestBuffer
	if n := c.srv.cfg.ReceiveBufferBytes; n > 0 {
		enough = min(enough, n/4)
	}
	bytes = int64(unread) - int64(unsent) + h.moved.Load()
	return bytes, reading && unread < max(enough, 1) || sending && !writable
}

// socketState returns how many bytes have come and are not read, how many were
// sent and have not arrived, and whether the socket takes more.
func socketState(fd int) (unread, unsent int, writable bool, err error) {
	if unread, err = unix.IoctlGetInt(fd, unix.TIOCINQ); err != nil {
		return 0, 0, false, err
	}
	if unsent, err = unix.IoctlGetInt(fd, unix.TIOCOUTQ); err != nil {
		return 0, 0, false, err
	}
	poll := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(poll[:], 0)
	return unread, unsent, n > 0, err
}

// evict ends the connection because others need the memory that it holds. Unlike
// close it does not wait for a system call on the socket.
func (c *conn) evict() {
	c.evicted.Store(true)
	c.cancel()
	_ = c.in.tcp.CloseRead() // fails only when the connection has ended
	_ = c.in.tcp.CloseWrite()
}
