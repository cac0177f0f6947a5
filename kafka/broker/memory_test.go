package broker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestArena compares the arena with a plain list of its units, at random.
func TestArena(t *testing.T) {
	rnd := seeded(t)
	type piece struct {
		b     []byte
		first int
	}
	for _, units := range []int{1, 63, 64, 65, 129, 200} {
		a, err := newArena(units*arenaUnit - 1)
		if err != nil {
			t.Fatal(err)
		}
		taken := make([]bool, units)
		mark := func(p piece, to bool) {
			for i := range len(p.b) / arenaUnit {
				taken[p.first+i] = to
			}
		}
		var pieces []piece
		for range 3000 {
			if len(pieces) > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(len(pieces))
				a.give(pieces[i].b, pieces[i].first)
				mark(pieces[i], false)
				pieces = slices.Delete(pieces, i, i+1)
			} else {
				bytes := 1 + rnd.IntN(1+units*arenaUnit>>rnd.IntN(6))
				want := firstFit(taken, (bytes+arenaUnit-1)/arenaUnit)
				b, first, ok := a.take(bytes)
				if ok != (want >= 0) || ok && (first != want || len(b) < bytes || len(b) >= bytes+arenaUnit || cap(b) != len(b)) {
					t.Fatalf("%d units: take of %d bytes gave %d at %d, %v; want unit %d of %v", units, bytes, len(b), first, ok, want, taken)
				}
				if ok {
					b[0], b[len(b)-1] = 1, 1 // it is there
					p := piece{b, first}
					mark(p, true)
					pieces = append(pieces, p)
				}
			}
			used := 0
			for _, is := range taken {
				if is {
					used++
				}
			}
			if a.used != used {
				t.Fatalf("%d units are counted as used, want %d", a.used, used)
			}
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// firstFit is the first of n units in a row that are not taken, or -1.
func firstFit(taken []bool, n int) int {
	row := 0
	for i, is := range taken {
		if row++; is {
			row = 0
		}
		if row == n {
			return i + 1 - n
		}
	}
	return -1
}

// testMemory is memory of a broker that may stop.
func testMemory(t *testing.T, bytes int64, limit time.Duration) (m *memory, stop func()) {
	t.Helper()
	stopped := make(chan struct{})
	m, err := newMemory(bytes, limit, stopped, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	return m, func() { close(stopped) }
}

// testHolder is a connection for whose peer nobody ever waits. end ends it.
func testHolder() (h *holder, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	return &holder{done: ctx.Done(), ready: make(chan struct{}, 1), progress: func() (int64, bool) { return 0, false }, evict: cancel}, cancel
}

func (m *memory) untilWaiting(t testing.TB, n int) {
	t.Helper()
	until(t, "requests wait for memory", func() bool { return m.state().waiting == n })
}

// got is the outcome of a takeFor.
type got struct {
	name string
	b    buffer
	err  error
}

// askFor takes memory for a request of n bytes in the background.
func askFor(m *memory, h *holder, name string, n int, to chan<- got) {
	go func() {
		b, _, err := m.takeFor(h, n, true)
		to <- got{name, b, err}
	}()
}

func (g got) want(t *testing.T, name string, err error) buffer {
	t.Helper()
	if g.name != name || !errors.Is(g.err, err) || err == nil && g.b.home != inArena {
		t.Fatalf("%s got %d bytes, %v; want %s with %v", g.name, len(g.b.b), g.err, name, err)
	}
	return g.b
}

// TestMemoryFirstComeFirstServed: nobody passes a request that waits, neither
// one that is smaller nor one that only wants to read ahead; who needs no more
// than a smallest buffer goes on.
func TestMemoryFirstComeFirstServed(t *testing.T) {
	m, _ := testMemory(t, 1, 0) // room for one largest buffer
	a, _ := testHolder()
	first := m.take(a, 1, 0)
	if len(first.b) != 64<<10 {
		t.Fatalf("got %d bytes", len(first.b))
	}
	out := make(chan got, 2)
	b, _ := testHolder()
	c, _ := testHolder()
	askFor(m, b, "large", largestBuffer, out)
	m.untilWaiting(t, 1)
	askFor(m, c, "small", 20<<10, out)
	m.untilWaiting(t, 2)
	if s := m.take(a, 3, 0); s.home != inHeap || len(s.b) != smallestBuffer {
		t.Errorf("who reads ahead got %d bytes while others wait", len(s.b))
	}
	m.give(a, &first)
	large := (<-out).want(t, "large", nil)
	m.untilWaiting(t, 1)
	m.give(b, &large)
	small := (<-out).want(t, "small", nil)
	m.give(c, &small)
	if s := m.state(); s.inUse != 0 || s.waiting != 0 || s.waits != 2 || len(m.holders) != 0 {
		t.Errorf("in the end %+v, %d holders", s, len(m.holders))
	}
}

// TestMemoryWaitEnds: a wait ends by its limit, with its connection, or with the
// broker; whoever waits behind it goes on.
func TestMemoryWaitEnds(t *testing.T) {
	for _, row := range []struct {
		name  string
		limit time.Duration
		end   func(endHolder, stop func())
		err   error
	}{
		{"limit", time.Millisecond, func(_, _ func()) {}, errNoMemory},
		{"connection", 0, func(end, _ func()) { end() }, context.Canceled},
		{"broker", 0, func(_, stop func()) { stop() }, errStopping},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, stop := testMemory(t, 1, row.limit)
			a, _ := testHolder()
			held := m.take(a, 1, 0)
			b, end := testHolder()
			out := make(chan got, 1)
			askFor(m, b, "large", largestBuffer, out)
			if row.limit == 0 {
				m.untilWaiting(t, 1)
			}
			row.end(end, stop)
			(<-out).want(t, "large", row.err)
			if got, ok, err := m.takeFor(b, 20<<10, true); !ok || err != nil {
				t.Errorf("nobody waits any more, and there is room, but: %v, %v", ok, err)
			} else {
				m.give(b, &got)
			}
			m.give(a, &held)
			if s := m.state(); s.inUse != 0 || s.waiting != 0 {
				t.Errorf("in the end %+v", s)
			}
		})
	}
}

// TestMemoryMappings: requests larger than any buffer share what there is for
// them as their bytes come. One at a time goes beyond it and waits for nobody.
func TestMemoryMappings(t *testing.T) {
	m, _ := testMemory(t, 8<<20, 0)
	if m.mappedBound != 2<<20 {
		t.Fatalf("%d bytes are for mappings", m.mappedBound)
	}
	const size = 5 << 20
	a, _ := testHolder()
	b, _ := testHolder()
	c, _ := testHolder()
	ofA, errA := m.takeMapping(a, size, smallestBuffer)
	ofB, errB := m.takeMapping(b, size, smallestBuffer)
	if errA != nil || errB != nil || len(ofA.usable()) != smallestBuffer+mapStep || len(ofA.b) != size || m.beyond != b {
		t.Fatalf("%v, %v, %d of %d bytes can be used; beyond the bound is %p, want %p", errA, errB, len(ofA.usable()), len(ofA.b), m.beyond, b)
	}
	var wg sync.WaitGroup
	finish := func(h *holder, take func() (buffer, error)) {
		wg.Go(func() {
			of, err := take()
			for err == nil && of.counted < size {
				err = m.extend(h, &of)
			}
			if err != nil {
				t.Error(err)
			}
			m.give(h, &of)
		})
	}
	finish(c, func() (buffer, error) { return m.takeMapping(c, size, smallestBuffer) })
	m.untilWaiting(t, 1)
	finish(a, func() (buffer, error) { return ofA, nil }) // does not pass c
	m.untilWaiting(t, 2)
	for ofB.counted < size {
		if err := m.extend(b, &ofB); err != nil {
			t.Fatal(err)
		}
	}
	m.give(b, &ofB)
	wg.Wait()
	if s := m.state(); s.inUse != 0 || s.waiting != 0 || m.mapped != 0 || m.beyond != nil {
		t.Errorf("in the end %+v, %d bytes of mappings, beyond %p", s, m.mapped, m.beyond)
	}
}

// TestMemoryUnbounded: without a bound nobody waits.
func TestMemoryUnbounded(t *testing.T) {
	m, _ := testMemory(t, 0, 0)
	h, _ := testHolder()
	for {
		if _, ok, err := m.takeFor(h, largestBuffer, true); err != nil {
			t.Fatal(err)
		} else if !ok {
			break // the arena is full
		}
	}
	for range 100 {
		b, err := m.takeMapping(h, 100<<20, largestBuffer)
		for err == nil && b.counted < len(b.b) {
			err = m.extend(h, &b)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.give(h, &b)
	}
	if s := m.state(); s.waits != 0 {
		t.Errorf("%d had to wait", s.waits)
	}
}

// TestMemoryNeverLocks: whatever many connections ask for at once, larger than
// all there is and while they hold what they have read ahead, they all get it in
// the end, and never is more in use than the bound and one request.
func TestMemoryNeverLocks(t *testing.T) {
	const bound, largest = 4 << 20, 6 << 20
	m, _ := testMemory(t, bound, 0)
	seed := seeded(t).Uint64()
	most := int64(0)
	var mu sync.Mutex
	look := func() {
		s := m.state()
		mu.Lock()
		most = max(most, s.inUse)
		mu.Unlock()
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			h, _ := testHolder()
			for range 50 {
				ahead := m.take(h, rnd.IntN(bufferClasses), 0)
				size := 1 + rnd.IntN(largest>>rnd.IntN(8))
				switch {
				case size <= len(ahead.b):
					m.give(h, &ahead)
					continue
				case size <= largestBuffer:
					b, ok, err := m.takeFor(h, size, ahead.home == inHeap)
					if err != nil {
						t.Error(err)
					}
					if ok {
						look()
						m.give(h, &ahead)
						m.give(h, &b)
						continue
					}
				}
				b, err := m.takeMapping(h, size, len(ahead.b))
				m.give(h, &ahead)
				for err == nil && b.counted < size {
					look()
					err = m.extend(h, &b)
				}
				if err != nil {
					t.Error(err)
				}
				m.give(h, &b)
			}
		})
	}
	wg.Wait()
	if s := m.state(); s.inUse != 0 || s.waiting != 0 || m.mapped != 0 || m.beyond != nil || m.arena.used != 0 || len(m.holders) != 0 {
		t.Errorf("in the end %+v, mappings %d, beyond %p, arena %d, holders %d", s, m.mapped, m.beyond, m.arena.used, len(m.holders))
	}
	if most > bound+largest {
		t.Errorf("%d bytes were in use, more than the bound and one request", most)
	}
}

