package storage

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// TestWalkOverCopy: of a file that holds what was taken out of a log every sound
// message is visited, also behind damage, with the offset that it had.
func TestWalkOverCopy(t *testing.T) {
	one, two, three := set(payload(1, 40)), set(payload(2, 50)), set(payload(3, 60))
	packed := compressed(t, bytes.Join([][]byte{set(payload(4, 10)), set(payload(5, 10))}, nil), message.CodecGzip)
	inside := message.Append1(nil, []byte("this is not gzip, but the checksum fits"), message.CodecGzip)
	tail := bytes.Join([][]byte{damaged(one, 20), two, inside, packed, three[:30]}, nil)
	fsys, _ := newTestFS()
	putSegments(t, fsys, append(bytes.Clone(one), tail...))
	if r, mends := mustRepair(t, fsys.Clone(), testDir, RepairOptions{Cut: true}); r.Mended != 1 || r.Left != 0 {
		t.Fatalf("%+v", mends)
	}
	fsys = fsys.Clone()
	mustRepair(t, fsys, testDir, RepairOptions{Cut: true})
	path := segmentPath(0) + ".cut-49"
	for from, want := range map[int64][][]byte{
		0:                            {payload(2, 50), payload(4, 10), payload(5, 10)},
		int64(len(one) + len(tail)):  nil,
		int64(2*len(one) + len(two)): {payload(4, 10), payload(5, 10)},
	} {
		var got [][]byte
		report, err := Walk(testContext(t), path, WalkOptions{FS: fsys, From: from}, func(e Entry) error {
			got = append(got, bytes.Clone(e.Message.Payload))
			if e.Topic != "t" || e.Segment != path {
				t.Errorf("message of %q in %s", e.Topic, e.Segment)
			}
			if len(got) == 1 && from == 0 && e.Offset != int64(2*len(one)) {
				t.Errorf("offset %d", e.Offset)
			}
			return nil
		})
		if err != nil || report.Err() != nil || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("from %d: %d messages, %v, %v", from, len(got), err, report.Err())
		}
		if s := report.Partitions[0].Segments[0]; s.Kept != CutTail || from == 0 && (len(s.Damaged) != 3 || !s.Damaged[1].Inside || s.Messages != 3) {
			t.Errorf("from %d: %+v", from, s)
		}
	}
	stop := errors.New("stop")
	if _, err := Walk(testContext(t), path, WalkOptions{FS: fsys}, func(Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := Verify(testContext(t), path, WalkOptions{FS: fsys}); err == nil || !strings.Contains(err.Error(), "is no segment file, but holds what was taken out of one") {
		t.Errorf("verify: %v", err)
	}
	if _, err := Repair(testContext(t), path, RepairOptions{FS: fsys}, nil); err == nil || !strings.Contains(err.Error(), "nothing to repair") {
		t.Errorf("repair: %v", err)
	}
	for _, name := range []string{".cut-x", ".cut--1", ".cut-9223372036854775807", ".cut-1.tmp"} {
		put(t, fsys, segmentPath(0)+name, one)
		if _, err := Walk(testContext(t), segmentPath(0)+name, WalkOptions{FS: fsys}, func(Entry) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRecoveryCountsWhatItCuts: a start cuts at the first bad message, and its log
// says how many sound ones lay behind it, and how to get at them.
func TestRecoveryCountsWhatItCuts(t *testing.T) {
	one, two, three := set(payload(1, 40)), set(payload(2, 50)), set(payload(3, 60))
	for name, test := range map[string]struct {
		tail []byte
		says string
		back bool
	}{
		"two behind":  {bytes.Join([][]byte{damaged(one, 20), two, three}, nil), "sound_messages_in_it=2", true},
		"none behind": {two[:20], "sound_messages_in_it=0", false},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "t-0", segmentName(0))
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, append(bytes.Clone(one), test.tail...), 0o644)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		m, err := Open(testContext(t), dir, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, m)
		wantContains(t, log.String(), "cut a bad tail off the log", test.says)
		if strings.Contains(log.String(), "kafka log dump --payload-only") != test.back {
			t.Errorf("%s: %s", name, &log)
		}
	}
}

// TestSearchPastHole: zeros that the file system keeps as a hole are not read, and
// what begins right behind them is found.
func TestSearchPastHole(t *testing.T) {
	path := filepath.Join(t.TempDir(), segmentName(0))
	tail := set(payload(1, 40))
	for _, size := range []int64{1 << 20, 1<<20 - 2, 8<<30 - 3} { // the last takes far too long to be read
		if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		fsys := vfs.OS()
		file, err := fsys.OpenWrite(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(tail, size); err != nil {
			t.Fatal(err)
		}
		s := newScanner(file, 0, size+int64(len(tail)))
		next, sure, err := s.search(testContext(t), searchBudget)
		if next != size || !sure || err != nil {
			t.Errorf("hole of %d bytes: next %d, sure %v, %v", size, next, sure, err)
		}
		s = newScanner(file, 0, size)
		if next, sure, err := s.search(testContext(t), searchBudget); next != size || !sure || err != nil {
			t.Errorf("nothing behind: next %d, sure %v, %v", next, sure, err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
