package storage

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestB05PartitionLimit: partitions leave a part of the limit of open files free
// (fault B05).
func TestB05PartitionLimit(t *testing.T) {
	for files, want := range map[uint64]uint64{0: 0, 10: 0, 20: 0, 128: 108, 256: 224, 512: 448, 1024: 960, 1 << 20: 1<<20 - 64} {
		if got := partitionLimit(files); got != want {
			t.Errorf("with %d files %d partitions, want %d", files, got, want)
		}
	}
}

// TestB05StartWithFewFiles: logs that cannot be recovered at the same time, for
// want of descriptors, are recovered one after another; each is told of once
// (fault B05).
func TestB05StartWithFewFiles(t *testing.T) {
	const partitions = 40
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{DefaultPartitions: partitions})
	for p := range int32(partitions) {
		l, err := m.Ensure("t", p)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte{byte(p)})
		mustFlush(t, l)
	}
	mustClose(t, m)
	if err := fsys.Remove(filepath.Join(testDir, cleanName)); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	met := map[string]bool{}
	fsys.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != vfs.OpOpen || filepath.Ext(op.Path) != segmentSuffix || met[op.Path] {
			return nil
		}
		met[op.Path] = true
		return syscall.EMFILE
	})
	told := map[int32]int{}
	m = open(t, fsys, Config{DefaultPartitions: partitions, Hooks: Hooks{Opened: func(l *Log, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		told[l.Partition()]++
	}}})
	if len(met) != partitions || len(told) != partitions {
		t.Errorf("%d logs met the limit, %d were opened", len(met), len(told))
	}
	for p := range int32(partitions) {
		if l := m.Lookup([]byte("t"), p); l == nil || l.OutOfService() != nil || told[p] != 1 {
			t.Errorf("partition %d is not served, or was told of %d times", p, told[p])
			continue
		} else {
			wantPayloads(t, l, []byte{byte(p)})
		}
	}
}

// TestB05ReadMore: who holds several closed segments gets no more of them than
// there is room for, as long as nobody lets go of any; a single one is always
// there (fault B05).
func TestB05ReadMore(t *testing.T) {
	l, _ := tenByteSegments(t, 20, 3)
	var held []Slice
	for base := int64(0); base < 190; base += 10 {
		s, err := l.ReadMore(base, 10)
		switch {
		case base < 30 && err != nil:
			t.Fatalf("segment %d: %v", base, err)
		case base >= 30 && !errors.Is(err, ErrNoRoom):
			t.Fatalf("segment %d, with 3 held: %v", base, err)
		case err == nil:
			if !s.Closed() {
				t.Errorf("segment %d is not closed", base)
			}
			held = append(held, s)
		}
	}
	again, err := l.ReadMore(10, 10) // costs no descriptor
	if err != nil {
		t.Fatal(err)
	}
	held = append(held, again)
	active, err := l.ReadMore(190, 10)
	if err != nil || active.Closed() {
		t.Fatalf("the active segment: closed %v, %v", active.Closed(), err)
	}
	active.Release()
	readSegment(t, l, 100)
	readSegment(t, l, 110)
	for i := range held {
		held[i].Release()
	}
	if s, err := l.ReadMore(50, 10); err != nil {
		t.Errorf("with all released: %v", err)
	} else {
		s.Release()
	}
	f := l.cfg.files
	if n := f.opened.Load(); n != int64(len(f.held)) || n > 3 {
		t.Errorf("%d segments count as open, %d are held", n, len(f.held))
	}
}

// TestSegmentCut: a closed segment that somebody has cut gives what is left of it,
// and behind that an error that names it. The other segments are not concerned.
func TestSegmentCut(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 25})
	for i := range 9 {
		mustAppend(t, l, []byte{byte(i)})
	}
	mustFlush(t, l)
	whole, err := l.Read(30, 100) // its file is open
	if err != nil || whole.Len() != 30 {
		t.Fatal(whole.Len(), err)
	}
	file, err := fsys.OpenWrite(segmentPath(30))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(15), file.Close()); err != nil {
		t.Fatal(err)
	}
	whole.Distrust()
	whole.Release()
	check := func(l *Log) {
		t.Helper()
		s, err := l.Read(30, 100)
		if err != nil || s.Len() != 15 {
			t.Errorf("%d bytes are there, %v", s.Len(), err)
		}
		s.Release()
		for _, offset := range []int64{45, 50} {
			_, err = l.Read(offset, 100)
			if err == nil || errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatalf("read behind the cut: %v", err)
			}
			wantContains(t, err.Error(), `topic "t" partition 0`, "offset "+map[int64]string{45: "45", 50: "50"}[offset], segmentPath(30))
		}
		for _, offset := range []int64{0, 60} {
			if s, err := l.Read(offset, 100); err != nil || s.Len() != 30 {
				t.Errorf("segment %d: %d bytes, %v", offset, s.Len(), err)
			} else {
				s.Release()
			}
		}
	}
	check(l)
	// One that is opened is looked at without having failed anybody.
	l.cfg.files.makeRoom(func() error { return os.NewSyscallError("open", syscall.EMFILE) })
	for _, s := range *l.segments.Load() {
		s.suspect.Store(false)
	}
	check(l)
	mustClose(t, m)
}
