package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

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
