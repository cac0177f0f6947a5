package storage

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"kafkalab/kafka/message"
)

// TestFillerSizes: fillers of every size are as long as they should be and, if
// they are long enough for that, hand out nothing.
func TestFillerSizes(t *testing.T) {
	sizes := []int{maxFiller - 1, maxFiller}
	for n := minFiller; n <= 300; n++ {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		before := set([]byte("before"))
		log := appendFiller(before, n)
		if len(log) != len(before)+n {
			t.Fatalf("filler of %d bytes has %d", n, len(log)-len(before))
		}
		log = append(log, set([]byte("behind"))...)
		valid, messages, err := message.Check(log, message.Limits{})
		want := 2
		if n < minSilentFiller {
			want = 3
		}
		if err != nil || valid != len(log) || messages != want {
			t.Errorf("filler of %d bytes: %d messages in %d of %d bytes, %v", n, messages, valid, len(log), err)
		}
		it := message.Set(log).Iterate(100)
		var seen []int64
		for it.Next() {
			seen = append(seen, it.Offset())
		}
		if it.Err() != nil || it.NextOffset() != 100+int64(len(log)) || len(seen) != want || seen[want-1] != 100+int64(len(before)+n) {
			t.Errorf("filler of %d bytes: messages at %d, end %d, %v", n, seen, it.NextOffset(), it.Err())
		}
	}
}

// TestFillerIsEmptyGzip: other implementations take a filler for what it is to
// ours, a gzip member of nothing.
func TestFillerIsEmptyGzip(t *testing.T) {
	for _, n := range []int{minSilentFiller, minSilentFiller + 1, 100, maxFiller} {
		z, err := gzip.NewReader(bytes.NewReader(appendFiller(nil, n)[message.Overhead1:]))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		b, err := io.ReadAll(z)
		if err != nil || len(b) != 0 {
			t.Errorf("%d bytes: holds %x, %v", n, b, err)
		}
		// RFC 1952 §2.3.1.1: two bytes of name, two of length, data.
		if x := z.Extra; len(x) < 4 || string(x[:2]) != fillerField || int(x[2])|int(x[3])<<8 != len(x)-4 {
			t.Errorf("%d bytes: extra field of %d bytes, %x…", n, len(x), x[:min(len(x), 8)])
		}
	}
}

// TestWriteFillers: any number of bytes is filled exactly, and nothing that need
// not be is handed out.
func TestWriteFillers(t *testing.T) {
	for _, n := range []int64{9, 35, 36, maxFiller - 1, maxFiller, maxFiller + 1, maxFiller + 35, maxFiller + 36, 2*maxFiller + 1, 3*maxFiller + 20} {
		fsys, _ := newTestFS()
		put(t, fsys, segmentPath(0), set([]byte("before")))
		at := int64(message.EntrySize(6))
		f, err := fsys.OpenWrite(segmentPath(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFillers(testContext(t), f, at, n); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(testContext(t), segmentPath(0), WalkOptions{FS: fsys})
		if err != nil || r.Err() != nil {
			t.Fatalf("%d bytes: %v, %v", n, r.Err(), err)
		}
		s := r.Partitions[0].Segments[0]
		wantMessages, wantFilled := int64(1), n
		if n < int64(minSilentFiller) {
			wantMessages, wantFilled = 2, 0
		}
		if s.Size != at+n || s.Messages != wantMessages || s.FillerBytes != wantFilled {
			t.Errorf("%d bytes: %+v", n, s)
		}
	}
	fsys, _ := newTestFS()
	put(t, fsys, segmentPath(0), nil)
	f, err := fsys.OpenWrite(segmentPath(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFillers(testContext(t), f, 0, minFiller-1); err == nil || fileSize(fsys, segmentPath(0)) != 0 {
		t.Errorf("too few bytes: %v", err)
	}
}

// TestNotAFiller: what only looks like one is a message.
func TestNotAFiller(t *testing.T) {
	good := appendFiller(nil, 200)
	for what, b := range map[string][]byte{
		"other text":   bytes.Replace(good, []byte(fillerText), []byte("K"+fillerText[1:]), 1),
		"other codec":  append(append(append([]byte(nil), good[:5]...), byte(message.CodecSnappy)), good[6:]...),
		"a plain one":  set(make([]byte, 191)),
		"a small one":  appendFiller(nil, minSilentFiller-1),
		"a compressed": compressed(t, set([]byte("x")), message.CodecGzip),
	} {
		s := newScanner(bytes.NewReader(b), 0, int64(len(b)))
		s.keep = len(b)
		if _, err := s.scanAll(testContext(t), func(e scanned, payload []byte) error {
			if isFiller(e, payload) {
				t.Errorf("%s is taken for a filler", what)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
