package storage

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestSlice: a slice shows its piece of the file and nothing behind it.
func TestSlice(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{})
	all := set(payload(1, 50), payload(2, 50))
	mustAppend(t, l, payload(1, 50), payload(2, 50))
	mustFlush(t, l)
	s, err := l.Read(10, 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Fd(); ok || s.Len() != 20 || s.Position() != 10 {
		t.Errorf("%d bytes at %d, descriptor %v", s.Len(), s.Position(), ok)
	}
	for _, c := range []struct {
		size int
		off  int64
		want string
		err  error
	}{
		{20, 0, string(all[10:30]), nil},
		{5, 15, string(all[25:30]), nil},
		{30, 0, string(all[10:30]), io.EOF},
		{30, 19, string(all[29:30]), io.EOF},
		{1, 20, "", io.EOF},
	} {
		b := make([]byte, c.size)
		if n, err := s.ReadAt(b, c.off); string(b[:n]) != c.want || err != c.err {
			t.Errorf("read %d at %d: %x, %v", c.size, c.off, b[:n], err)
		}
	}
	s.Release()
	if _, ok := s.Fd(); ok || s.Len() != 0 {
		t.Error("a released slice has something left")
	}
	if n, err := s.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Errorf("read from a released slice: %d, %v", n, err)
	}
	if _, err := l.Read(0, -1); err == nil || errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("read -1 bytes: %v", err)
	}
	if s, err := l.Read(0, 0); s.Len() != 0 || err != nil {
		t.Errorf("read 0 bytes: %d, %v", s.Len(), err)
	} else {
		s.Release()
	}
}

// TestRollOverStaleFile: a file in the way of a roll is used when it is empty,
// and never overwritten when it is not (KAFKA-654).
func TestRollOverStaleFile(t *testing.T) {
	for _, stale := range []string{"", "not ours"} {
		fsys, _ := newTestFS()
		_, l := openTopic(t, fsys, Config{SegmentBytes: 1})
		mustAppend(t, l, []byte("a"))
		put(t, fsys, segmentPath(10), []byte(stale))
		_, err := l.Append(set([]byte("b")), 1)
		if stale == "" {
			if err != nil {
				t.Fatal(err)
			}
			mustFlush(t, l)
			wantPayloads(t, l, []byte("a"), []byte("b"))
			continue
		}
		if err == nil || errors.Is(err, ErrOutOfService) {
			t.Fatalf("append: %v", err)
		}
		wantContains(t, err.Error(), segmentPath(10), "8 bytes")
		if got := content(t, fsys, segmentPath(10)); string(got) != stale {
			t.Errorf("the file holds %q", got)
		}
	}
}

// brokenStat is a file system whose open files cannot be described.
type brokenStat struct{ *vfs.Mem }

type brokenStatFile struct{ vfs.File }

func (b brokenStat) Create(name string) (vfs.File, error) {
	f, err := b.Mem.Create(name)
	return brokenStatFile{f}, err
}

func (brokenStatFile) Stat() (fs.FileInfo, error) { return nil, errors.New("no stat") }

// TestOffsetsWithoutTime: a segment whose time is unknown does not qualify.
func TestOffsetsWithoutTime(t *testing.T) {
	mem, c := newTestFS()
	var logged logBuffer
	_, l := openTopic(t, brokenStat{mem}, Config{Clock: c, Logger: logged.logger()})
	mustAppend(t, l, []byte("a"))
	mustFlush(t, l)
	if got := l.OffsetsBefore(testStart.UnixMilli()-1, 10); len(got) != 0 {
		t.Errorf("offsets %v", got)
	}
	wantContains(t, logged.String(), "no stat", segmentPath(0))
	if got := l.OffsetsBefore(testStart.UnixMilli(), 10); len(got) != 2 || got[0] != 10 {
		t.Errorf("offsets %v", got)
	}
}
