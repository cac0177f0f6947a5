package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"kafkalab/kafka/message"
)

// FuzzScanner: whatever is in a segment file, what the scanner calls sound is
// what the message package calls sound.
func FuzzScanner(f *testing.F) {
	good := append(set([]byte("one"), nil, payload(1, 300)), message.Append1(nil, []byte("two"), message.CodecNone)...)
	f.Add(good, int64(0))
	f.Add(good[:len(good)-1], int64(1<<40))
	f.Add(append(good, make([]byte, 20)...), int64(7))
	f.Add([]byte("garbage garbage"), int64(0))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		if base < 0 || base > 1<<60 {
			return
		}
		s := newScanner(bytes.NewReader(b), base, int64(len(b)))
		s.keep = 1 << 20
		it := message.Set(b).Iterate(base)
		damage, err := s.scanAll(testContext(t), func(e scanned, payload []byte) error {
			// Compressed entries are the one thing that only the scanner takes.
			if e.attributes&3 != 0 {
				return ErrStopWalk
			}
			if !it.Next() || it.Offset() != e.offset || it.NextOffset() != e.next || !bytes.Equal(it.Message().Payload, payload) {
				t.Fatalf("entry at %d to %d: the iterator has %d to %d, %v", e.offset, e.next, it.Offset(), it.NextOffset(), it.Err())
			}
			return nil
		})
		switch {
		case errors.Is(err, ErrStopWalk):
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
