package storage

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// addSegments adds what segment files may hold to a fuzz target.
func addSegments(f *testing.F, add func(b []byte)) {
	plain := set([]byte("one"), nil, payload(1, 300))
	mixed := append(message.Append1(plain[:len(plain):len(plain)], []byte("two"), message.CodecNone), compressed(f, plain, message.CodecGzip)...)
	mixed = append(mixed, compressed(f, mixed, message.CodecSnappy)...)
	mixed = append(mixed, set([]byte("last"))...)
	for _, good := range [][]byte{plain, mixed} {
		add(good)
		add(good[:len(good)-1])
		add(good[:len(good)-len("last")-message.Overhead0+2])
		add(append(good[:len(good):len(good)], make([]byte, 20)...))
		flipped := bytes.Clone(good)
		flipped[len(good)/2] ^= 0x10
		add(flipped)
	}
	// A sound entry whose payload does not decompress.
	add(append(message.Append1(plain[:len(plain):len(plain)], []byte("no gzip"), message.CodecGzip), plain...))
	add([]byte("garbage garbage"))
	add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0})
	add([]byte{0, 0, 0, 5, 2, 0, 0, 0, 0})
	add(make([]byte, 5000))
	add(nil)
}

// compressed returns the entry that holds a set.
func compressed(t testing.TB, b []byte, codec message.Codec) []byte {
	t.Helper()
	entry, err := message.Compress(nil, b, codec)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// soundPrefix returns what of a segment file is entries that are sound as they
// are stored, by the message package.
func soundPrefix(b []byte) []byte {
	it := message.Set(b).IterateShallow(0)
	for it.Next() {
	}
	return b[:it.ValidBytes()]
}

// FuzzScanner: whatever is in a segment file, what the scanner calls sound is
// what the message package calls sound.
func FuzzScanner(f *testing.F) {
	addSegments(f, func(b []byte) {
		f.Add(b, int64(0))
		f.Add(b, int64(1<<40+7))
	})
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		if base < 0 || base > 1<<60 {
			return
		}
		s := newScanner(bytes.NewReader(b), base, int64(len(b)))
		s.keep = 1 << 20
		it := message.Set(b).IterateShallow(base)
		damage, err := s.scanAll(testContext(t), func(e scanned, payload []byte) error {
			if !it.Next() || it.Offset() != e.offset || it.NextOffset() != e.next || !bytes.Equal(it.Message().Payload, payload) ||
				it.Message().Attributes != e.attributes || it.Message().CRC != e.crc {
				t.Fatalf("entry at %d to %d: the iterator has %d to %d, %v", e.offset, e.next, it.Offset(), it.NextOffset(), it.Err())
			}
			return nil
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case it.Next():
			t.Fatalf("ended at %d with %v, the iterator goes on", s.pos, damage)
		case damage == nil && s.pos != int64(len(b)):
			t.Fatalf("ended at %d of %d without damage", s.pos, len(b))
		case damage != nil && damage.Offset != base+s.pos:
			t.Fatalf("damage at %d, sound up to %d", damage.Offset, base+s.pos)
		}
	})
}

// FuzzLastSegment: whatever a crash has left in the last segment, the log comes
// up with the sound messages in front, keeps the rest beside it, and goes on; a
// second crash finds it so.
func FuzzLastSegment(f *testing.F) {
	addSegments(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys, _ := newTestFS()
		closed := set([]byte("closed"), payload(2, 50))
		base := int64(len(closed))
		put(t, fsys, segmentPath(0), closed)
		put(t, fsys, segmentPath(base), b)
		sound := soundPrefix(b)
		end := base + int64(len(sound))
		want := append(bytes.Clone(closed), sound...)

		m, l := openTopic(t, fsys.Clone(), Config{})
		wantState(t, l, 0, end, end, 2)
		if got := read(t, l, 0, 1<<20); l.Err() != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes are there, %d wanted, %v", len(got), len(want), l.Err())
		}
		fsys = m.cfg.FS.(*vfs.Mem)
		if cut := b[len(sound):]; len(cut) > 0 {
			if saved := content(t, fsys, fmt.Sprintf("%s%s%d", segmentPath(base), cutSuffix, end)); !bytes.Equal(saved, cut) {
				t.Errorf("%d bytes were saved of %d that were cut off", len(saved), len(cut))
			}
		}
		more := set(payload(3, 20))
		want = append(want, more...)
		if a, err := l.Append(more, 1); err != nil || a.Base != end {
			t.Fatalf("append: %+v, %v", a, err)
		}
		mustFlush(t, l)
		_, l = openTopic(t, fsys.CrashClone(nil), Config{})
		if got := read(t, l, 0, 1<<20); !bytes.Equal(got, want) {
			t.Errorf("after a second crash %d bytes are there, %d wanted", len(got), len(want))
		}
		mustClose(t, m)
	})
}

