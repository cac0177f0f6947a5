package storage

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// restoreAll tries once to bring back into service whatever is out of it, in
// place of the restorer, which the test has switched off.
func restoreAll(t testing.TB, m *Manager) error {
	t.Helper()
	var errs []error
	for _, l := range m.outOfService() {
		errs = append(errs, l.restore(testContext(t), 1))
	}
	return errors.Join(errs...)
}

func mustRestore(t testing.TB, m *Manager) {
	t.Helper()
	if err := restoreAll(t, m); err != nil {
		t.Fatal(err)
	}
	if left := m.outOfService(); len(left) > 0 {
		t.Fatalf("%d logs are still out of service: %v", len(left), left[0].OutOfService())
	}
}

// TestB04ResumesByItself: the restorer tries again and again, with longer and
// longer pauses, and says why not without repeating itself.
func TestB04ResumesByItself(t *testing.T) {
	fsys, c := newTestFS()
	var logged logBuffer
	m, l := openTopic(t, fsys, Config{Clock: c, Logger: logged.logger()})
	mustAppend(t, l, []byte("a"))
	var attempts atomic.Int32
	var sick atomic.Bool
	sick.Store(true)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Path, temporarySuffix) {
			attempts.Add(1)
		}
		if op.Kind == vfs.OpSync && sick.Load() {
			return syscall.EIO
		}
		return nil
	})
	if err := l.Flush(testContext(t)); !errors.Is(err, ErrOutOfService) {
		t.Fatal(err)
	}
	for i, wait := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
		wait *= time.Millisecond
		c.WaitTimers(1)
		c.Advance(wait - 1)
		if n := int(attempts.Load()); n != i {
			t.Fatalf("%d attempts before the time of number %d", n, i+1)
		}
		c.WaitTimers(1)
		c.Advance(1)
		eventually(t, "an attempt", func() bool { return int(attempts.Load()) == i+1 })
	}
	c.WaitTimers(1)
	if n := strings.Count(logged.String(), "partition stays out of service"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged.String())
	}
	sick.Store(false)
	c.Advance(maxRestoreWait)
	eventually(t, "back in service", func() bool { return l.OutOfService() == nil })
	wantPayloads(t, l, []byte("a"))
	mustAppend(t, l, []byte("b"))
	mustFlush(t, l)
	wantPayloads(t, l, []byte("a"), []byte("b"))
	mustClose(t, m)
}

// TestB03TornTailHeals: half a record that could not be cut off keeps the log out
// of service until it can be; nothing is appended behind it (fault B03).
func TestB03TornTailHeals(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	mustAppend(t, l, []byte("a"))
	mustFlush(t, l)
	mustAppend(t, l, []byte("b"))
	fsys.SetHook(func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite:
			return &vfs.TornWrite{Bytes: 7, Err: syscall.ENOSPC}
		case vfs.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	for range 3 {
		if _, err := l.Append(set([]byte("torn")), 1); !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("append: %v", err)
		}
		if err := restoreAll(t, m); !errors.Is(err, syscall.EIO) {
			t.Fatalf("restore: %v", err)
		}
	}
	wantPayloads(t, l, []byte("a"))
	if size := fileSize(fsys, segmentPath(0)); size != 27 {
		t.Errorf("the segment has %d bytes", size)
	}
	fsys.SetHook(nil)
	mustRestore(t, m)
	if size := fileSize(fsys, segmentPath(0)); size != 20 {
		t.Errorf("the segment has %d bytes", size)
	}
	wantState(t, l, 0, 10, 20, 1)
	mustAppend(t, l, []byte("c"))
	mustFlush(t, l)
	wantPayloads(t, l, []byte("a"), []byte("b"), []byte("c"))
	if err := checkRewritten(t, fsys.CrashClone(nil), [][]byte{[]byte("a"), []byte("b"), []byte("c")}, 3); err != nil {
		t.Error(err)
	}
	mustClose(t, m)
}

