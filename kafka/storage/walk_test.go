package storage

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// walkLog makes a log folder with two topics, and several segments in one.
func walkLog(t *testing.T) *vfs.Mem {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{SegmentBytes: 30, DefaultPartitions: 2})
	for i, name := range []string{"a", "b"} {
		l, err := m.Ensure(name, int32(i))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			mustAppend(t, l, payload(n, 10), payload(n, 20))
		}
	}
	mustClose(t, m)
	return fsys
}

func TestWalk(t *testing.T) {
	fsys := walkLog(t)
	for path, want := range map[string]int{
		testDir:                              20,
		testDir + "/a-0":                     10,
		testDir + "/b-1/" + segmentName(48):  2,
		testDir + "/b-1/":                    10,
		testDir + "/../log":                  20,
		testDir + "/a-0/" + segmentName(192): 2,
	} {
		n := 0
		next := map[string]int64{}
		r, err := Walk(testContext(t), path, WalkOptions{FS: fsys}, func(e Entry) error {
			size := []int{10, 20}[n%2]
			if string(e.Message.Payload) != string(payload(int(e.Offset/48), size)) || e.PayloadBytes != int64(size) {
				t.Errorf("%s offset %d: payload %x", e.Topic, e.Offset, e.Message.Payload)
			}
			if before, there := next[e.Topic]; there && before != e.Offset || e.NextOffset != e.Offset+int64(message.EntrySize(size)) {
				t.Errorf("%s: offset %d, next %d after %d", e.Topic, e.Offset, e.NextOffset, before)
			}
			next[e.Topic] = e.NextOffset
			n++
			return nil
		})
		if err != nil || r.Err() != nil || r.Running {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
		if n != want {
			t.Errorf("%s: %d messages, %d wanted", path, n, want)
		}
	}
}

func TestWalkStops(t *testing.T) {
	fsys := walkLog(t)
	own := errors.New("own")
	for give, want := range map[error]error{ErrStopWalk: nil, own: own} {
		n := 0
		_, err := Walk(testContext(t), testDir, WalkOptions{FS: fsys}, func(Entry) error {
			n++
			if n == 3 {
				return give
			}
			return nil
		})
		if !errors.Is(err, want) || n != 3 {
			t.Errorf("%v after %d messages", err, n)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := Verify(ctx, testDir, WalkOptions{FS: fsys}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestVerifyFindsEverything at once, and goes on behind each fault.
func TestVerifyFindsEverything(t *testing.T) {
	fsys := walkLog(t)
	damaged := content(t, fsys, testDir+"/a-0/"+segmentName(48))
	damaged[40] ^= 1 // in the second message
	put(t, fsys, testDir+"/a-0/"+segmentName(48), damaged)
	if err := fsys.Remove(testDir + "/a-0/" + segmentName(96)); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, testDir+"/a-0/"+segmentName(48)+".cut-90", []byte("cut off"))
	put(t, fsys, testDir+"/strange/x", nil)
	put(t, fsys, testDir+"/t-7/7.kafka", nil)
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind.Changes() {
			t.Errorf("verify did %s %s", op.Kind, op.Path)
		}
		if op.Kind == vfs.OpRead && strings.Contains(op.Path, "b-1/"+segmentName(96)) {
			return syscall.EIO
		}
		return nil
	})
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, r.Err().Error(),
		"message at offset 67: checksum mismatch", segmentName(48),
		"ends at offset 96", "begins at 144",
		`"strange"`, "7.kafka", "input/output error")
	a := r.Partitions[0]
	if len(a.Cuts) != 1 || a.Cuts[0].Bytes != 7 || a.Segments[1].Messages != 1 || a.Segments[1].ValidBytes != 19 || a.Segments[1].Size != 48 {
		t.Errorf("report on a: %+v", a)
	}
	if n := len(r.Partitions); n != 4 {
		t.Errorf("%d partitions", n)
	}
}

func TestWalkErrors(t *testing.T) {
	fsys := walkLog(t)
	put(t, fsys, "/other/file", nil)
	put(t, fsys, testDir+"/a-0/x.kafka", nil)
	// Foreign folders that are named like partitions.
	put(t, fsys, "/etc/program-6/settings", nil)
	put(t, fsys, "/etc/other/settings", nil)
	for path, says := range map[string]string{
		"/missing":               "not exist",
		"/other":                 "no log folder",
		"/other/file":            "no segment file",
		"/etc":                   "no log folder",
		"/etc/program-6":         "no log folder",
		testDir + "/a-0/x.kafka": "20 digits",
	} {
		if _, err := Verify(testContext(t), path, WalkOptions{FS: fsys}); err == nil {
			t.Errorf("%s: no error", path)
		} else {
			wantContains(t, err.Error(), path, says)
		}
	}
}

// TestWalkLargeMessage: no more of a payload than the limit is kept.
func TestWalkLargeMessage(t *testing.T) {
	fsys, _ := newTestFS()
	put(t, fsys, segmentPath(0), set(payload(1, 2*scanBytes), payload(2, 5)))
	n := 0
	r, err := Walk(testContext(t), segmentPath(0), WalkOptions{FS: fsys, MaxPayloadBytes: 100}, func(e Entry) error {
		n++
		if e.PayloadBytes > 100 && (len(e.Message.Payload) != 100 || string(e.Message.Payload) != string(payload(1, 100))) {
			t.Errorf("%d bytes of %d", len(e.Message.Payload), e.PayloadBytes)
		}
		return nil
	})
	if err != nil || r.Err() != nil || n != 2 {
		t.Errorf("%d messages, %v, %v", n, r.Err(), err)
	}
}

// TestWalkBesideBroker: on a real file system, with a broker at work.
func TestWalkBesideBroker(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(testContext(t), dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, []byte("x"))
	for _, path := range []string{dir, filepath.Join(dir, "t-0"), filepath.Join(dir, "t-0", segmentName(0))} {
		if r, err := Verify(testContext(t), path, WalkOptions{}); err != nil || r.Err() != nil || !r.Running || r.Partitions[0].Topic != "t" {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	mustClose(t, m)
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if r, err := Verify(testContext(t), ".", WalkOptions{}); err != nil || r.Err() != nil || r.Running {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err == nil {
		t.Error("verify has made a lock file")
	}
}

// TestWalkBesideWriting: what a broker is just writing is no damage, while the
// same bytes are when no broker runs, or when they are not the end of the log.
func TestWalkBesideWriting(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{SegmentBytes: 30})
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, payload(0, 30))
	mustAppend(t, l, payload(1, 30))
	first, last := segmentPath(0), segmentPath(39)
	torn := append(content(t, fsys, last), set(payload(2, 30))[:20]...)
	put(t, fsys, last, torn)
	for _, path := range []string{testDir, testDir + "/t-0", last} {
		r, err := Verify(testContext(t), path, WalkOptions{FS: fsys})
		segments := r.Partitions[0].Segments
		if s := segments[len(segments)-1]; err != nil || r.Err() != nil || s.Messages != 1 || s.ValidBytes != 39 || s.Size != 59 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	put(t, fsys, first, content(t, fsys, first)[:20])
	for _, path := range []string{testDir, first} {
		if r, err := Verify(testContext(t), path, WalkOptions{FS: fsys}); err != nil || !errors.Is(r.Err(), ErrTorn) {
			t.Errorf("%s, torn in the middle of the log: %+v, %v", path, r, err)
		}
	}
	_ = m.Close(testContext(t)) // the file is not what it has written
	if r, err := Verify(testContext(t), last, WalkOptions{FS: fsys}); err != nil || !errors.Is(r.Err(), ErrTorn) {
		t.Errorf("without a broker: %+v, %v", r, err)
	}
}

// TestWalkUnderLoad: a log that grows all the time, and rolls, is always sound.
func TestWalkUnderLoad(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(testContext(t), dir, Config{SegmentBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	group, done, written := set(payload(0, 100_000), payload(1, 50)), make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil && n < 300; n++ {
			select {
			case <-done:
				n = 300
			default:
				_, err = l.Append(group, 2)
			}
		}
		written <- err
	}()
	for range 20 {
		if r, err := Verify(testContext(t), dir, WalkOptions{}); err != nil || r.Err() != nil {
			t.Errorf("%v, %v", r.Err(), err)
		}
	}
	close(done)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	mustClose(t, m)
}

// v27 is a segment of plain and compressed messages (Kafka 0.7 §2.4, V27).
const v27 = "00000015004f673ce474657374206d65737361676520737472" + "0000001601004f673ce474657374206d65737361676520737472" +
	"0000003f01014539a0731f8b0800000000000000636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf0772b81919dc8edef85a9251949a0a000da421ea29000000" +
	"0000000a01004adba9a06c617374"

// TestWalkCompressed: the messages inside a compressed one are visited with the
// offsets that consumers see (Kafka 0.7 §2.3), or, shallow, as they are stored.
func TestWalkCompressed(t *testing.T) {
	b, err := hex.DecodeString(v27)
	if err != nil {
		t.Fatal(err)
	}
	fsys, _ := newTestFS()
	put(t, fsys, segmentPath(0), b)
	for _, test := range []struct {
		opt  WalkOptions
		want string
	}{
		{WalkOptions{}, `
			0-25 "test message str"
			25-51 "test message str"
			51-51 1/3 "one"
			51-51 2/3 "two"
			51-118 3/3 "three"
			118-132 "last"`},
		{WalkOptions{From: 51}, `
			51-51 1/3 "one"
			51-51 2/3 "two"
			51-118 3/3 "three"
			118-132 "last"`},
		{WalkOptions{Shallow: true, From: 25}, `
			25-51 "test message str"
			51-118 gzip, 57 bytes
			118-132 "last"`},
		{WalkOptions{MaxDecompressedBytes: 40, From: 51}, `
			51-118 gzip, 57 bytes
			118-132 "last"`},
		{WalkOptions{From: 132}, ``},
	} {
		got := ""
		test.opt.FS = fsys
		r, err := Walk(testContext(t), segmentPath(0), test.opt, func(e Entry) error {
			got += fmt.Sprintf("\n\t\t\t%d-%d ", e.Offset, e.NextOffset)
			switch {
			case e.Inner > 0:
				got += fmt.Sprintf("%d/%d %q", e.Inner, e.InnerOf, e.Message.Payload)
			case e.Codec != message.CodecNone:
				got += fmt.Sprintf("%v, %d bytes", e.Codec, e.PayloadBytes)
			default:
				got += fmt.Sprintf("%q", e.Message.Payload)
			}
			return nil
		})
		if err != nil || r.Err() != nil || got != test.want {
			t.Errorf("%+v: %v, %v, visits%s", test.opt, err, r.Err(), got)
		}
	}
	for _, from := range []int64{-1, 133, 1 << 40} {
		if _, err := Walk(testContext(t), segmentPath(0), WalkOptions{FS: fsys, From: from}, func(Entry) error { return nil }); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("from %d: %v", from, err)
		}
	}
	if _, err := Walk(testContext(t), testDir+"/..", WalkOptions{FS: fsys, From: 51}, nil); err == nil {
		t.Error("an offset in no log: no error")
	}
	// The middle of a message is damage, as it is to a fetch.
	if r, err := Walk(testContext(t), segmentPath(0), WalkOptions{FS: fsys, From: 30}, func(Entry) error { return nil }); err != nil || r.Err() == nil {
		t.Errorf("from the middle of a message: %v, %v", err, r.Err())
	}
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	if s := r.Partitions[0].Segments[0]; err != nil || s.Entries != 4 || s.Messages != 6 || s.ValidBytes != 132 || s.Unopened != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	r, err = Verify(testContext(t), testDir, WalkOptions{FS: fsys, MaxDecompressedBytes: 40})
	if s := r.Partitions[0].Segments[0]; err != nil || s.Entries != 4 || s.Messages != 4 || s.Unopened != 1 || r.Err() != nil {
		t.Errorf("too large to be opened: %+v, %v, %v", s, r.Err(), err)
	}
}

// TestWalkInside: damage inside a compressed message that is sound as it is
// stored stops consumers, so it is found.
func TestWalkInside(t *testing.T) {
	inner := set([]byte("one"), []byte("two"))
	inner[len(inner)-1] ^= 1
	bad, err := message.Compress(nil, inner, message.CodecGzip)
	if err != nil {
		t.Fatal(err)
	}
	before, behind := set([]byte("before")), set([]byte("behind"))
	fsys, _ := newTestFS()
	put(t, fsys, segmentPath(0), bytes.Join([][]byte{before, bad, behind}, nil))
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	s := r.Partitions[0].Segments[0]
	if err != nil || s.Damage == nil || !errors.Is(s.Damage, message.ErrCRC) || s.Messages != 1 || s.Behind != 1 ||
		len(s.Damaged) != 1 || !s.Damaged[0].Inside || s.Damaged[0].Offset != 15 || s.Damaged[0].End != 15+int64(len(bad)) {
		t.Errorf("%+v, %v", s, err)
	}
	n := 0
	r, err = Walk(testContext(t), testDir, WalkOptions{FS: fsys}, func(Entry) error { n++; return nil })
	if err != nil || n != 1 || !errors.Is(r.Err(), message.ErrCRC) {
		t.Errorf("%d visits, %v, %v", n, r.Err(), err)
	}
	// Shallow it is sound: that is how it was stored.
	if r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys, Shallow: true}); err != nil || r.Err() != nil {
		t.Errorf("shallow: %v, %v", r.Err(), err)
	}
}

// TestVerifySaysWhatIsKnown: how far a log was flushed, and what is kept beside
// it.
func TestVerifySaysWhatIsKnown(t *testing.T) {
	fsys := walkLog(t) // stopped cleanly
	a := testDir + "/a-0/"
	last := a + segmentName(192)
	b := content(t, fsys, last)
	b[40] ^= 1
	put(t, fsys, last, append(b, 0))
	one := set([]byte("one"))
	put(t, fsys, last+".cut-240", append(bytes.Clone(one), 1, 2))
	put(t, fsys, last+".cut-240.2", []byte("again"))
	put(t, fsys, a+segmentName(0)+".replaced-19", one)
	put(t, fsys, a+segmentName(48)+".stale", append(bytes.Clone(one), one...))
	put(t, fsys, a+segmentName(48)+".cut-50.tmp", one)
	put(t, fsys, a+segmentName(48)+".cut-x", one)
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Partitions[0]
	if !p.CleanStop || p.Flushed != 240 || p.Segments[len(p.Segments)-1].Damage.Offset != 211 {
		t.Errorf("flushed up to %d, clean stop %v, damage %v", p.Flushed, p.CleanStop, p.Segments[len(p.Segments)-1].Damage)
	}
	want := []CutFile{
		{a + segmentName(0) + ".replaced-19", CutReplaced, 19, 12, 1},
		{a + segmentName(48) + ".stale", CutStale, 48, 24, 2},
		{last + ".cut-240", CutTail, 240, 14, 1},
		{last + ".cut-240.2", CutTail, 240, 5, 0},
	}
	if !slices.Equal(p.Cuts, want) {
		t.Errorf("kept %+v", p.Cuts)
	}
	if err := fsys.Remove(testDir + "/" + cleanName); err != nil {
		t.Fatal(err)
	}
	if r, err = Verify(testContext(t), testDir, WalkOptions{FS: fsys}); err != nil || r.Partitions[0].CleanStop || r.Partitions[0].Flushed != 192 {
		t.Errorf("after an unclean stop: %+v, %v", r.Partitions[0], err)
	}
}

// TestVerifyListsSoManyPlaces and no more: a report has a bound, whatever a file
// holds.
func TestVerifyListsSoManyPlaces(t *testing.T) {
	var b []byte
	for range MaxReportedDamage + 50 {
		b = append(b, set([]byte("x"), []byte("y"))...)
		b[len(b)-1] ^= 1
	}
	fsys, _ := newTestFS()
	put(t, fsys, segmentPath(0), b)
	r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
	s := r.Partitions[0].Segments[0]
	if err != nil || len(s.Damaged) != MaxReportedDamage || s.Unlisted != 50 || s.Behind != MaxReportedDamage+49 {
		t.Errorf("%d listed, %d not, %d behind, %v", len(s.Damaged), s.Unlisted, s.Behind, err)
	}
	fsys = fsys.Clone()
	if r, mends := mustRepair(t, fsys, testDir, RepairOptions{ReplaceDamaged: true}); r.Left != 1 || fileSize(fsys, segmentPath(0)) != int64(len(b)) {
		t.Errorf("%+v", mends)
	}
}