// FuzzClosedSegment: whatever is in a closed segment, the log starts and serves
// what is behind it, and Verify finds damage exactly where a consumer does.
func FuzzClosedSegment(f *testing.F) {
	addSegments(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // no segment at all
		}
		fsys, _ := newTestFS()
		base := int64(len(b))
		last := set([]byte("last"))
		put(t, fsys, segmentPath(0), b)
		put(t, fsys, segmentPath(base), last)
		m, l := openTopic(t, fsys, Config{})
		wantState(t, l, 0, base+int64(len(last)), base+int64(len(last)), 2)
		if got := read(t, l, base, 1<<20); l.Err() != nil || !bytes.Equal(got, last) {
			t.Fatalf("behind it are %d bytes, %d wanted, %v", len(got), len(last), l.Err())
		}
		mustClose(t, m)
		r, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		s := r.Partitions[0].Segments[0]
		if s.Unopened > 0 {
			return // more inside than Verify takes into memory
		}
		it := message.Set(b).Iterate(0)
		for it.Next() {
		}
		if whole := it.ValidBytes() == len(b); whole != (s.Damage == nil) {
			t.Fatalf("a consumer reads %d of %d bytes (%v), Verify says %v", it.ValidBytes(), len(b), it.Err(), s.Damage)
		}
		if s.Damage != nil && s.Damage.Offset != int64(it.ValidBytes()) {
			t.Errorf("a consumer stops at %d, Verify says %v", it.ValidBytes(), s.Damage)
		}
	})
}

// FuzzTopicsFile: what is read can be written, and then reads the same.
func FuzzTopicsFile(f *testing.F) {
	f.Add([]byte(topicsHeader + "\n4 a topic\n1 b\nend 2\n"))
	f.Add([]byte(topicsHeader + "\nend 0\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		counts, err := parseTopics(bytes.NewReader(b))
		if err != nil {
			return
		}
		table := topicTable{}
		for name, n := range counts {
			table[name] = &topic{created: true, partitions: n}
		}
		fsys, _ := newTestFS()
		mkdirAll(t, fsys, testDir)
		if err := writeTopics(fsys, testDir, table); err != nil {
			t.Fatal(err)
		}
		again, err := readTopics(fsys, testDir)
		if err != nil || len(again) != len(counts) {
			t.Fatalf("%v became %v, %v", counts, again, err)
		}
		for name, n := range counts {
			if again[name] != n {
				t.Errorf("%q: %d became %d", name, n, again[name])
			}
		}
	})
}

// FuzzNames: a name that is accepted is exactly what would be written for it.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"t-0", "a-b-17", "-1", "t-", "t-007", segmentName(0), segmentName(1 << 40), "x.kafka"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if topic, partition, err := parsePartitionName(name); err == nil && partitionName(topic, partition) != name {
			t.Errorf("%q became %q", name, partitionName(topic, partition))
		}
		if base, ok, err := parseSegmentName(name); err == nil && ok && (segmentName(base) != name || base < 0) {
			t.Errorf("%q became %q", name, segmentName(base))
		}
	})
}

// FuzzCleanMarker: what a marker says is what a stop has written, and a line
// that none has written vouches for nothing.
func FuzzCleanMarker(f *testing.F) {
	f.Add([]byte("27 1307869200000000000 t-0\n0 -5 with blank-12\n"))
	f.Add([]byte("27 1307869200000000000 t-0"))
	f.Add([]byte("\n \n1 2\nx 2 t-0\n1 2 \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		stops := parseCleanStop(b)
		var written []byte
		for folder, s := range stops {
			line := fmt.Appendf(nil, "%d %d %s\n", s.end, s.writtenNs, folder)
			if bytes.Count(line, []byte("\n")) != 1 {
				t.Fatalf("folder %q is more than a line", folder)
			}
			written = append(written, line...)
		}
		if again := parseCleanStop(written); !maps.Equal(again, stops) {
			t.Errorf("%v became %v", stops, again)
		}
	})
}