// TestMemoryStall: while somebody waits, who holds memory and is slow is cut off,
// the slowest first, and nobody else: not who is fast enough, not who waits for
// the disk, and no more than are needed.
func TestMemoryStall(t *testing.T) {
	const (
		each  = 31 * arenaUnit // of 129 units: four of them, and 5 are left
		whole = each / (wholeStalls * looks)
	)
	type peer struct {
		name  string
		turn  bool
		moves int64 // bytes from one look to the next
	}
	fast, disk := peer{"fast enough", true, whole + 1}, peer{"waits for the disk", false, 0}
	for _, row := range []struct {
		name   string
		peers  []peer
		claims int      // requests that wait, of each bytes
		cut    []string // in this order
	}{
		{"silent", []peer{fast, disk, fast, {"silent", true, 0}}, 1, []string{"silent"}},
		{"dripping", []peer{fast, {"dripping", true, 1}, disk, fast}, 1, []string{"dripping"}},
		{"of what it holds too little", []peer{fast, {"slow", true, whole / 4}, disk, fast}, 1, []string{"slow"}},
		{"the slowest first", []peer{{"slow", true, whole / 8}, {"dripping", true, 1}, {"silent", true, 0}, fast}, 2, []string{"silent", "dripping"}},
		{"none", []peer{fast, disk, fast, disk}, 1, nil},
		{"nobody waits", []peer{{"silent", true, 0}, {"silent", true, 0}, disk, fast}, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, _ := testMemory(t, 1, 0)
			var cut []string
			var give []func()
			moved := make([]int64, len(row.peers))
			for i, p := range row.peers {
				h, _ := testHolder()
				h.progress = func() (int64, bool) { return moved[i], p.turn }
				b, ok, err := m.takeFor(h, each, true)
				if !ok || err != nil {
					t.Fatal(ok, err)
				}
				gone := sync.OnceFunc(func() { m.give(h, &b) })
				give = append(give, gone)
				h.evict = func() {
					cut = append(cut, p.name)
					gone()
				}
			}
			m.mu.Lock()
			m.watching = true // only the test looks
			m.mu.Unlock()
			over := make(chan struct{})
			var wg sync.WaitGroup
			for i := range row.claims {
				waiter, _ := testHolder()
				wg.Go(func() {
					b, _, err := m.takeFor(waiter, each, true)
					if err != nil {
						t.Error(err)
					}
					<-over
					m.give(waiter, &b)
				})
				m.untilWaiting(t, i+1)
			}
			for range 10 * wholeStalls * looks {
				m.look()
				m.timer.Stop()
				for i, p := range row.peers {
					moved[i] += p.moves
				}
			}
			if !slices.Equal(cut, row.cut) {
				t.Errorf("cut off: %q, want %q", cut, row.cut)
			}
			if s := m.state(); s.evicted != uint64(len(row.cut)) {
				t.Errorf("%d are counted as cut off, want %d", s.evicted, len(row.cut))
			}
			for _, gone := range give {
				gone()
			}
			close(over)
			wg.Wait()
		})
	}
}

