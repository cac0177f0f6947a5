package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
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

// failSync lets the next flush of a log fail.
func failSync(t testing.TB, fsys *vfs.Mem, l *Log) {
	t.Helper()
	fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	defer fsys.SetHook(nil)
	if err := l.Flush(testContext(t)); !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
}

// failedLog returns a log whose last flush has failed: with flushed the messages
// before it are safe, and so the segment goes on, else all of it is suspect.
func failedLog(t testing.TB, cfg Config, flushed bool) (*vfs.Mem, *Manager, *Log, [][]byte) {
	t.Helper()
	fsys, c := newTestFS()
	cfg.noRestorer = true
	if cfg.Clock == nil {
		cfg.Clock = c
	}
	m, l := openTopic(t, fsys, cfg)
	var all [][]byte
	if flushed {
		all = append(all, payload(1, 700), payload(2, 20))
		mustAppend(t, l, all...)
		mustFlush(t, l)
	}
	for i := range 3 {
		all = append(all, payload(10+i, 600))
		mustAppend(t, l, all[len(all)-1])
	}
	failSync(t, fsys, l)
	return fsys, m, l, all
}

// folderNames returns the names of what is in the folder of partition 0 of topic
// t.
func folderNames(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	entries, err := fsys.ReadDir(filepath.Join(testDir, "t-0"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestB04FailedSync: what a failed sync has dropped never becomes visible because
// a later one succeeds; the partition is out of service and says so, and the rest
// goes on (fault B04).
func TestB04FailedSync(t *testing.T) {
	fsys, c := newTestFS()
	var logged logBuffer
	m := open(t, fsys, Config{SegmentBytes: 50, Logger: logged.logger(), Clock: c, noRestorer: true})
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.Ensure("other", 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("safe"))
	mustFlush(t, l)
	a := mustAppend(t, l, payload(1, 60))
	woken := make(chan struct{}, 1)
	defer l.Watch(woken)()

	fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	if err := l.WaitFlushed(testContext(t), a.Next); !errors.Is(err, ErrOutOfService) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
	<-woken
	for what, try := range map[string]func() error{
		"flush":              func() error { return l.Flush(testContext(t)) },
		"append and roll":    func() error { _, err := l.Append(set([]byte("x")), 1); return err },
		"the log's error":    l.Err,
		"why out of service": l.OutOfService,
		"wait for a flush":   func() error { return l.WaitFlushed(testContext(t), a.Next) },
		"wait for an append": func() error { return l.WaitAppended(testContext(t), a) },
	} {
		if err := try(); !errors.Is(err, ErrOutOfService) {
			t.Errorf("%s: %v", what, err)
		}
	}
	m.flushDirty(testContext(t), 0) // what the timer does
	wantState(t, l, 0, 13, a.Next, 1)
	wantPayloads(t, l, []byte("safe"))
	wantContains(t, logged.String(), "partition out of service", "topic=t", "partition=0", "flushed=13", "log_end=82", "input/output error")
	if n := strings.Count(logged.String(), "out of service"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	mustAppend(t, other, []byte("goes on"))
	mustFlush(t, other)
	wantPayloads(t, other, []byte("goes on"))

	crashed := fsys.CrashClone(nil)
	m2, l2 := openTopic(t, crashed, Config{noRestorer: true})
	mustRestore(t, m2)
	wantPayloads(t, l2, []byte("safe"))

	mustRestore(t, m)
	<-woken
	wantState(t, l, 0, a.Next, a.Next, 2)
	wantPayloads(t, l, []byte("safe"), payload(1, 60))
	wantContains(t, logged.String(), "partition back in service", "rewritten_from=13", "log_end=82", "read_back_from_disk=true")
	if err := l.WaitAppended(testContext(t), a); err != nil {
		t.Errorf("after the rewriting: %v", err)
	}
	if got, want := folderNames(t, fsys), segmentName(0)+" "+segmentName(13); got != want {
		t.Errorf("the folder has %s", got)
	}
	b := mustAppend(t, l, []byte("and on"))
	mustFlush(t, l)
	if b.Base != a.Next {
		t.Errorf("next append went to %d, not %d", b.Base, a.Next)
	}
	_, l2 = openTopic(t, fsys.CrashClone(nil), Config{})
	wantPayloads(t, l2, []byte("safe"), payload(1, 60), []byte("and on"))
	mustClose(t, m)
}

// TestB04CloseOutOfService: what is not safe at the end is said, and the next
// start does not take the stop for a clean one.
func TestB04CloseOutOfService(t *testing.T) {
	fsys, m, _, all := failedLog(t, Config{}, true)
	if err := m.Close(testContext(t)); !errors.Is(err, ErrOutOfService) {
		t.Errorf("close: %v", err)
	}
	if fileSize(fsys, testDir+"/"+cleanName) >= 0 {
		t.Error("marked as cleanly stopped")
	}
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	mustRestore(t, m)
	wantPayloads(t, l, all...)
}

// TestB04KilledAfterFailedSync: the next process finds the messages in the page
// cache, and does not take them for safe.
func TestB04KilledAfterFailedSync(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fsys, _, _, all := failedLog(t, Config{}, flushed)
		killed := fsys.KillClone()
		killed.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		})
		m, l := openTopic(t, killed, Config{noRestorer: true})
		if err := l.OutOfService(); err == nil {
			t.Fatal("in service")
		}
		s := l.State()
		if s.Watermark != 0 || s.LogEnd == 0 {
			t.Errorf("%+v", s)
		}
		// The messages are not gone, and whoever asks for them must not think so.
		for _, offset := range []int64{1, s.LogEnd} {
			if _, err := l.Read(offset, 100); !errors.Is(err, ErrOutOfService) || errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("read at offset %d: %v", offset, err)
			}
		}
		if _, err := l.Read(s.LogEnd+1, 100); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("read beyond the end: %v", err)
		}
		killed.SetHook(nil)
		mustRestore(t, m)
		wantPayloads(t, l, all...)
		m2, l2 := openTopic(t, killed.CrashClone(nil), Config{noRestorer: true})
		if len(m2.outOfService()) > 0 {
			t.Errorf("after a crash: %v", l2.OutOfService())
		}
		wantPayloads(t, l2, all...)
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

// TestB04LyingDisk: the rewritten file is read back from the disk, so a sync that
// reports success and has done nothing does not help either.
func TestB04LyingDisk(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fsys, m, l, all := failedLog(t, Config{}, flushed)
		before := l.State().Watermark
		fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, vfs.ErrSyncLost))
		err := restoreAll(t, m)
		if err == nil || l.OutOfService() == nil || l.State().Watermark != before {
			t.Fatalf("back in service: %v, %+v", err, l.State())
		}
		wantContains(t, err.Error(), "read ", "back", `topic "t" partition 0`)
		if strings.Contains(folderNames(t, fsys), temporarySuffix) {
			t.Errorf("the folder has %s", folderNames(t, fsys))
		}
		mustRestore(t, m)
		wantPayloads(t, l, all...)
	}
}

