package coord_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// states keeps what a watch has told.
type states struct {
	mu      sync.Mutex
	told    []string
	running bool
}

func (s *states) children(names []string, exists bool) { s.tell(strings.Join(names, " "), exists) }
func (s *states) data(data []byte, exists bool)        { s.tell(string(data), exists) }

func (s *states) tell(state string, exists bool) {
	if !exists {
		state = "none"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		state = "concurrently with itself"
	}
	s.told = append(s.told, state)
}

func (s *states) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) == 0 {
		return "nothing"
	}
	return s.told[len(s.told)-1]
}

func (s *states) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told)
}

// want waits until the last state is the given one.
func (s *states) want(t testing.TB, state string) {
	t.Helper()
	for end := time.Now().Add(patience); s.last() != state; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("last state %q, want %q", s.last(), state)
		}
	}
}

// TestWatch: the present state is told first, then each change, of a node that is
// missing, made, deleted and made again.
func TestWatch(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c, other := connect(t, coord.Config{Servers: cl.Connect()}), connect(t, coord.Config{Servers: cl.Direct()})
		ctx := testContext(t)
		var children, data states
		cw, dw := c.WatchChildren("/w/n", children.children), c.WatchData("/w/n", data.data)
		must(t, cw.Ready(ctx))
		must(t, dw.Ready(ctx))
		if children.last() != "none" || data.last() != "none" {
			t.Errorf("at first %q, %q", children.last(), data.last())
		}
		for round := range 3 {
			must(t, other.Put(ctx, "/w/n", fmt.Append(nil, round)))
			children.want(t, "")
			data.want(t, fmt.Sprint(round))
			must(t, other.Put(ctx, "/w/n", []byte("x")))
			data.want(t, "x")
			must(t, other.Create(ctx, "/w/n/b", nil))
			children.want(t, "b")
			must(t, other.Create(ctx, "/w/n/a", nil))
			children.want(t, "a b")
			must(t, other.Delete(ctx, "/w/n/b", -1))
			children.want(t, "a")
			must(t, other.DeleteTree(ctx, "/w"))
			children.want(t, "none")
			data.want(t, "none")
		}
		// A child that was made again is a change, although the names are the same.
		must(t, other.Create(ctx, "/w/n/a", nil))
		children.want(t, "a")
		n := children.calls()
		must(t, other.Multi(ctx, coord.DeleteOp("/w/n/a", -1), coord.CreateOp("/w/n/a", nil, false)))
		eventually(t, "told of the child that was made again", func() bool { return children.calls() > n })
		cw.Close()
		dw.Close()
		n = children.calls()
		must(t, other.DeleteTree(ctx, "/w"))
		must(t, c.Put(ctx, "/barrier", nil))
		if children.calls() != n || children.last() != "a" {
			t.Errorf("told %q after close", children.last())
		}
		wantErr(t, "ready after close", c.WatchData("w", data.data).Ready(ctx), coord.ErrArgument)
	})
}

// TestWatchMissesNothing: whatever breaks, the last state comes.
func TestWatchMissesNothing(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 2 * time.Second, RequestTimeout: patience})
		other := connect(t, coord.Config{Servers: cl.Direct()})
		ctx := testContext(t)
		must(t, other.Create(ctx, "/m/n", nil))
		var children, data, missing states
		for _, w := range []*coord.Watch{c.WatchChildren("/m/n", children.children), c.WatchData("/m/n", data.data), c.WatchData("/m/later", missing.data)} {
			must(t, w.Ready(ctx))
		}
		nothing := func() {}
		breaks := []struct{ before, after func() }{
			{cl.DropConnections, nothing},
			{func() { must(t, cl.Expire(session(t, c).ID())) }, nothing},
			{cl.Cut, cl.Mend},
			{cl.Freeze, cl.Mend},
			{cl.FreezeAnswers, func() { cl.DropConnections(); cl.Mend() }},
			{nothing, func() { must(t, cl.Expire(session(t, c).ID())) }},
		}
		for round := range 4 * len(breaks) {
			// Requests of others must not hide what was missed meanwhile.
			stop := hammer(t, c, "/m")
			broken := breaks[round%len(breaks)]
			broken.before()
			name := fmt.Sprint("c", round)
			must(t, other.DeleteTree(ctx, "/m/n"))
			must(t, other.Multi(ctx, coord.CreateOp("/m/n", []byte(name), false), coord.CreateOp("/m/n/"+name, nil, false)))
			must(t, other.Put(ctx, "/m/later", []byte(name)))
			broken.after()
			children.want(t, name)
			data.want(t, name)
			missing.want(t, name)
			must(t, other.Delete(ctx, "/m/later", -1))
			missing.want(t, "none")
			stop()
		}
	})
}

