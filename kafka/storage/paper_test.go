package storage

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/message"
)

// TestPaperR06SegmentFiles (NetDB'11 §3.1): a partition is one logical log,
// kept as a list of segment files of about equal size, 1 GB by default, and what
// is published is appended to the last one.
func TestPaperR06SegmentFiles(t *testing.T) {
	if DefaultSegmentBytes != 1<<30 {
		t.Errorf("segments of %d bytes, not 1 GB", DefaultSegmentBytes)
	}
	dir := t.TempDir()
	m, err := Open(testContext(t), dir, Config{SegmentBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		sizes := segmentSizes(t, dir)
		mustAppend(t, l, payload(i, 91))
		for name, size := range segmentSizes(t, dir) {
			// Only the last file changes, or a new one comes after it.
			if old, there := sizes[name]; there && old != size && name != last(sizes) {
				t.Fatalf("append %d changed %s, the last is %s", i, name, last(sizes))
			}
		}
	}
	mustClose(t, m)
	sizes := segmentSizes(t, dir)
	var total int64
	for name, size := range sizes {
		base, ok, err := parseSegmentName(name)
		if err != nil || !ok {
			t.Errorf("%s: %v", name, err)
		}
		if name != last(sizes) && size != 10_100 {
			t.Errorf("%s has %d bytes", name, size)
		}
		if base%10_100 != 0 {
			t.Errorf("%s does not begin where another ends", name)
		}
		total += size
	}
	if total != 100_000 {
		t.Errorf("%d bytes on disk for 1,000 messages of 91 + 9", total)
	}
}

func segmentSizes(t *testing.T, dir string) map[string]int64 {
	entries, err := os.ReadDir(filepath.Join(dir, "t-0"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sizes[e.Name()] = info.Size()
	}
	return sizes
}

func last(sizes map[string]int64) (name string) {
	for n := range sizes {
		name = max(name, n)
	}
	return name
}

// TestPaperR07VisibleAfterFlush (NetDB'11 §3.1): segment files are flushed after
// a number of messages or an amount of time, and consumers see a message only
// after it is flushed.
func TestPaperR07VisibleAfterFlush(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{FlushMessages: 3, FlushInterval: time.Minute, Clock: c})

	mustAppend(t, l, []byte("1"), []byte("2"))
	wantPayloads(t, l) // nothing yet
	a := mustAppend(t, l, []byte("3"))
	if !a.FlushDue {
		t.Fatal("no flush due after three messages")
	}
	if err := l.WaitFlushed(testContext(t), a.Next); err != nil {
		t.Fatal(err)
	}
	wantPayloads(t, l, []byte("1"), []byte("2"), []byte("3"))
	if size := fileSize(fsys.CrashClone(nil), segmentPath(0)); size != a.Next {
		t.Errorf("visible up to %d, but %d bytes are safe", a.Next, size)
	}

	b := mustAppend(t, l, []byte("4"))
	wantPayloads(t, l, []byte("1"), []byte("2"), []byte("3"))
	c.WaitTimers(1)
	c.Advance(time.Minute)
	eventually(t, "flushed by time", func() bool { return l.State().Watermark == b.Next })
	wantPayloads(t, l, []byte("1"), []byte("2"), []byte("3"), []byte("4"))
	mustClose(t, m)
}

// TestPaperR08Offsets (NetDB'11 §3.1): a message has no id but its offset in the
// log; offsets grow and are not consecutive; the next message's is this one's
// and its length; and there is no index on disk.
func TestPaperR08Offsets(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 2000})
	var offsets []int64
	for i := range 100 {
		offsets = append(offsets, mustAppend(t, l, payload(i, i)).Base)
	}
	mustFlush(t, l)
	for i, offset := range offsets {
		if i > 0 && offset != offsets[i-1]+int64(message.Overhead0+i-1) {
			t.Errorf("message %d has offset %d, the one before %d and %d bytes", i, offset, offsets[i-1], message.Overhead0+i-1)
		}
		// From its offset alone each message can be read, in whatever segment.
		s, err := l.Read(offset, message.EntrySize(i))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, s.Len())
		if _, err := s.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		s.Release()
		if m, size, err := message.Parse(b); err != nil || size != len(b) || string(m.Payload) != string(payload(i, i)) {
			t.Errorf("message %d at offset %d: %d bytes, %v", i, offset, size, err)
		}
	}
	entries, err := fsys.ReadDir(filepath.Join(testDir, "t-0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), segmentSuffix) {
			t.Errorf("%s is no segment: an index?", e.Name())
		}
	}
}

