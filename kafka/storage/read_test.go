package storage

import (
	"errors"
	"io"
	"testing"
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