// checkRewritten opens what is left of a log and brings it back into service. Of
// the messages at least the first so many must be there, and none that is not
// among them; and what is visible then must survive a crash.
func checkRewritten(t testing.TB, fsys *vfs.Mem, all [][]byte, least int) error {
	m, err := Open(testContext(t), testDir, Config{FS: fsys, noRestorer: true})
	if err != nil {
		return err
	}
	defer m.Close(context.Background())
	l := m.Lookup([]byte("t"), 0)
	if l == nil {
		return errors.New("the log is gone")
	}
	if err := restoreAll(t, m); err != nil || l.OutOfService() != nil {
		return fmt.Errorf("not back in service: %w, %w", err, l.OutOfService())
	}
	got := payloads(t, l)
	if len(got) < least || len(got) > len(all) {
		return fmt.Errorf("%d messages of %d, at least %d wanted", len(got), len(all), least)
	}
	for i := range got {
		if string(got[i]) != string(all[i]) {
			return fmt.Errorf("message %d is another", i)
		}
	}
	again, err := Open(testContext(t), testDir, Config{FS: fsys.CrashClone(nil), noRestorer: true})
	if err != nil {
		return err
	}
	defer again.Close(context.Background())
	l2 := again.Lookup([]byte("t"), 0)
	if err := restoreAll(t, again); err != nil || l2.State().Watermark != l.State().Watermark {
		return fmt.Errorf("after a crash visible up to %d, before it up to %d, %w", l2.State().Watermark, l.State().Watermark, err)
	}
	return nil
}