// hammer reads a node from several goroutines until stop.
func hammer(t *testing.T, c *coord.Client, path string) (stop func()) {
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stopped.Load() {
				if _, _, err := c.Get(testContext(t), path); err != nil {
					t.Errorf("get: %v", err)
					return
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		wg.Wait()
	}
}

// TestWatchCoalesces: while its function runs changes gather, and it is told the
// last state once.
func TestWatchCoalesces(t *testing.T) {
	cl := zktest.Shared(t, zktest.Embedded)
	c := connect(t, coord.Config{Servers: cl.Connect()})
	ctx := testContext(t)
	told, goOn := make(chan string, 100), make(chan struct{})
	w := c.WatchData("/n", func(data []byte, _ bool) {
		told <- string(data)
		<-goOn
	})
	<-told
	for i := range 10 {
		must(t, c.Put(ctx, "/n", fmt.Append(nil, i)))
	}
	close(goOn)
	must(t, w.Ready(ctx))
	var seen []string
	for len(seen) == 0 || seen[len(seen)-1] != "9" {
		seen = append(seen, <-told)
	}
	if len(seen) > 2 {
		t.Errorf("told %v", seen)
	}
}

// TestWatchesAreShared: watches that are opened and closed over and over leave
// one behind at the server, not one each.
func TestWatchesAreShared(t *testing.T) {
	cl := zktest.Shared(t, zktest.Embedded)
	c := connect(t, coord.Config{Servers: cl.Connect()})
	ctx := testContext(t)
	must(t, c.Create(ctx, "/n", nil))
	for range 50 {
		for _, path := range []string{"/n", "/missing"} {
			var s states
			// One after the other: at the same time each may arm its own, which fires
			// with the others.
			for _, open := range []func() *coord.Watch{
				func() *coord.Watch { return c.WatchChildren(path, s.children) },
				func() *coord.Watch { return c.WatchData(path, s.data) },
			} {
				w := open()
				must(t, w.Ready(ctx))
				w.Close()
			}
		}
	}
	if n := coord.ArmedInLibrary(session(t, c)); n != 3 {
		t.Errorf("%d watches are armed, want children and value of /n and the creation of /missing", n)
	}
}

// TestSetWatches: after a reconnect watches are set again as of the last
// transaction that was seen before, whatever answers have come first.
func TestSetWatches(t *testing.T) {
	f := newFake(t, func(f *fakeServer) {
		f.timeout = 10 * time.Second
		f.answer = func(r fakeRequest) (int32, []byte, bool) {
			return 0, append(str("v"), stat(0, 0)...), true
		}
	})
	c := connect(t, f.config())
	var data states
	must(t, c.WatchData("/n", data.data).Ready(testContext(t)))
	stop := hammer(t, c, "/n")
	for n := 2; n <= 40; n++ {
		f.hangUp()
		eventually(t, "watches set again", func() bool {
			set, _ := f.seen(kindSetWatches)
			return slices.ContainsFunc(set, func(r fakeRequest) bool { return r.connection >= n })
		})
	}
	stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[int]int64{} // transaction of a connection's last request
	for i, r := range f.requests {
		last[r.connection] = int64(i) + 1
		if r.kind != kindSetWatches {
			continue
		}
		since := int64(binary.BigEndian.Uint64(r.body))
		before := int64(0)
		for n := range r.connection {
			before = max(before, last[n])
		}
		if since > before || since == 0 {
			t.Errorf("connection %d: watches set as of %d, connections before went up to %d", r.connection, since, before)
		}
	}
}

// TestWatchesRefused: a server that refuses to set watches again is asked over
// another connection, after a pause.
func TestWatchesRefused(t *testing.T) {
	f := newFake(t, func(f *fakeServer) {
		f.timeout = 10 * time.Second
		f.answer = func(r fakeRequest) (int32, []byte, bool) {
			if r.kind == kindSetWatches && r.connection < 5 {
				const unimplemented = -6
				return unimplemented, nil, true
			}
			return 0, append(str("v"), stat(0, 0)...), true
		}
	})
	c := connect(t, f.config())
	var data states
	must(t, c.WatchData("/n", data.data).Ready(testContext(t)))
	f.hangUp()
	eventually(t, "watches set again", func() bool {
		set, n := f.seen(kindSetWatches)
		return len(set) == 4 && n == 5
	})
	if st := c.Stats(); st.Sessions != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestWatchDoesNotSpin: a server that refuses what a watch asks for is asked
// again after pauses.
func TestWatchDoesNotSpin(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fakeServer) {
		f.answer = func(r fakeRequest) (int32, []byte, bool) {
			const noAuth = -102
			return noAuth, nil, true
		}
	})
	c := connect(t, f.config())
	w := c.WatchChildren("/n", func([]string, bool) { t.Error("told without an answer") })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	wantErr(t, "ready", w.Ready(ctx), context.DeadlineExceeded)
	w.Close()
	wantErr(t, "ready", w.Ready(testContext(t)), coord.ErrClosed)
	// Pauses of 10 ms and more that double.
	if asked, _ := f.seen(kindChildren); len(asked) > 8 {
		t.Errorf("asked %d times in half a second", len(asked))
	}
}