// TestCutIsSafeBeforeTheLogResumes: what is cut off when a log comes back is gone
// from the disk before anything is appended in its place. A crash could show it
// again otherwise, completed by the first bytes of what was appended.
func TestCutIsSafeBeforeTheLogResumes(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	mustAppend(t, l, []byte("a"), []byte("b"))
	mustFlush(t, l)
	tearSafely(t, fsys, l)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	})
	if err := restoreAll(t, m); !errors.Is(err, syscall.EIO) {
		t.Errorf("restored though the cut could not be made safe: %v", err)
	}
	if _, err := l.Append(set([]byte("c")), 1); !errors.Is(err, ErrOutOfService) {
		t.Errorf("append: %v", err)
	}
	fsys.SetHook(nil)
	mustRestore(t, m)
	if size := fileSize(fsys.CrashClone(nil), segmentPath(0)); size != 20 {
		t.Errorf("%d bytes are safe", size)
	}
	mustAppend(t, l, []byte("c"))
	mustFlush(t, l)
	wantPayloads(t, l, []byte("a"), []byte("b"), []byte("c"))
	mustClose(t, m)

	// And when the cut goes well at once.
	fsys, _ = newTestFS()
	m, l = openTopic(t, fsys, Config{noRestorer: true})
	mustAppend(t, l, []byte("a"), []byte("b"))
	mustFlush(t, l)
	tearSafely(t, fsys, l)
	mustRestore(t, m)
	if size := fileSize(fsys.CrashClone(nil), segmentPath(0)); size != 20 {
		t.Errorf("%d bytes are safe after the cut", size)
	}
	mustClose(t, m)
}

// tearSafely leaves half a record behind the 20 bytes of the first segment, which
// cannot be cut off and is safe.
func tearSafely(t *testing.T, fsys *vfs.Mem, l *Log) {
	t.Helper()
	fsys.SetHook(func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite:
			return &vfs.TornWrite{Bytes: 7, Err: syscall.ENOSPC}
		case vfs.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	if _, err := l.Append(set([]byte("torn")), 1); !errors.Is(err, ErrOutOfService) {
		t.Fatalf("append: %v", err)
	}
	fsys.SetHook(nil)
	file, err := fsys.OpenWrite(segmentPath(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if size := fileSize(fsys.CrashClone(nil), segmentPath(0)); size != 27 {
		t.Fatalf("%d bytes of the torn segment are safe", size)
	}
}

// TestRollResumes: a new segment whose folder could not be synced is made anew.
func TestRollResumes(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1, noRestorer: true})
	mustAppend(t, l, []byte("a"))
	fsys.SetHook(vfs.FailNth(vfs.OpSyncDir, 1, syscall.EIO))
	if _, err := l.Append(set([]byte("b")), 1); !errors.Is(err, ErrOutOfService) {
		t.Fatalf("append: %v", err)
	}
	wantState(t, l, 0, 10, 10, 1)
	killed := fsys.KillClone() // now, as the mark is
	mustRestore(t, m)
	wantState(t, l, 0, 10, 10, 2)
	if got, want := folderNames(t, fsys), segmentName(0)+" "+segmentName(10); got != want {
		t.Errorf("the folder has %s", got)
	}
	mustAppend(t, l, []byte("b"))
	wantState(t, l, 0, 10, 20, 2)
	mustFlush(t, l)
	wantPayloads(t, l, []byte("a"), []byte("b"))
	mustClose(t, m)

	// The next process does not trust the folder either.
	var logged logBuffer
	_, l = openTopic(t, killed, Config{SegmentBytes: 1, noRestorer: true, Logger: logged.logger()})
	wantContains(t, logged.String(), "a sync failed before the last stop", "partition back in service")
	mustAppend(t, l, []byte("b"))
	mustFlush(t, l)
	wantPayloads(t, l, []byte("a"), []byte("b"))
}

// TestB05TooManyOpenFilesWhileRestoring: it is tried again (fault B05).
func TestB05TooManyOpenFilesWhileRestoring(t *testing.T) {
	fsys, m, l, all := failedLog(t, Config{}, true)
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpOpen, vfs.OpSyncDir} {
		before := folderNames(t, fsys)
		fsys.SetHook(func(op vfs.Op) error {
			if op.Kind == kind {
				return syscall.EMFILE
			}
			return nil
		})
		if err := restoreAll(t, m); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v", kind, err)
		}
		fsys.SetHook(nil)
		if after := folderNames(t, fsys); after != before && kind != vfs.OpSyncDir {
			t.Errorf("%s: the folder has %s, not %s", kind, after, before)
		}
		wantPayloads(t, l, all[:2]...)
	}
	mustRestore(t, m)
	wantPayloads(t, l, all...)
}

