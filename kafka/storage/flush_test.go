package storage

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// syncGate makes every sync of a segment wait for a token.
type syncGate struct {
	ctx     context.Context
	arrived chan struct{} // a sync has begun
	results chan error
}

func newSyncGate(t *testing.T, fsys *vfs.Mem) *syncGate {
	g := &syncGate{ctx: testContext(t), arrived: make(chan struct{}, 100), results: make(chan error)}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind != vfs.OpSync {
			return nil
		}
		g.arrived <- struct{}{}
		select {
		case err := <-g.results:
			return err
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
	})
	t.Cleanup(func() { fsys.SetHook(nil) })
	return g
}

// await waits until a sync has begun.
func (g *syncGate) await(t *testing.T) {
	t.Helper()
	select {
	case <-g.arrived:
	case <-g.ctx.Done():
		t.Fatal("no sync has come")
	}
}

// pass lets the sync that has arrived end with a result.
func (g *syncGate) pass(t *testing.T, err error) {
	t.Helper()
	select {
	case g.results <- err:
	case <-g.ctx.Done():
		t.Fatal("no sync has come")
	}
}

// TestGroupCommit: a flush covers what was appended before it began, no more,
// and all who come meanwhile share the next one. Appends and reads go on.
func TestGroupCommit(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{})
	mustAppend(t, l, []byte("0"))
	mustFlush(t, l)
	g := newSyncGate(t, fsys)
	ctx := testContext(t)

	first := mustAppend(t, l, []byte("1"))
	results := make(chan error, 20)
	wait := func(end int64) { go func() { results <- l.WaitFlushed(ctx, end) }() }
	wait(first.Next)
	g.await(t)

	var last Appended
	for range 10 {
		last = mustAppend(t, l, []byte("2")) // while the sync lasts
		wait(last.Next)
	}
	wantPayloads(t, l, []byte("0"))
	g.pass(t, nil)
	if err := <-results; err != nil {
		t.Fatal(err)
	}
	if s := l.State(); s.Watermark != first.Next || s.LogEnd != last.Next {
		t.Errorf("after the first sync: %+v", s)
	}
	// Those who come before the second round begins share it; the goroutines
	// that come later need a third.
	syncs := 0
	for n := 0; n < 10; {
		select {
		case <-g.arrived:
			syncs++
			g.pass(t, nil)
		case err := <-results:
			if err != nil {
				t.Fatal(err)
			}
			n++
		case <-ctx.Done():
			t.Fatal("waiters are left")
		}
	}
	if syncs > 2 {
		t.Errorf("%d syncs for ten who waited together", syncs)
	}
	if s := l.State(); s.Watermark != last.Next {
		t.Errorf("at the end: %+v", s)
	}
}

// TestWaitFlushedEnds: with its context, at an offset that does not exist, and
// when the sync fails; all who wait get that error.
func TestWaitFlushedEnds(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{})
	a := mustAppend(t, l, []byte("1"))
	if err := l.WaitFlushed(testContext(t), a.Next+1); err == nil {
		t.Error("waited for what is not there")
	}
	g := newSyncGate(t, fsys)
	ctx, cancel := context.WithCancel(testContext(t))
	result := make(chan error)
	go func() { result <- l.WaitFlushed(ctx, a.Next) }()
	g.await(t)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	g.pass(t, nil) // the sync goes on nevertheless
	eventually(t, "flushed", func() bool { return l.State().Watermark == a.Next })

	b := mustAppend(t, l, []byte("2"))
	for range 3 {
		go func() { result <- l.WaitFlushed(testContext(t), b.Next) }()
	}
	g.await(t)
	g.pass(t, errors.New("broken disk"))
	for range 3 {
		if err := <-result; !errors.Is(err, ErrOutOfService) {
			t.Errorf("failed sync: %v", err)
		}
	}
}

// TestFailedSyncBesideRoll: a roll that waits for a sync which fails must not
// take its own, later sync for a success.
func TestFailedSyncBesideRoll(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 5, noRestorer: true})
	a := mustAppend(t, l, []byte("1"))
	g := newSyncGate(t, fsys)
	flushed, appended := make(chan error), make(chan error)
	go func() { flushed <- l.WaitFlushed(testContext(t), a.Next) }()
	g.await(t)
	go func() { _, err := l.Append(set([]byte("2")), 1); appended <- err }()
	eventually(t, "the append rolls", func() bool {
		if l.mu.TryLock() {
			l.mu.Unlock()
			return false
		}
		return true
	})
	g.pass(t, errors.New("broken disk"))
	fsys.SetHook(nil) // a further sync would succeed
	for _, err := range []error{<-flushed, <-appended} {
		if !errors.Is(err, ErrOutOfService) {
			t.Errorf("%v", err)
		}
	}
	wantState(t, l, 0, 0, a.Next, 1)
}

// TestFlushByCount: NetDB'11 §3.1, after a number of messages.
func TestFlushByCount(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{FlushMessages: 3})
	for i, want := range []bool{false, false, true, true} {
		if a := mustAppend(t, l, []byte("x")); a.FlushDue != want {
			t.Errorf("append %d: flush due %v", i, a.FlushDue)
		}
	}
	mustFlush(t, l)
	if a := mustAppend(t, l, []byte("x"), []byte("x")); a.FlushDue {
		t.Error("flush due after two of three")
	}
	if a := mustAppend(t, l, []byte("x"), []byte("x")); !a.FlushDue {
		t.Error("no flush due after four of three")
	}
}

