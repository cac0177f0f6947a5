package broker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memory is what the connections of a broker read into, and bounds it
// ([Config.MaxRequestMemoryBytes]). A connection asks for it in three ways:
//
//   - The smallest buffer is always to be had, from the heap. Who holds no more
//     never waits for anybody.
//   - Larger ones come from the arena, three quarters of the bound. A request
//     that outgrows the smallest buffer is admitted with all that it will need,
//     first come, first served, and while it waits holds the smallest buffer
//     alone. So nobody who holds memory of the arena waits for more of it. Beyond
//     that, larger buffers are lent for reading ahead as long as nobody waits.
//   - A request larger than the largest buffer gets a mapping of its own, whose
//     pages count as they are read into, against the last quarter. When that is
//     used up, one such request at a time goes beyond it, up to its end, and the
//     others wait: that one waits for nobody, so that in the end each has its
//     turn.
//
// Together that is at most the bound, one request (at most
// [Config.MaxRequestBytes]), and 16 KiB for each connection in the middle of a
// request. A wait ends after the read time-out. While somebody waits, those who
// hold what is waited for and whose peers are slow are cut off, see look.
//
// Its methods may be called concurrently.
type memory struct {
	bounded bool
	limit   time.Duration   // of a wait; 0: none
	stop    <-chan struct{} // closed when the broker stops; drainBy is then the limit
	drainBy func() time.Time
	log     *slog.Logger

	small  chan []byte  // smallest buffers that are not in use
	wanted atomic.Int32 // len(queue), to be read without mu

	mu    sync.Mutex // guards all below
	arena *arena     // nil after close

	mappedBound, mapped int64   // bytes of mappings, but for beyond's
	beyond              *holder // whose request has gone beyond mappedBound

	queue, mappedQueue []*holder // who waits for the arena, and for a mapping's bytes
	holders            []*holder // who holds memory of either, in no order
	inUse              int64     // bytes that the holders hold

	stall    time.Duration // stallTime
	timer    *time.Timer   // of watch
	watching bool

	counts memoryCounts
}

// memoryCounts are what has happened so far.
type memoryCounts struct {
	waits, refused, evicted uint64
	waited                  time.Duration
}

// memoryState describes the memory at one moment.
type memoryState struct {
	memoryCounts
	inUse   int64 // bytes, but for smallest buffers
	waiting int   // connections
}

func (m *memory) state() memoryState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return memoryState{m.counts, m.inUse, len(m.queue) + len(m.mappedQueue)}
}

// mapStep is how many bytes of a mapping are counted at a time.
const mapStep = 1 << 20

// keptSmallest bounds how many smallest buffers are kept that are not in use.
// Unlike in a sync.Pool the garbage collector leaves them alone, so that a steady
// load allocates nothing.
const keptSmallest = 256

// errNoMemory ends a connection whose request has waited for memory too long.
var errNoMemory = errors.New("no memory for it within the time limit, as other requests hold all that is allowed")

// newMemory returns memory of so many bytes; 0 is no bound. A wait for it ends
// after limit, unless that is 0, and by drainBy once stop is closed.
func newMemory(bytes int64, limit time.Duration, stop <-chan struct{}, drainBy func() time.Time, log *slog.Logger) (*memory, error) {
	m := &memory{
		bounded: bytes > 0, limit: limit, stop: stop, drainBy: drainBy, log: log,
		small: make(chan []byte, keptSmallest),
		stall: stallTime,
	}
	if !m.bounded {
		bytes = DefaultMaxRequestMemoryBytes // then come mappings
	}
	forArena := max(bytes/4*3, largestBuffer)
	m.mappedBound = max(bytes-forArena, 0)
	var err error
	if m.arena, err = newArena(int(forArena)); err != nil {
		return nil, err
	}
	m.timer = time.AfterFunc(time.Hour, m.look)
	m.timer.Stop()
	return m, nil
}

// close gives the arena back to the system. No buffer may be in use.
func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer.Stop()
	a := m.arena
	m.arena = nil
	if a == nil {
		return nil
	}
	return a.close()
}

// contended reports whether somebody waits for memory of the arena.
func (m *memory) contended() bool { return m.wanted.Load() > 0 }

// take returns a buffer of the class, or when memory is short of a smaller one
// that is still of the class least, or else of the smallest. It does not wait.
func (m *memory) take(h *holder, class, least int) buffer {
	if class > 0 && !m.contended() {
		m.mu.Lock()
		for ; class >= max(least, 1) && len(m.queue) == 0; class-- { // nobody who waits is passed
			if b, ok := m.cut(h, classSize(class)); ok {
				m.mu.Unlock()
				b.class = class
				return b
			}
		}
		m.mu.Unlock()
	}
	b := buffer{home: inHeap, class: 0}
	select {
	case b.b = <-m.small:
	default:
		b.b = make([]byte, smallestBuffer)
	}
	return b
}

// takeFor returns a buffer for a request of n bytes, at most largestBuffer, and
// waits for it if wait is set, which wants a caller that holds no more than a
// smallest buffer. ok is false without an error when there is none now.
func (m *memory) takeFor(h *holder, n int, wait bool) (b buffer, ok bool, err error) {
	m.mu.Lock()
	if len(m.queue) == 0 {
		if b, ok = m.cut(h, n); ok {
			m.mu.Unlock()
			return b, true, nil
		}
	}
	if !wait || !m.bounded {
		m.mu.Unlock()
		return buffer{}, false, nil
	}
	if err := m.await(h, &m.queue, int64(n)); err != nil {
		return buffer{}, false, err
	}
	b, h.granted = h.granted, buffer{}
	return b, true, nil
}

