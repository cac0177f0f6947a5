package storage

import (
	"bytes"
	"errors"
	"testing"
)

// TestMisnamedSegment: a segment that begins inside a message of the one before is
// not what a rewriting leaves, but a file with a wrong name. Neither a start nor a
// repair cuts the message for it.
func TestMisnamedSegment(t *testing.T) {
	fsys, _ := newTestFS()
	older, newer := set([]byte("one"), []byte("two")), set([]byte("three"))
	dir := testDir + "/t-0/"
	for base, b := range map[int64][]byte{0: older, int64(len(older)) - 1: newer} {
		put(t, fsys, dir+segmentName(base), b)
		file, err := fsys.OpenWrite(dir + segmentName(base))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil { // a repair reads from the disk
			t.Fatal(err)
		}
	}
	unchanged := func(after string) {
		t.Helper()
		for base, want := range map[int64][]byte{0: older, int64(len(older)) - 1: newer} {
			file, err := fsys.Open(dir + segmentName(base))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want)+1)
			n, _ := file.ReadAt(got, 0)
			if !bytes.Equal(got[:n], want) {
				t.Errorf("after %s segment %d holds %q, want %q", after, base, got[:n], want)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}

	m := open(t, fsys, Config{noRestorer: true})
	l := m.Lookup([]byte("t"), 0)
	if l.OutOfService() == nil {
		t.Fatal("the log is in service")
	}
	wantContains(t, l.OutOfService().Error(), "1 bytes are there twice")
	_ = m.Close(testContext(t)) // it was not closed cleanly
	unchanged("a start")

	var left []Mend
	report, err := Repair(testContext(t), testDir, RepairOptions{FS: fsys, ReplaceDamaged: true, AcceptGaps: true}, func(m Mend) { left = append(left, m) })
	if err != nil || report.Mended != 0 || report.Left != 1 {
		t.Fatalf("repair: %+v, %+v, %v", report, left, err)
	}
	wantContains(t, left[0].Advice, "has a wrong name")
	unchanged("a repair")
}