// TestB04ErrorAtEveryStepOfRewriting lets each operation of a rewriting fail, and
// crashes then: nothing that was flushed is lost, and the next attempt goes
// through, without loss of what was appended.
func TestB04ErrorAtEveryStepOfRewriting(t *testing.T) {
	rng := newRand(t)
	for _, flushed := range []bool{false, true} {
		steps := 0
		for n := 1; ; n++ {
			fsys, m, l, all := failedLog(t, Config{}, flushed)
			least := 0
			if flushed {
				least = 2
			}
			count, failed := 0, vfs.Op{}
			fsys.SetHook(func(op vfs.Op) error {
				if count++; count != n {
					return nil
				}
				failed = op
				if op.Kind == vfs.OpWrite {
					return &vfs.TornWrite{Bytes: rng.IntN(op.Size + 1), Err: syscall.ENOSPC}
				}
				return syscall.EIO
			})
			err := restoreAll(t, m)
			fsys.SetHook(nil)
			if failed.Kind == "" {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			steps++
			if l.OutOfService() == nil {
				least = len(all) // all of it is flushed
			} else if err == nil {
				t.Errorf("%s %s failed: out of service without an error", failed.Kind, failed.Path)
			}
			for i := range 5 {
				crashed := fsys.CrashClone(nil)
				if i > 0 {
					crashed = fsys.CrashClone(rng)
				}
				if err := checkRewritten(t, crashed, all, least); err != nil {
					t.Errorf("flushed %v, crash after %s %s failed: %v", flushed, failed.Kind, failed.Path, err)
				}
			}
			if err := checkRewritten(t, fsys.KillClone(), all, len(all)); err != nil {
				t.Errorf("flushed %v, kill after %s %s failed: %v", flushed, failed.Kind, failed.Path, err)
			}
			mustRestore(t, m)
			wantPayloads(t, l, all...)
			mustAppend(t, l, []byte("more"))
			mustFlush(t, l)
			if err := checkRewritten(t, fsys.CrashClone(nil), append(all, []byte("more")), len(all)+1); err != nil {
				t.Errorf("flushed %v, after %s %s failed once: %v", flushed, failed.Kind, failed.Path, err)
			}
			mustClose(t, m)
		}
		t.Logf("flushed %v: %d steps", flushed, steps)
		if steps < 10 {
			t.Errorf("flushed %v: only %d steps", flushed, steps)
		}
	}
}

// TestB04CrashAtEveryStepOfRewriting crashes and kills before each operation that
// changes the disk.
func TestB04CrashAtEveryStepOfRewriting(t *testing.T) {
	rng := newRand(t)
	for _, flushed := range []bool{false, true} {
		fsys, m, l, all := failedLog(t, Config{}, flushed)
		least := 0
		if flushed {
			least = 2
		}
		steps := 0
		fsys.SetHook(func(op vfs.Op) error {
			if !op.Kind.Changes() {
				return nil
			}
			steps++
			if l.OutOfService() == nil {
				least = len(all)
			}
			for i := range 5 {
				crashed := fsys.CrashClone(nil)
				if i > 0 {
					crashed = fsys.CrashClone(rng)
				}
				if err := checkRewritten(t, crashed, all, least); err != nil {
					t.Errorf("flushed %v, crash before %s %s: %v", flushed, op.Kind, op.Path, err)
				}
			}
			if err := checkRewritten(t, fsys.KillClone(), all, len(all)); err != nil {
				t.Errorf("flushed %v, kill before %s %s: %v", flushed, op.Kind, op.Path, err)
			}
			return nil
		})
		mustRestore(t, m)
		fsys.SetHook(nil)
		wantPayloads(t, l, all...)
		if steps < 6 {
			t.Errorf("flushed %v: only %d steps", flushed, steps)
		}
	}
}

// TestB04PageCacheGone: what the page cache does not have any more is lost, with
// what is behind it, is said, and whoever comes late to wait for it learns of it.
func TestB04PageCacheGone(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		var logged logBuffer
		fsys, m, l, all := failedLog(t, Config{Logger: logged.logger()}, flushed)
		s := l.State()
		lost := Appended{Base: s.Flushed, Next: s.LogEnd}
		if err := fsys.DropCache(segmentPath(0)); err != nil {
			t.Fatal(err)
		}
		mustRestore(t, m)
		wantState(t, l, 0, s.Flushed, s.Flushed, 1)
		wantPayloads(t, l, all[:len(all)-3]...)
		wantContains(t, logged.String(), "unflushed messages are lost", fmt.Sprintf("offset=%d bytes=%d", s.Flushed, s.LogEnd-s.Flushed))
		next := mustAppend(t, l, payload(20, 4000))
		if next.Base != s.Flushed {
			t.Errorf("next append went to %d, not %d", next.Base, s.Flushed)
		}
		mustFlush(t, l)
		if err := l.WaitAppended(testContext(t), lost); !errors.Is(err, ErrOutOfService) {
			t.Errorf("wait for what is lost: %v", err)
		}
		if err := l.WaitAppended(testContext(t), next); err != nil {
			t.Errorf("wait for what came after it: %v", err)
		}
		if err := checkRewritten(t, fsys.CrashClone(nil), append(all[:len(all)-3:len(all)-3], payload(20, 4000)), len(all)-2); err != nil {
			t.Error(err)
		}
	}
}

