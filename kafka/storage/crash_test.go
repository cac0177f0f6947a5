package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// workload is a fixed series of everything that changes the disk, and what it
// has been promised.
type workload struct {
	t testing.TB
	m *Manager

	appended []byte // all that was ever given to Append of topic t, in order
	flushed  int64  // what of it a flush has confirmed
	created  bool   // topic c: CreateTopic has returned
	deleting bool   // topic d: DeleteTopic was called
	deleted  bool   // and has returned
	dFlushed bool   // topic d has one flushed message
}

// run does everything and stops at the first error, which it returns.
func (w *workload) run(ctx context.Context, fsys vfs.FS) error {
	var err error
	if w.m, err = Open(ctx, testDir, Config{FS: fsys, SegmentBytes: 300, noRestorer: true}); err != nil {
		return err
	}
	if err := w.m.CreateTopic("c", 3); err != nil {
		return err
	}
	w.created = true
	d, err := w.m.Ensure("d", 0)
	if err != nil {
		return err
	}
	if _, err := d.Append(set([]byte("d")), 1); err != nil {
		return err
	}
	if err := d.Flush(ctx); err != nil {
		return err
	}
	w.dFlushed = true
	l, err := w.m.Ensure("t", 0)
	if err != nil {
		return err
	}
	for i := range 8 {
		group := set(payload(i, 30+20*i), payload(i, 10))
		w.appended = append(w.appended, group...)
		a, err := l.Append(group, 2)
		if err != nil {
			return err
		}
		if i%2 == 1 {
			if err := l.WaitFlushed(ctx, a.Next); err != nil {
				return err
			}
			w.flushed = a.Next
		}
	}
	w.deleting = true
	if err := w.m.DeleteTopic("d"); err != nil {
		return err
	}
	w.deleted = true
	if err := w.m.Close(ctx); err != nil {
		return err
	}
	w.flushed = int64(len(w.appended))
	return nil
}

// check opens what a crash has left and looks whether each promise was kept. It
// does so twice: the second start must find what the first one left.
func (w *workload) check(fsys *vfs.Mem) error {
	ctx := testContext(w.t)
	for range 2 {
		m, err := Open(ctx, testDir, Config{FS: fsys, SegmentBytes: 300, noRestorer: true})
		if err != nil {
			return err
		}
		// A sync that had failed may have left its mark.
		if err = restoreAll(w.t, m); err == nil {
			err = w.checkManager(m)
		}
		if err := errors.Join(err, m.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (w *workload) checkManager(m *Manager) error {
	if w.created && m.Partitions([]byte("c")) != 3 {
		return fmt.Errorf("topic c has %d partitions", m.Partitions([]byte("c")))
	}
	d := m.Lookup([]byte("d"), 0)
	if w.dFlushed && !w.deleting && (d == nil || d.State().Watermark != 10) {
		return errors.New("topic d has lost its message")
	}
	if w.deleted && d != nil {
		return errors.New("topic d is back")
	}
	l := m.Lookup([]byte("t"), 0)
	if l == nil {
		if w.flushed > 0 {
			return fmt.Errorf("log is gone, %d bytes were flushed", w.flushed)
		}
		return nil
	}
	if err := l.Err(); err != nil {
		return err
	}
	s := l.State()
	if s.First != 0 || s.Watermark != s.LogEnd || s.LogEnd < w.flushed || s.LogEnd > int64(len(w.appended)) {
		return fmt.Errorf("state %+v, %d of %d bytes were flushed", s, w.flushed, len(w.appended))
	}
	if got := read(w.t, l, 0, 1<<20); !bytes.Equal(got, w.appended[:len(got)]) {
		return errors.New("the log holds what was never written")
	}
	if valid, _, err := message.Check(w.appended[:s.LogEnd], message.Limits{}); err != nil || int64(valid) != s.LogEnd {
		return fmt.Errorf("the log ends within a message: %d of %d bytes, %v", valid, s.LogEnd, err)
	}
	return nil
}

// TestCrashAtEveryStep ends the process, or the machine, before each operation
// that changes the disk: see crashClone.
func TestCrashAtEveryStep(t *testing.T) {
	rng := newRand(t)
	fsys, _ := newTestFS()
	w := &workload{t: t}
	steps := 0
	fsys.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		steps++
		// The hook must not be asked for the clone's own operations: clones
		// have none.
		for i := range 6 {
			crashed := crashClone(fsys, i, rng)
			if err := w.check(crashed); err != nil {
				t.Errorf("crash %d before step %d, %s %s: %v", i, steps, op.Kind, op.Path, err)
			}
		}
		return nil
	})
	if err := w.run(testContext(t), fsys); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps", steps)
	if steps < 40 {
		t.Errorf("only %d steps: the hook misses some", steps)
	}
}

// TestErrorAtEveryStep makes each operation fail once, stops there, and crashes.
// Nothing that was promised before may be lost.
func TestErrorAtEveryStep(t *testing.T) {
	rng := newRand(t)
	for n := 1; ; n++ {
		fsys, _ := newTestFS()
		count, failed := 0, vfs.Op{}
		fsys.SetHook(func(op vfs.Op) error {
			if count++; count != n {
				return nil
			}
			failed = op
			if op.Kind == vfs.OpWrite {
				return &vfs.TornWrite{Bytes: rng.IntN(op.Size + 1), Err: syscall.EIO}
			}
			return syscall.EIO
		})
		w := &workload{t: t}
		err := w.run(testContext(t), fsys)
		if failed.Kind == "" {
			if err != nil {
				t.Fatal(err)
			}
			return // past the last operation
		}
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Errorf("%s %s failed: %v", failed.Kind, failed.Path, err)
		}
		fsys.SetHook(nil)
		for i := range 4 {
			crashed := fsys.CrashClone(nil)
			if i > 0 {
				crashed = fsys.CrashClone(rng)
			}
			if err := w.check(crashed); err != nil {
				t.Errorf("crash after %s %s failed: %v", failed.Kind, failed.Path, err)
			}
		}
		if w.m != nil {
			_ = w.m.Close(testContext(t)) // it has failed before
		}
	}
}