// TestProgress: what the kernel has of a peer counts as come and what it keeps for
// the peer as not gone; it is not the peer's turn while much is unread, or the
// socket takes more.
func TestProgress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	peer, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	own, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	tcp := own.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{srv: &Server{}, in: reader{raw: raw}}
	want := func(what string, bytes int64, turn bool) {
		t.Helper()
		until(t, what, func() bool {
			b, is := c.progress()
			return b == bytes && is == turn
		})
	}
	want("nobody waits for the peer", 0, false)
	c.holder.reading.Store(1)
	want("the peer is silent", 0, true)
	if _, err := peer.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	want("a little is unread", 100, true)
	if _, err := peer.Write(make([]byte, smallestBuffer)); err != nil {
		t.Fatal(err)
	}
	want("much is unread", 100+smallestBuffer, false)
	if _, err := io.ReadFull(own, make([]byte, 100+smallestBuffer)); err != nil {
		t.Fatal(err)
	}
	c.holder.moved.Add(100 + smallestBuffer)
	want("all is read", 100+smallestBuffer, true)

	c.holder.reading.Store(0)
	c.holder.sending.Store(1)
	want("the socket takes more", 100+smallestBuffer, false)
	sent := int64(0)
	until(t, "the peer reads nothing and the socket is full", func() bool {
		if err := tcp.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, _ := own.Write(make([]byte, 1<<20)) // the deadline ends it
		sent += int64(n)
		c.holder.moved.Add(int64(n))
		bytes, turn := c.progress()
		return turn && bytes < 100+smallestBuffer+sent
	})
	if _, err := io.CopyN(io.Discard, peer, sent); err != nil {
		t.Fatal(err)
	}
	want("the peer has read all", 100+smallestBuffer+sent, false)
	c.holder.parked.Store(true)
	if _, turn := c.progress(); !turn {
		t.Error("who has requests wait is not waited for")
	}
}