// TestB04DamagedSource: what is sound before the damage is kept.
func TestB04DamagedSource(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		fsys, m, l, all := failedLog(t, Config{}, flushed)
		s := l.State()
		f, err := fsys.OpenWrite(segmentPath(0))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		at := s.Flushed + int64(message.EntrySize(600))
		if _, err := f.WriteAt([]byte("damage"), at+100); err != nil {
			t.Fatal(err)
		}
		mustRestore(t, m)
		wantPayloads(t, l, all[:len(all)-2]...)
		if s := l.State(); s.LogEnd != at || s.Watermark != at {
			t.Errorf("%+v, %d wanted", s, at)
		}
		mustAppend(t, l, []byte("more"))
		mustFlush(t, l)
		wantPayloads(t, l, append(all[:len(all)-2:len(all)-2], []byte("more"))...)
	}
}

// TestB04UnreadableSource: a place that cannot be read is tried some times before
// it is given up.
func TestB04UnreadableSource(t *testing.T) {
	fsys, m, l, all := failedLog(t, Config{}, true)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && op.Path == segmentPath(0) {
			return syscall.EIO
		}
		return nil
	})
	for attempt := 1; attempt <= patientAttempts; attempt++ {
		if err := l.restore(testContext(t), attempt); !errors.Is(err, syscall.EIO) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
	}
	if err := l.restore(testContext(t), patientAttempts+1); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	wantPayloads(t, l, all[:2]...)
	mustClose(t, m)
}

// TestB04VisibleAppended: what consumers have seen stays visible, unless it is
// lost.
func TestB04VisibleAppended(t *testing.T) {
	fsys, m, l, all := failedLog(t, Config{Visible: VisibleAppended}, true)
	wantPayloads(t, l, all...)
	mustRestore(t, m)
	wantPayloads(t, l, all...)
	if s := l.State(); s.Flushed != s.LogEnd {
		t.Errorf("%+v", s)
	}
	mustAppend(t, l, []byte("seen"))
	failSync(t, fsys, l)
	wantPayloads(t, l, append(all, []byte("seen"))...)
	list := *l.segments.Load()
	if err := fsys.DropCache(list[len(list)-1].path); err != nil {
		t.Fatal(err)
	}
	mustRestore(t, m)
	wantPayloads(t, l, all...)
	if s := l.State(); s.Watermark != s.LogEnd {
		t.Errorf("%+v", s)
	}
}

