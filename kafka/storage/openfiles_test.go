package storage

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// tenByteSegments returns a log of n segments of 10 bytes, and how often each
// file was opened since.
func tenByteSegments(t *testing.T, n, openSegments int) (*Log, func(base int64) int) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1})
	for i := range n {
		mustAppend(t, l, []byte{byte(i)})
	}
	mustClose(t, m)
	var mu sync.Mutex
	opened := map[string]int{}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen {
			mu.Lock()
			defer mu.Unlock()
			opened[op.Path]++
		}
		return nil
	})
	_, l = openTopic(t, fsys, Config{OpenSegments: openSegments})
	return l, func(base int64) int {
		mu.Lock()
		defer mu.Unlock()
		return opened[segmentPath(base)]
	}
}

// readSegment reads the segment with a base and checks that it is the one.
func readSegment(t *testing.T, l *Log, base int64) {
	t.Helper()
	s, err := l.Read(base, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	b := make([]byte, s.Len())
	if _, err := s.ReadAt(b, 0); err != nil || string(b) != string(set([]byte{byte(base / 10)})) {
		t.Fatalf("segment %d: %x, %v", base, b, err)
	}
}

// TestOpenSegments: a start opens active segments alone, a closed one is opened
// when it is read, and what is read often stays open.
func TestOpenSegments(t *testing.T) {
	l, opened := tenByteSegments(t, 20, 3)
	for base := int64(0); base < 190; base += 10 {
		if n := opened(base); n != 0 {
			t.Errorf("the start opened closed segment %d %d times", base, n)
		}
	}
	for base := int64(10); base < 190; base += 10 {
		readSegment(t, l, 0)
		readSegment(t, l, base)
		if n := opened(base); n != 1 {
			t.Errorf("segment %d was opened %d times for a read", base, n)
		}
		if n := len(l.cfg.files.held); n > 3 {
			t.Fatalf("%d closed segments are open", n)
		}
	}
	if n := opened(0); n != 1 {
		t.Errorf("segment 0, read again and again, was opened %d times", n)
	}
	readSegment(t, l, 10)
	if n := opened(10); n != 2 {
		t.Errorf("segment 10, not read for long, was opened %d times", n)
	}
	readSegment(t, l, 190)
	if n := opened(190); n != 1 {
		t.Errorf("the active segment was opened %d times", n)
	}
}

// TestOpenSegmentsWhileRead: a file that a reader has stays open, whatever comes
// after it.
func TestOpenSegmentsWhileRead(t *testing.T) {
	l, _ := tenByteSegments(t, 20, 1)
	var slices []Slice
	for base := int64(0); base < 190; base += 10 {
		s, err := l.Read(base, 10)
		if err != nil {
			t.Fatal(err)
		}
		slices = append(slices, s)
	}
	for i := range slices {
		b := make([]byte, 10)
		if _, err := slices[i].ReadAt(b, 0); err != nil || b[9] != byte(i) {
			t.Errorf("segment %d: %x, %v", i, b, err)
		}
		file := slices[i].segment.file
		slices[i].Release()
		if _, err := file.ReadAt(b, 0); i < 18 && !errors.Is(err, os.ErrClosed) {
			t.Errorf("segment %d is open still: %v", i, err)
		}
	}
}

// TestB05ReadAtFileLimit: with too many open files a read makes room among the
// closed segments; without any it fails, says why, and the next one succeeds
// (fault B05).
func TestB05ReadAtFileLimit(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1})
	for i := range 5 {
		mustAppend(t, l, []byte{byte(i)})
	}
	mustClose(t, m)
	_, l = openTopic(t, fsys, Config{})
	limit := func() { fsys.SetHook(vfs.FailNth(vfs.OpOpen, 1, syscall.EMFILE)) }

	limit()
	if _, err := l.Read(0, 10); !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatalf("read: %v", err)
	} else {
		wantContains(t, err.Error(), `topic "t" partition 0`, "offset 0", segmentPath(0))
	}
	if err := l.Err(); err != nil {
		t.Errorf("the log: %v", err)
	}
	readSegment(t, l, 0)
	readSegment(t, l, 10)
	limit()
	readSegment(t, l, 20)
	if held := l.cfg.files.held; len(held) != 1 || held[0].base != 20 {
		t.Errorf("%d segments are open, want the one that was read last", len(held))
	}
	fsys.SetHook(nil)
	for base := int64(0); base < 50; base += 10 {
		readSegment(t, l, base)
	}
}