// TestPaperR10ListOfOffsets (NetDB'11 §3.1): the broker keeps a sorted list of
// the segment files' first offsets in memory, and searches it for the file that
// holds a message.
func TestPaperR10ListOfOffsets(t *testing.T) {
	fsys, _ := newTestFS()
	_, l := openTopic(t, fsys, Config{SegmentBytes: 1})
	for i := range 33 {
		mustAppend(t, l, payload(i, i))
	}
	mustFlush(t, l)
	list := *l.segments.Load()
	if len(list) != 33 {
		t.Fatalf("%d segments", len(list))
	}
	for n := 1; n <= len(list); n++ { // lists of every length
		for offset := int64(0); offset < list[n-1].base+10; offset++ {
			want := 0
			for i, s := range list[:n] {
				if s.base <= offset {
					want = i
				}
			}
			if got := list[:n].find(offset); got != want {
				t.Fatalf("offset %d is in segment %d of %d, found %d", offset, want, n, got)
			}
		}
	}
}

// TestPaperR12NoCache (NetDB'11 §3.1): messages are cached by the file system
// alone and never in the process, which so has little garbage to collect.
func TestPaperR12NoCache(t *testing.T) {
	m, err := Open(testContext(t), t.TempDir(), Config{SegmentBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(testContext(t))
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	group := set(payload(1, 1<<20-message.Overhead0))
	buf := make([]byte, len(group))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(32) {
		a, err := l.Append(group, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.WaitFlushed(testContext(t), a.Next); err != nil {
			t.Fatal(err)
		}
		s, err := l.Read(i<<20, len(buf))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadAt(buf, 0); err != nil || string(buf) != string(group) {
			t.Fatalf("read back: %v", err)
		}
		s.Release()
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("%d bytes allocated for 32 MiB of messages", used)
	}
}

// TestPaperR25RecoveryRemovesBadCRC (NetDB'11 §3.3): a recovery removes messages
// whose CRC does not match.
func TestPaperR25RecoveryRemovesBadCRC(t *testing.T) {
	fsys, _ := newTestFS()
	b := set([]byte("sound"), []byte("damaged"))
	b[len(b)-1] ^= 1
	put(t, fsys, segmentPath(0), b)
	_, l := openTopic(t, fsys, Config{})
	wantPayloads(t, l, []byte("sound"))
}

// TestPaperR14TimeBasedRetention (NetDB'11 §3.1): the broker keeps no record of
// what was consumed; a message goes when it has been there for a set time, read
// or not, and until then can be read as often as anybody likes.
func TestPaperR14TimeBasedRetention(t *testing.T) {
	fsys, c := newTestFS()
	m, l := openTopic(t, fsys, Config{SegmentBytes: 1, RetentionAge: 7 * day, Clock: c})
	mustAppend(t, l, []byte("read"))
	c.Advance(day)
	mustAppend(t, l, []byte("not read"))
	mustFlush(t, l)
	for range 6 {
		read(t, l, 0, message.EntrySize(4))
		mustRetain(t, m)
		wantPayloads(t, l, []byte("read"), []byte("not read"))
		c.Advance(day)
	}
	c.Advance(1)
	mustRetain(t, m)
	wantPayloads(t, l, []byte("not read"))
	c.Advance(day)
	mustRetain(t, m)
	wantPayloads(t, l)
}