// TestB04SyncAndWriteFailTogether: a torn tail that is found while a sync is
// under way which fails then calls for more than a cut.
func TestB04SyncAndWriteFailTogether(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{noRestorer: true})
	mustAppend(t, l, []byte("unflushed"))
	g := newSyncGate(t, fsys)
	gated := make(chan error)
	go func() { gated <- l.Flush(testContext(t)) }()
	g.await(t)
	fsys.SetHook(func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite:
			return &vfs.TornWrite{Bytes: 3, Err: syscall.ENOSPC}
		case vfs.OpTruncate:
			return syscall.EIO
		}
		return nil
	})
	if _, err := l.Append(set([]byte("torn")), 1); !errors.Is(err, ErrOutOfService) {
		t.Fatalf("append: %v", err)
	}
	fsys.SetHook(nil)
	restored := make(chan error)
	go func() { restored <- l.restore(testContext(t), 1) }()
	g.pass(t, syscall.EIO) // whichever waits: the restoration must not look before
	if err := <-gated; !errors.Is(err, ErrOutOfService) {
		t.Errorf("flush: %v", err)
	}
	if err := <-restored; err != nil {
		t.Fatal(err)
	}
	wantPayloads(t, l, []byte("unflushed"))
	if err := checkRewritten(t, fsys.CrashClone(nil), [][]byte{[]byte("unflushed")}, 1); err != nil {
		t.Error(err)
	}
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
	m, l = openTopic(t, killed, Config{SegmentBytes: 1, noRestorer: true, Logger: logged.logger()})
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

// osFaults is the real file system, on which the next sync of a segment can be
// made to fail.
type osFaults struct {
	vfs.FS
	failSync atomic.Bool
}

type osFaultsFile struct {
	vfs.File
	fs *osFaults
}

func (o *osFaults) Create(name string) (vfs.File, error)    { return o.wrap(o.FS.Create(name)) }
func (o *osFaults) OpenWrite(name string) (vfs.File, error) { return o.wrap(o.FS.OpenWrite(name)) }

func (o *osFaults) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return osFaultsFile{f, o}, nil
}

func (f osFaultsFile) Sync() error {
	if f.fs.failSync.Swap(false) {
		return syscall.EIO
	}
	return f.File.Sync()
}

// TestB04OnRealFiles: the restorer brings a log back on a real file system, which
// is read past its page cache where it lets us.
func TestB04OnRealFiles(t *testing.T) {
	dir := t.TempDir()
	fsys := &osFaults{FS: vfs.OS()}
	var logged logBuffer
	m, err := Open(testContext(t), dir, Config{FS: fsys, Logger: logged.logger()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for round := range 3 {
		for i := range 20 {
			all = append(all, payload(100*round+i, 40_000+i))
			mustAppend(t, l, all[len(all)-1])
		}
		fsys.failSync.Store(round > 0)
		err := l.Flush(testContext(t))
		if (err == nil) != (round == 0) {
			t.Fatalf("flush: %v", err)
		}
		if round > 0 {
			eventually(t, "back in service", func() bool { return l.OutOfService() == nil })
		}
		wantPayloads(t, l, all...)
	}
	t.Log(logged.String())
	if s := l.State(); s.Segments != 3 {
		t.Errorf("%+v", s)
	}
	mustClose(t, m)
	entries, err := vfs.OS().ReadDir(filepath.Join(dir, "t-0"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	r, err := Verify(testContext(t), dir, WalkOptions{})
	if err != nil || r.Err() != nil {
		t.Errorf("verify: %v, %v", err, r.Err())
	}
}