// takeMapping returns a mapping for a request of n bytes, of which as many as
// have been read already and a step more can be used. It may wait.
func (m *memory) takeMapping(h *holder, n, read int) (buffer, error) {
	mem, err := mapMemory(n)
	if err != nil {
		return buffer{}, err
	}
	b := buffer{b: mem, home: inMapping, class: noClass}
	m.mu.Lock()
	h.whole = int64(n)
	m.mu.Unlock()
	if err := m.count(h, &b, min(n, read+mapStep)); err != nil {
		return buffer{}, errors.Join(err, unmapMemory(mem))
	}
	return b, nil
}

// extend lets a step more of a mapping be used. It may wait.
func (m *memory) extend(h *holder, b *buffer) error {
	return m.count(h, b, min(len(b.b), b.counted+mapStep))
}

// count lets the first bytes of a mapping be used, up to the given number.
func (m *memory) count(h *holder, b *buffer, bytes int) error {
	n := int64(bytes - b.counted)
	m.mu.Lock()
	if (m.beyond == h || len(m.mappedQueue) == 0) && m.allow(h, n) {
		m.mu.Unlock()
	} else if err := m.await(h, &m.mappedQueue, n); err != nil {
		return err
	}
	b.counted = bytes
	return nil
}

// give takes a buffer back and empties b.
func (m *memory) give(h *holder, b *buffer) {
	switch b.home {
	case inHeap:
		select {
		case m.small <- b.b:
		default: // enough are kept; the garbage collector takes it
		}
	case inArena:
		m.mu.Lock()
		m.arena.give(b.b, b.first)
		m.release(h, int64(len(b.b)))
		m.mu.Unlock()
	case inMapping:
		if err := unmapMemory(b.b); err != nil {
			m.log.Error("memory not given back", "error", err)
		}
		m.mu.Lock()
		m.mapped -= h.mapped
		h.mapped, h.whole = 0, 0
		if m.beyond == h {
			m.beyond = nil
		}
		m.release(h, int64(b.counted))
		m.mu.Unlock()
	}
	*b = buffer{}
}

// cut takes n bytes of the arena. The caller holds m.mu.
func (m *memory) cut(h *holder, n int) (buffer, bool) {
	b, first, ok := m.arena.take(n)
	if !ok {
		return buffer{}, false
	}
	m.hold(h, int64(len(b)))
	return buffer{b: b, home: inArena, class: noClass, first: first}, true
}

// allow counts n more bytes of a mapping, if they may be used now. The caller
// holds m.mu.
func (m *memory) allow(h *holder, n int64) bool {
	switch {
	case m.beyond == h, !m.bounded:
	case m.mapped+n <= m.mappedBound:
		m.mapped += n
		h.mapped += n
	case m.beyond == nil:
		m.beyond = h
		m.mapped -= h.mapped
		h.mapped = 0
	default:
		return false
	}
	m.hold(h, n)
	return true
}

// hold notes that h holds n more bytes. The caller holds m.mu.
func (m *memory) hold(h *holder, n int64) {
	if h.held == 0 {
		h.index = len(m.holders)
		m.holders = append(m.holders, h)
		h.looked = false
	}
	h.held += n
	m.inUse += n
}

// release notes that h holds n bytes less, and gives them to those who wait. The
// caller holds m.mu.
func (m *memory) release(h *holder, n int64) {
	m.inUse -= n
	if h.held -= n; h.held == 0 {
		last := len(m.holders) - 1
		m.holders[h.index] = m.holders[last]
		m.holders[h.index].index = h.index
		m.holders[last] = nil
		m.holders = m.holders[:last]
	}
	m.serve()
}

// serve gives memory to those who wait, in their order. The caller holds m.mu.
func (m *memory) serve() {
	for len(m.queue) > 0 {
		b, ok := m.cut(m.queue[0], int(m.queue[0].want))
		if !ok {
			break
		}
		m.queue[0].granted = b
		wakeFirst(&m.queue)
	}
	m.wanted.Store(int32(len(m.queue)))
	for len(m.mappedQueue) > 0 && m.allow(m.mappedQueue[0], m.mappedQueue[0].want) {
		wakeFirst(&m.mappedQueue)
	}
}

func wakeFirst(queue *[]*holder) {
	(*queue)[0].ready <- struct{}{}
	*queue = slices.Delete(*queue, 0, 1)
}

// await puts h at the end of a queue for n bytes and waits for its turn. The
// caller holds m.mu, which await unlocks.
func (m *memory) await(h *holder, queue *[]*holder, n int64) error {
	h.want = n
	*queue = append(*queue, h)
	m.wanted.Store(int32(len(m.queue)))
	m.counts.waits++
	m.watch()
	m.mu.Unlock()

	began := time.Now()
	err := m.waitFor(h)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.waited += time.Since(began)
	i := slices.Index(*queue, h)
	if i < 0 {
		if err != nil {
			<-h.ready // its turn came at the last moment
		}
		return nil
	}
	*queue = slices.Delete(*queue, i, i+1)
	if errors.Is(err, errNoMemory) {
		m.counts.refused++
	}
	m.serve() // those behind may want less
	return err
}

// waitFor waits until h is woken, or there is no sense in waiting.
func (m *memory) waitFor(h *holder) error {
	limit, err := m.limit, errNoMemory
	if limit == 0 {
		limit = math.MaxInt64
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for stop := m.stop; ; {
		select {
		case <-h.ready:
			return nil
		case <-h.done:
			return context.Canceled
		case <-timer.C:
			return err
		case <-stop:
			stop, err = nil, errStopping
			timer.Reset(time.Until(m.drainBy()))
		}
	}
}