// TestTornWriteAtEveryByte: a write that stops at any byte is undone, and the
// next one goes where it began.
func TestTornWriteAtEveryByte(t *testing.T) {
	before, torn, after := set([]byte("before")), set(payload(1, 40), payload(2, 3)), set([]byte("after"))
	for cut := range len(torn) {
		fsys, _ := newTestFS()
		m, l := openTopic(t, fsys, Config{})
		appendAll := func(group []byte) error { _, err := l.Append(group, 1); return err }
		if err := appendAll(before); err != nil {
			t.Fatal(err)
		}
		fsys.SetHook(vfs.FailNth(vfs.OpWrite, 1, &vfs.TornWrite{Bytes: cut, Err: syscall.ENOSPC}))
		if err := appendAll(torn); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrOutOfService) {
			t.Fatalf("torn write: %v", err)
		}
		if size := fileSize(fsys, segmentPath(0)); size != int64(len(before)) {
			t.Fatalf("%d bytes are left of a write torn after %d", size, cut)
		}
		if err := appendAll(after); err != nil {
			t.Fatal(err)
		}
		mustFlush(t, l)
		wantPayloads(t, l, []byte("before"), []byte("after"))
		mustClose(t, m)
	}
}

// TestShortWriteGoesOn: a short write is continued where it stopped, not begun
// anew (KAFKA-309).
func TestShortWriteGoesOn(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{})
	rng := rand.New(rand.NewPCG(1, 1))
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Size > 1 {
			return &vfs.TornWrite{Bytes: 1 + rng.IntN(op.Size-1), Err: io.ErrShortWrite}
		}
		return nil
	})
	want := [][]byte{payload(1, 300), payload(2, 10), payload(3, 5000)}
	mustAppend(t, l, want...)
	mustFlush(t, l)
	wantPayloads(t, l, want...)
}

// TestB03DiskFull: failed appends are reported and leave nothing; reads go on;
// work resumes by itself when there is room (fault B03, in memory).
func TestB03DiskFull(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 200})
	room := 500 // bytes left on the disk
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind != vfs.OpWrite {
			return nil
		}
		if op.Size > room {
			torn := &vfs.TornWrite{Bytes: room, Err: syscall.ENOSPC}
			return torn // the cut gives the room back
		}
		room -= op.Size
		return nil
	})
	var kept [][]byte
	failures := 0
	for i := range 40 {
		p := payload(i, 41)
		switch _, err := l.Append(set(p), 1); {
		case err == nil:
			kept = append(kept, p)
			mustFlush(t, l)
		case errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrOutOfService):
			failures++
		default:
			t.Fatal(err)
		}
		if i == 20 {
			room = 250
		}
		wantPayloads(t, l, kept...)
	}
	if len(kept) != 15 || failures != 25 {
		t.Errorf("%d appended, %d failed", len(kept), failures)
	}
	mustClose(t, m)
	fsys.SetHook(nil)
	_, l = openTopic(t, fsys, Config{})
	wantPayloads(t, l, kept...)
}

// TestCrashInRecovery crashes before each operation of a recovery that cuts a
// tail: the next start ends up with the same log.
func TestCrashInRecovery(t *testing.T) {
	rng := newRand(t)
	fsys, _ := newTestFS()
	torn := set(payload(1, 700), payload(2, 700))
	put(t, fsys, segmentPath(0), torn[:len(torn)-1])
	torn = torn[:len(torn)-1]
	keep := int64(message.EntrySize(700))
	fsys = fsys.Clone()
	steps := 0
	fsys.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		steps++
		for i := range 5 {
			crashed := fsys.CrashClone(nil)
			if i > 0 {
				crashed = fsys.CrashClone(rng)
			}
			m, l := openTopic(t, crashed, Config{})
			wantState(t, l, 0, keep, keep, 1)
			wantPayloads(t, l, payload(1, 700))
			mustClose(t, m)
			if got := content(t, crashed, fmt.Sprintf("%s.cut-%d", segmentPath(0), keep)); string(got) != string(torn[keep:]) {
				t.Errorf("crash before %s %s: what was cut is not kept", op.Kind, op.Path)
			}
		}
		return nil
	})
	open(t, fsys, Config{})
	fsys.SetHook(nil)
	if steps < 7 {
		t.Errorf("only %d steps", steps)
	}
}
