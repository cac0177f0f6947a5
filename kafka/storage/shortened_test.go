package storage

import (
	"errors"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestCutStaysUnsafe: a sync that has looked at the log before a roll, and comes to
// its turn after it, syncs the segment of before. That does not make a cut of the
// next one safe: a crash could bring back what was cut off, behind the offset at
// which a further roll has begun another segment.
func TestCutStaysUnsafe(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 50})
	mustAppend(t, l, payload(1, 60))
	// What sync has read when it has not yet had its turn.
	before, end := (*l.segments.Load())[0], l.logEnd.Load()
	mustAppend(t, l, payload(2, 20)) // rolls
	mustFlush(t, l)
	fsys.SetHook(vfs.FailNth(vfs.OpWrite, 1, &vfs.TornWrite{Bytes: 30, Err: syscall.ENOSPC}))
	if _, err := l.Append(set(payload(3, 100)), 1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append: %v", err)
	}
	fsys.SetHook(nil)
	if err := l.flushTo(before, end); err != nil {
		t.Fatal(err)
	}

	synced := ""
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			synced = op.Path
		}
		return nil
	})
	active := (*l.segments.Load())[1]
	if err := l.flushTo(active, l.logEnd.Load()); err != nil { // as a roll does
		t.Fatal(err)
	}
	if synced != active.path {
		t.Errorf("synced before a roll: %q, want the segment that was cut", synced)
	}
}
