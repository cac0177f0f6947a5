package storage

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// copyFolder copies a log folder, with the times of its files or without.
func copyFolder(t *testing.T, to, from string, times bool) {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, name)
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil || !times {
			return err
		}
		return sameTime(filepath.Join(to, name), path)
	})
	for _, name := range dirs { // after what is in them was made
		if times && err == nil {
			err = sameTime(filepath.Join(to, name), filepath.Join(from, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sameTime(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.Chtimes(to, time.Time{}, info.ModTime())
}

// segmentTimes returns the times of the segment files of topic t, partition 0.
func segmentTimes(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	for name := range segmentSizes(t, dir) {
		if !strings.HasSuffix(name, segmentSuffix) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, "t-0", name))
		if err != nil {
			t.Fatal(err)
		}
		times[name] = info.ModTime()
	}
	return times
}

// TestB07RecoveryKeepsTimes: a start does not make old segments look new, after
// whatever stop; so they are deleted on schedule. A copy without times is as old
// as the copying, as the package's text says (fault B07).
func TestB07RecoveryKeepsTimes(t *testing.T) {
	cases := []struct {
		how    string
		active bool // the last segment is old too
		times  bool // the folder is copied with its times
		left   int  // segments, of 4
	}{
		{"clean stop", false, true, 1},
		{"clean stop", true, true, 1},
		{"kill", false, true, 1},
		{"kill", true, true, 1},
		{"kill and torn tail", true, true, 1},
		{"copy without times", true, false, 4},
	}
	for _, tc := range cases {
		name := tc.how
		if tc.active {
			name += ", all old"
		}
		t.Run(name, func(t *testing.T) {
			dir, running := t.TempDir(), t.TempDir()
			m, err := Open(testContext(t), running, Config{SegmentBytes: 100})
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Ensure("t", 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 11 {
				mustAppend(t, l, payload(i, 41))
			}
			mustFlush(t, l)
			if tc.how == "clean stop" {
				mustClose(t, m)
			}
			base := last(segmentSizes(t, running))
			for name := range segmentSizes(t, running) {
				if name == base && !tc.active {
					continue
				}
				old := time.Now().Add(-8 * day).Truncate(time.Second)
				if err := os.Chtimes(filepath.Join(running, "t-0", name), old, old); err != nil {
					t.Fatal(err)
				}
			}
			copyFolder(t, dir, running, tc.times)
			mustClose(t, m)
			if strings.Contains(tc.how, "torn") {
				path := filepath.Join(dir, "t-0", base)
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Truncate(path, info.Size()-1), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
					t.Fatal(err)
				}
			}

			before := segmentTimes(t, dir)
			m, err = Open(testContext(t), dir, Config{SegmentBytes: 100, RetentionAge: 7 * day})
			if err != nil {
				t.Fatal(err)
			}
			l = m.Lookup([]byte("t"), 0)
			end := l.State().LogEnd
			if after := segmentTimes(t, dir); len(after) != 4 || len(before) != 4 {
				t.Errorf("%d segments, after the start %d", len(before), len(after))
			} else {
				for name, was := range before {
					if !after[name].Equal(was) {
						t.Errorf("the start changed the time of %s from %v to %v", name, was, after[name])
					}
				}
			}
			mustRetain(t, m)
			if s := l.State(); s.Segments != tc.left || s.LogEnd != end || len(segmentTimes(t, dir)) != tc.left {
				t.Errorf("after retention: %+v, files %v", s, segmentTimes(t, dir))
			}
			mustClose(t, m)
		})
	}
}

// TestB07RewritingKeepsTimes: nor does a segment that is written anew after a
// failed sync look new.
func TestB07RewritingKeepsTimes(t *testing.T) {
	fsys, c := newTestFS()
	put(t, fsys, segmentPath(0), set([]byte("x")))
	old := c.Now()
	c.Advance(8 * day)
	var logged logBuffer
	cfg := Config{RetentionAge: 7 * day, CleanupInterval: noTimer, Clock: c, Logger: logged.logger()}
	fsys.SetHook(vfs.FailNth(vfs.OpSync, 1, syscall.EIO))
	m, l := openTopic(t, fsys, cfg)
	fsys.SetHook(nil)
	wantContains(t, logged.String(), "out of service", "rewritten_from=0")
	wantState(t, l, 0, 10, 10, 1)
	mustClose(t, m)
	if got := fileTime(t, fsys, segmentPath(0)); !got.Equal(old) {
		t.Errorf("the segment that was written anew is of %v, want %v", got, old)
	}
	m, l = openTopic(t, fsys, cfg)
	mustRetain(t, m)
	wantState(t, l, 10, 10, 10, 1)
}

// openDeleted returns which files of a folder this process has open although
// they are deleted.
func openDeleted(t *testing.T, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(openIn(t, dir), func(path string) bool { return !strings.HasSuffix(path, " (deleted)") })
}

// TestB08ReaderOfADeletedSegment: a reader that stands still in the middle of a
// segment does not hold retention up. Its answer stays whole; the next read is
// out of range, and what is valid can be asked for. The file is closed with its
// last reader (fault B08, at the log).
func TestB08ReaderOfADeletedSegment(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(testContext(t), dir, Config{SegmentBytes: 10_000, RetentionBytes: 15_000})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(testContext(t))
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	appendSome := func() {
		for i := range 500 {
			a := mustAppend(t, l, payload(i, 91))
			all = append(all, set(payload(i, 91))...)
			if a.Next != int64(len(all)) {
				t.Fatalf("append ends at %d, want %d", a.Next, len(all))
			}
		}
		mustFlush(t, l)
	}
	appendSome()

	var readers []Slice
	for _, offset := range []int64{5000, 5000, 10_100, 20_300} { // segments 1, 1, 2, 3
		s, err := l.Read(offset, 1000)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, s)
	}
	appendSome()
	mustRetain(t, m)
	first := l.State().First
	if first <= 20_300 {
		t.Fatalf("the log still begins at %d", first)
	}
	if got := openDeleted(t, dir); len(got) != 3 {
		t.Errorf("deleted and still open: %v, want the three that are read", got)
	}
	for i, offset := range []int64{5000, 5000, 10_100, 20_300} {
		b := make([]byte, 1000)
		if n, err := readers[i].ReadAt(b, 0); n != 1000 || err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b, all[offset:offset+1000]) {
			t.Errorf("reader at %d: %d bytes, %v: not what was written", offset, n, err)
		}
		if _, ok := readers[i].Fd(); !ok {
			t.Errorf("reader at %d has no descriptor", offset)
		}
		if _, err := l.Read(offset+1000, 1000); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("read at %d: %v", offset+1000, err)
		}
	}
	if got := l.OffsetsBefore(timeEarliest, 1); len(got) != 1 || got[0] != first {
		t.Errorf("earliest offset %v, want %d", got, first)
	}
	if got := read(t, l, first, 1<<20); !bytes.Equal(got, all[first:]) {
		t.Error("what is left is not what was written")
	}
	for i, left := range []int{3, 2, 1, 0} {
		readers[i].Release()
		if got := openDeleted(t, dir); len(got) != left {
			t.Errorf("after %d readers: deleted and still open: %v, want %d", i+1, got, left)
		}
	}
}