// TestDeleteWhileRestoring: a deletion waits for an attempt under way, as the
// folder may be another log's after it.
func TestDeleteWhileRestoring(t *testing.T) {
	fsys, m, l, _ := failedLog(t, Config{}, true)
	g := newSyncGate(t, fsys)
	restored := make(chan error)
	go func() { restored <- l.restore(testContext(t), 1) }()
	g.await(t)
	deleted := make(chan error)
	go func() { deleted <- m.DeleteTopic("t") }()
	eventually(t, "the deletion has begun", func() bool { return l.ended.Load() != nil })
	select {
	case err := <-deleted:
		t.Fatalf("deleted below the restoration: %v", err)
	default:
	}
	g.pass(t, nil)
	if err := <-restored; err == nil && l.OutOfService() != nil {
		t.Error("neither restored nor failed")
	}
	fsys.SetHook(nil)
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	again, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, again, 0, 0, 0, 1)
	if err := l.restore(testContext(t), 2); err != nil {
		t.Errorf("restore what is deleted: %v", err)
	}
	if got := folderNames(t, fsys); got != segmentName(0) {
		t.Errorf("the folder has %s", got)
	}
}

// TestCloseWhileRestoring: a close is bounded, though the disk hangs.
func TestCloseWhileRestoring(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{Clock: c})
	mustAppend(t, l, []byte("a"))
	failSync(t, fsys, l)
	g := newSyncGate(t, fsys)
	c.WaitTimers(1)
	c.Advance(firstRestoreWait)
	g.await(t)
	ctx, cancel := context.WithCancel(testContext(t))
	closed := make(chan error)
	go func() { closed <- m.Close(ctx) }()
	eventually(t, "closing", func() bool { return m.closed.Load() })
	cancel()
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	g.pass(t, nil)
	m.timers.Wait()
}

// TestTroubleAfterRestoring: a log that goes out of service again as soon as an
// attempt has brought it back gets the patience that the first trouble got.
func TestTroubleAfterRestoring(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{Clock: c, noRestorer: true})
	mustAppend(t, l, []byte("a"))
	mustFlush(t, l)
	mustAppend(t, l, []byte("b"))
	failSync(t, fsys, l)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpTruncate { // of the old segment: the log is back in service
			_ = l.fail(stop{mend: mendRewrite, err: syscall.EIO}) // the log keeps it
		}
		return nil
	})
	retries := map[*Log]*retry{l: {attempts: patientAttempts, wait: maxRestoreWait, due: c.Elapsed()}}
	next := m.restoreDue(testContext(t), retries)
	fsys.SetHook(nil)
	if l.OutOfService() == nil {
		t.Fatal("the log did not come back, or did not fail again")
	}
	if r := retries[l]; r == nil || r.attempts != 0 || r.wait != firstRestoreWait || next != firstRestoreWait {
		t.Errorf("%+v is known of the new trouble, next attempt in %v", r, next)
	}
	mustRestore(t, m)
}
