package storage

import (
	"bytes"
	"hash/crc32"
	"maps"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// soundEntries returns the entries of a log that consumers could read if they
// came to them, by offset.
func soundEntries(t testing.TB, fsys vfs.FS) map[int64]string {
	t.Helper()
	files, err := listSegments(fsys, testDir+"/t-0")
	if err != nil {
		t.Fatal(err)
	}
	sound := map[int64]string{}
	o := opener{}
	for _, f := range files {
		b := content(t, fsys, f.path)
		s := newScanner(bytes.NewReader(b), f.base, f.size)
		s.keep = len(b)
		err := s.scanPast(testContext(t), func(e scanned, payload []byte) error {
			if e.codec() != message.CodecNone {
				if _, _, err := o.open(e, payload); err != nil {
					return nil
				}
			}
			sound[e.offset] = string(b[e.offset-f.base : e.next-f.base])
			return nil
		}, func(DamagedRange) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	return sound
}

// FuzzRepair: whatever two segment files hold and however far they lie apart, a
// walk hands out nothing that is damaged; a repair loses no byte and no sound
// message; and if it says that nothing is left, the log is whole, after a crash
// too.
func FuzzRepair(f *testing.F) {
	addSegments(f, func(b []byte) {
		f.Add(b, b, int16(0))
		f.Add(b, []byte("garbage garbage"), int16(20))
		f.Add(set([]byte("first"), payload(1, 60)), b, int16(-69))
		f.Add(b, set(payload(2, 100)), int16(200))
	})
	f.Fuzz(func(t *testing.T, first, last []byte, apart int16) {
		base := int64(len(first)) + int64(apart)
		if base <= 0 || len(first)+len(last) > 1<<13 {
			return
		}
		fsys, _ := newTestFS()
		put(t, fsys, segmentPath(0), first)
		put(t, fsys, segmentPath(base), last)
		fsys = fsys.Clone()
		before, sound := fsys.Clone(), soundEntries(t, fsys)
		wantWholeMessages(t, fsys)

		r, mends := mustRepair(t, fsys, testDir, RepairOptions{ReplaceDamaged: true, AcceptGaps: true})
		if err := everyByte(t, before, fsys); err != nil {
			t.Fatal(err)
		}
		if apart == 0 {
			after := soundEntries(t, fsys)
			for offset, b := range sound {
				if after[offset] != b {
					t.Fatalf("the sound message at offset %d is gone: %+v", offset, mends)
				}
			}
		}
		if r.Left > 0 {
			return
		}
		report, err := Verify(testContext(t), testDir, WalkOptions{FS: fsys})
		if err != nil || report.Err() != nil {
			t.Fatalf("nothing is left, but %v, %v: %+v", err, report.Err(), mends)
		}
		crashed := fsys.CrashClone(nil)
		if !maps.Equal(soundEntries(t, crashed), soundEntries(t, fsys)) {
			t.Fatal("a crash undoes the repair")
		}
		m, l := openTopic(t, crashed, Config{})
		s := l.State()
		it := message.Set(read(t, l, s.First, 1<<20)).Iterate(s.First)
		for it.Next() {
		}
		if l.OutOfService() != nil || it.Err() != nil || it.NextOffset() != s.Watermark {
			t.Fatalf("consumers end at offset %d of %d: %v, %v", it.NextOffset(), s.Watermark, it.Err(), l.OutOfService())
		}
		mustClose(t, m)
	})
}

// wantWholeMessages walks over the log and looks at everything that is handed
// out.
func wantWholeMessages(t *testing.T, fsys vfs.FS) {
	t.Helper()
	for _, shallow := range []bool{false, true} {
		offset := int64(-1)
		_, err := Walk(testContext(t), testDir, WalkOptions{FS: fsys, Shallow: shallow}, func(e Entry) error {
			if sum := crc32.ChecksumIEEE(e.Message.Payload); sum != e.Message.CRC || int64(len(e.Message.Payload)) != e.PayloadBytes {
				t.Errorf("offset %d: payload of %d of %d bytes, checksum %08x, stored %08x", e.Offset, len(e.Message.Payload), e.PayloadBytes, sum, e.Message.CRC)
			}
			if e.NextOffset < e.Offset || e.Offset < offset && e.Segment == segmentPath(0) {
				t.Errorf("offset %d after %d, next %d", e.Offset, offset, e.NextOffset)
			}
			offset = e.Offset
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
