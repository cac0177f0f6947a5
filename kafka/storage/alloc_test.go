package storage

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// TestPathsWithoutAllocation: what runs per request must not make garbage.
func TestPathsWithoutAllocation(t *testing.T) {
	m, err := Open(testContext(t), t.TempDir(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(testContext(t))
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	group, name := set(payload(1, 200)), []byte("t")
	mustAppend(t, l, payload(1, 200))
	mustFlush(t, l)
	buf := make([]byte, 100)
	ch := make(chan struct{}, 1)
	defer l.Watch(ch)()
	for what, do := range map[string]func(){
		"Lookup":     func() { m.Lookup(name, 0) },
		"Partitions": func() { m.Partitions(name) },
		"State":      func() { l.State() },
		"Append": func() {
			if _, err := l.Append(group, 1); err != nil {
				t.Fatal(err)
			}
		},
		"Read": func() {
			s, err := l.Read(0, 1<<20)
			if err != nil || s.Len() == 0 {
				t.Fatal(s.Len(), err)
			}
			if _, ok := s.Fd(); !ok {
				t.Fatal("no descriptor")
			}
			if _, err := s.ReadAt(buf, 0); err != nil {
				t.Fatal(err)
			}
			s.Release()
		},
		"Read at the end": func() {
			if _, err := l.Read(l.State().Watermark, 1); err != nil {
				t.Fatal(err)
			}
		},
		"notify": l.notify,
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
}

// TestScanAllocatesNothingPerMessage: recovery walks over millions.
func TestScanAllocatesNothingPerMessage(t *testing.T) {
	var b []byte
	for i := range 1000 {
		b = append(b, set(payload(i, 20))...)
	}
	n := testing.AllocsPerRun(10, func() {
		if damage, err := newScanner(bytes.NewReader(b), 0, int64(len(b))).scanAll(t.Context(), nil); damage != nil || err != nil {
			t.Fatal(damage, err)
		}
	})
	if n > 20 {
		t.Errorf("%v allocations for 1000 messages", n)
	}
}

// BenchmarkAppend writes one message of 200 bytes at a time, and groups of 64 KiB
// and 1 MiB.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{209, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("group %d", size), func(b *testing.B) { benchmarkAppend(b, size) })
	}
}

func benchmarkAppend(b *testing.B, size int) {
	m, err := Open(testContext(b), b.TempDir(), Config{
		SegmentBytes: 64 << 20, RetentionBytes: 128 << 20, CleanupInterval: 100 * time.Millisecond,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(testContext(b))
	l, err := m.Ensure("t", 0)
	if err != nil {
		b.Fatal(err)
	}
	group := make([]byte, 0, size)
	messages := 0
	for ; len(group)+209 <= size; messages++ {
		group = append(group, set(payload(messages, 200))...)
	}
	b.SetBytes(int64(len(group)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(group, messages); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	m, err := Open(testContext(b), b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(testContext(b))
	l, err := m.Ensure("t", 0)
	if err != nil {
		b.Fatal(err)
	}
	mustAppend(b, l, payload(1, 200))
	mustFlush(b, l)
	b.ReportAllocs()
	for b.Loop() {
		s, err := l.Read(0, 200<<10)
		if err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
}
