package disktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
)

// TestPowerLossTwiceShowsNothingOld: a loss of power can leave messages on the
// disk behind the end that the file has then. A second one, after other messages
// were appended there and not flushed, must not show the old ones in their place.
func TestPowerLossTwiceShowsNothingOld(t *testing.T) {
	d := newDisk(t, 16<<20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	entry := func(content string, n int) []byte {
		return message.Append(nil, bytes.Repeat([]byte(content), n))
	}
	kept, lost, later := entry("kept ", 20), entry("lost ", 20), entry("later", 60) // all within one block
	dir := filepath.Join(d.dir, "log")
	segment := filepath.Join(dir, "t-0", "00000000000000000000.kafka")

	m, l := openStorage(ctx, t, dir)
	appendTo(t, l, kept)
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, lost)
	writeBlock(t, segment)
	d.cutPower()
	_ = m.Close(ctx) // its disk is gone
	d.restorePower()

	m, l = openStorage(ctx, t, dir)
	if s := l.State(); s.LogEnd != int64(len(kept)) {
		t.Fatalf("the disk has written the size of the file too: %+v", s)
	}
	appendTo(t, l, later)
	commitJournal(t, d)
	d.cutPower()
	_ = m.Close(ctx)
	d.restorePower()

	b, err := os.ReadFile(segment)
	if err != nil || !bytes.HasPrefix(b, kept) {
		t.Errorf("what was flushed is gone, %v:\n%q", err, b)
	}
	if bytes.Contains(b, lost) {
		t.Errorf("what was lost is back:\n%q", b)
	}
}

func openStorage(ctx context.Context, t *testing.T, dir string) (*storage.Manager, *storage.Log) {
	t.Helper()
	m, err := storage.Open(ctx, dir, storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Ensure("t", 0)
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

func appendTo(t *testing.T, l *storage.Log, entry []byte) {
	t.Helper()
	if _, err := l.Append(entry, 1); err != nil {
		t.Fatal(err)
	}
}

// writeBlock writes the data of a small file to the disk, and not its size, as
// the kernel may at any time.
func writeBlock(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.SyncFileRange(int(file.Fd()), 0, 4096,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// commitJournal makes all sizes of files safe, by the sync of another file.
func commitJournal(t *testing.T, d *disk) {
	t.Helper()
	file, err := os.Create(filepath.Join(d.dir, "another"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