// TestOpenSegmentsConcurrently: readers who open, push out and hold the same
// segments, while they are closed for good.
func TestOpenSegmentsConcurrently(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(testContext(t), dir, Config{SegmentBytes: 1, OpenSegments: 2})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		mustAppend(t, l, []byte{byte(i)})
	}
	mustFlush(t, l)
	var readers sync.WaitGroup
	half := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(4)
	for r := range 4 {
		readers.Go(func() {
			for n := 0; ; n++ {
				if n == 500 {
					arrived.Done()
				}
				i := (n*7 + r*3) % 10
				s, err := l.Read(int64(10*i), 10)
				if errors.Is(err, ErrClosed) && n >= 500 {
					return
				}
				if err != nil {
					t.Errorf("read %d: %v", n, err)
					if n < 500 {
						arrived.Done()
					}
					return
				}
				b := make([]byte, 10)
				if _, err := s.ReadAt(b, 0); err != nil || b[9] != byte(i) {
					t.Errorf("segment %d: %x, %v", i, b, err)
				}
				if fd, ok := s.Fd(); !ok || fd == 0 {
					t.Errorf("segment %d has no descriptor", i)
				}
				s.Release()
			}
		})
	}
	go func() {
		arrived.Wait()
		close(half)
	}()
	<-half
	mustClose(t, m)
	readers.Wait()
	if open := openIn(t, dir); len(open) != 0 {
		t.Errorf("open after all: %v", open)
	}
}

// openIn returns the files of a folder that this process has open.
func openIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		// Those that are closed meanwhile have no link.
		if path, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(path, dir) {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestReadOfAClosedSegmentWithoutAllocation: once its file is open, reading it
// makes no garbage.
func TestReadOfAClosedSegmentWithoutAllocation(t *testing.T) {
	m, err := Open(testContext(t), t.TempDir(), Config{SegmentBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(testContext(t))
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		mustAppend(t, l, []byte{byte(i)})
	}
	mustFlush(t, l)
	n := testing.AllocsPerRun(100, func() {
		s, err := l.Read(10, 100)
		if err != nil || s.Len() != 10 {
			t.Fatal(s.Len(), err)
		}
		s.Release()
	})
	if n != 0 {
		t.Errorf("a read allocates %v times", n)
	}
}

// TestOpenSegmentsByDefault: it is within the process's limit of open files.
func TestOpenSegmentsByDefault(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n := defaultOpenSegments(); n < 1 || uint64(n) > max(limit.Cur/8, 1) || n > maxOpenSegments {
		t.Errorf("%d with a limit of %d", n, limit.Cur)
	}
}

// BenchmarkReadClosed is a read of segments that are not kept open, beside one
// of those that are.
func BenchmarkReadClosed(b *testing.B) {
	for _, openSegments := range []int{1, 100} {
		b.Run(fmt.Sprintf("open=%d", openSegments), func(b *testing.B) {
			m, err := Open(testContext(b), b.TempDir(), Config{SegmentBytes: 1, OpenSegments: openSegments})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close(testContext(b))
			l, err := m.Ensure("t", 0)
			if err != nil {
				b.Fatal(err)
			}
			for i := range 50 {
				mustAppend(b, l, []byte{byte(i)})
			}
			mustFlush(b, l)
			b.ReportAllocs()
			offset := int64(0)
			for b.Loop() {
				s, err := l.Read(offset, 10)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
				offset = (offset + 10) % 490
			}
		})
	}
}