// TestFlushByTime: NetDB'11 §3.1, after an amount of time. Clean logs are left
// alone (KAFKA-132).
func TestFlushByTime(t *testing.T) {
	fsys, c := newTestFS()
	m := open(t, fsys, Config{FlushInterval: time.Second, Clock: c})
	dirty, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ensure("clean", 0); err != nil {
		t.Fatal(err)
	}
	var syncs atomic.Int32
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			syncs.Add(1)
		}
		return nil
	})
	for round := range 3 {
		a := mustAppend(t, dirty, []byte("x"))
		c.WaitTimers(1)
		c.Advance(time.Second - 1)
		if s := dirty.State(); s.Watermark == a.Next {
			t.Fatal("flushed before its time")
		}
		c.Advance(1)
		eventually(t, "flushed", func() bool { return dirty.State().Watermark == a.Next })
		if n := int(syncs.Load()); n != round+1 {
			t.Errorf("round %d: %d syncs", round, n)
		}
	}
	c.WaitTimers(1)
	c.Advance(time.Second) // nothing to do
	mustClose(t, m)
	if n := syncs.Load(); n != 4 { // the fourth is the clean marker's
		t.Errorf("%d syncs", n)
	}
}

// TestVisibleAppended: with it the watermark follows the append, and the flushed
// end stays a notion of its own.
func TestVisibleAppended(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{Visible: VisibleAppended})
	ch := make(chan struct{}, 1)
	defer l.Watch(ch)()
	a := mustAppend(t, l, []byte("now"))
	<-ch
	if s := l.State(); s.Watermark != a.Next || s.Flushed != 0 {
		t.Errorf("%+v", s)
	}
	wantPayloads(t, l, []byte("now"))
	if err := l.WaitFlushed(testContext(t), a.Next); err != nil {
		t.Fatal(err)
	}
	if s := l.State(); s.Flushed != a.Next {
		t.Errorf("%+v", s)
	}
	select {
	case <-ch:
		t.Error("woken although nothing more became visible")
	default:
	}
}

// TestWatch: a watcher learns of more to read, of the log's end, and of nothing
// after it has stopped.
func TestWatch(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{})
	ch, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
	stop := l.Watch(ch)
	stopFirst := l.Watch(stopped)
	stopFirst()
	stopFirst()
	mustAppend(t, l, []byte("x"))
	select {
	case <-ch:
		t.Fatal("woken before the flush")
	default:
	}
	mustFlush(t, l)
	<-ch
	mustAppend(t, l, []byte("x"))
	mustFlush(t, l)
	mustAppend(t, l, []byte("x"))
	mustFlush(t, l) // nobody takes it: must not wait
	<-ch
	if err := m.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	<-ch
	stop()
	if len(stopped) > 0 || len(l.watchers) > 0 {
		t.Error("a stopped watcher is still there")
	}
}

// TestOneWriterManyReaders runs them beside flushes, rolls and a deletion at the
// end. Each reader sees a prefix of the log, whole and in order.
func TestOneWriterManyReaders(t *testing.T) {
	m, err := Open(testContext(t), t.TempDir(), Config{SegmentBytes: 4 << 10, FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(testContext(t))
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	const total = 3000
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() { readNumbered(t, l, total, rand.New(rand.NewPCG(uint64(r), 0))) })
	}
	for i := range total {
		p := payload(i, i%50)
		a, err := l.Append(set(p), 1)
		if err != nil {
			t.Fatal(err)
		}
		if i%500 == 0 {
			if err := l.WaitFlushed(testContext(t), a.Next); err != nil {
				t.Fatal(err)
			}
		}
	}
	readers.Wait()
	if s := l.State(); s.Segments < 10 {
		t.Errorf("only %d segments", s.Segments)
	}
	s, err := l.Read(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, s.Len())
	if _, err := s.ReadAt(b, 0); err != nil { // held open
		t.Errorf("read what was deleted: %v", err)
	}
	s.Release()
	if _, err := l.Read(0, 100); !errors.Is(err, ErrNoSuchTopic) {
		t.Errorf("read a deleted log: %v", err)
	}
}

// readNumbered reads a log in pieces of random size until it has seen total messages
// of increasing number.
func readNumbered(t *testing.T, l *Log, total int, rng *rand.Rand) {
	var offset int64
	var buf []byte
	deadline := time.Now().Add(25 * time.Second)
	for n := 0; n < total; {
		s, err := l.Read(offset, 1+rng.IntN(3000))
		if err != nil {
			t.Error(err)
			return
		}
		if s.Len() == 0 {
			if time.Now().After(deadline) {
				t.Errorf("only %d messages", n)
				return
			}
			runtime.Gosched()
			continue
		}
		buf = append(buf[:0], make([]byte, s.Len())...)
		if _, err := s.ReadAt(buf, 0); err != nil {
			t.Error(err)
		}
		s.Release()
		it := message.Set(buf).Iterate(offset)
		for it.Next() {
			if string(it.Message().Payload) != string(payload(n, n%50)) {
				t.Errorf("message %d at %d is another", n, it.Offset())
				return
			}
			n++
		}
		if it.Err() != nil {
			t.Error(it.Err())
			return
		}
		offset = it.NextOffset()
	}
}
