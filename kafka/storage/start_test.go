package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestStartAfterCrash: a start after an unclean stop looks at the last segment of
// each log and opens no other, and changes none that is sound.
func TestStartAfterCrash(t *testing.T) {
	const partitions, perLog = 30, 10
	fsys, _ := newTestFS()
	active := map[string]bool{}
	for p := range partitions {
		dir := filepath.Join(testDir, fmt.Sprintf("t-%d", p))
		for i := range perLog {
			path := filepath.Join(dir, segmentName(int64(10*i)))
			put(t, fsys, path, set([]byte{byte(i)}))
			if i == perLog-1 {
				active[path] = true
			}
		}
	}
	var mu sync.Mutex
	opened := map[string]int{}
	fsys.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasSuffix(op.Path, segmentSuffix) {
			return nil
		}
		switch op.Kind {
		case vfs.OpOpen:
			opened[op.Path]++
		case vfs.OpRead, vfs.OpSync, vfs.OpTruncate: // to the size that it has
		default:
			t.Errorf("%s %s", op.Kind, op.Path)
		}
		if !active[op.Path] {
			t.Errorf("%s closed segment %s", op.Kind, op.Path)
		}
		return nil
	})
	m := open(t, fsys, Config{DefaultPartitions: partitions})
	fsys.SetHook(nil)
	for path := range active {
		if opened[path] != 1 {
			t.Errorf("%s was opened %d times", path, opened[path])
		}
	}
	logs := m.Logs()
	if len(logs) != partitions {
		t.Fatalf("%d logs", len(logs))
	}
	for _, l := range logs {
		wantState(t, l, 0, 10*perLog, 10*perLog, perLog)
		for i, p := range payloads(t, l) {
			if len(p) != 1 || p[0] != byte(i) {
				t.Fatalf("partition %d: message %d is %x", l.Partition(), i, p)
			}
		}
	}
	mustClose(t, m)
}

// BenchmarkStartAfterCrash is the start of 1,000 partitions of 10 segments, the
// last of which holds 4 MiB of 200-byte messages, after an unclean stop. It needs
// 4.2 GB on the disk of the temporary folder.
func BenchmarkStartAfterCrash(b *testing.B) {
	const partitions, perLog, lastBytes = 1000, 10, 4 << 20
	dir := b.TempDir()
	small := set(payload(1, 200))
	var large []byte
	for i := 0; len(large) < lastBytes; i++ {
		large = append(large, set(payload(i, 200))...)
	}
	for p := range partitions {
		folder := filepath.Join(dir, fmt.Sprintf("t-%d", p))
		if err := os.Mkdir(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		for i := range perLog {
			content := small
			if i == perLog-1 {
				content = large
			}
			if err := os.WriteFile(filepath.Join(folder, segmentName(int64(i*len(small)))), content, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		m, err := Open(b.Context(), dir, Config{DefaultPartitions: partitions})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := len(m.Logs()); n != partitions {
			b.Fatalf("%d logs", n)
		}
		if err := m.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, cleanName)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(partitions*len(large))/1e6*float64(b.N)/b.Elapsed().Seconds(), "MB/s")
}
