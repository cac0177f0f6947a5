package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestPartitionNotMade: a partition whose first segment cannot be made, for lack of
// descriptors say, leaves no folder: the next start would want a descriptor for each
// of those that were ever asked for (fault B05). A folder that was there stays.
func TestPartitionNotMade(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{})
	there := filepath.Join(testDir, "there-0")
	if err := fsys.Mkdir(there); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate {
			return syscall.EMFILE
		}
		return nil
	})
	for _, topic := range []string{"t", "there"} {
		if _, err := m.Ensure(topic, 0); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("%s: %v", topic, err)
		}
	}
	fsys.SetHook(nil)
	if _, err := fsys.Stat(filepath.Join(testDir, "t-0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	if _, err := fsys.Stat(there); err != nil {
		t.Errorf("the folder that was there: %v", err)
	}
	for _, topic := range []string{"t", "there"} {
		l, err := m.Ensure(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte(topic))
	}
}
