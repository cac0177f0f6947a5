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
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpSyncDir} {
		fsys, _ := newTestFS()
		m := open(t, fsys, Config{})
		there := filepath.Join(testDir, "there-0")
		if err := fsys.Mkdir(there); err != nil {
			t.Fatal(err)
		}
		fsys.SetHook(func(op vfs.Op) error {
			// At the limit nothing can be listed or opened either.
			if op.Kind == kind || op.Kind == vfs.OpOpen {
				return syscall.EMFILE
			}
			return nil
		})
		for _, topic := range []string{"t", "there"} {
			if _, err := m.Ensure(topic, 0); !errors.Is(err, syscall.EMFILE) {
				t.Fatalf("%s: %s: %v", kind, topic, err)
			}
		}
		fsys.SetHook(nil)
		if _, err := fsys.Stat(filepath.Join(testDir, "t-0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder is left: %v", kind, err)
		}
		if _, err := fsys.Stat(there); err != nil {
			t.Errorf("%s: the folder that was there: %v", kind, err)
		}
		for _, topic := range []string{"t", "there"} {
			l, err := m.Ensure(topic, 0)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, []byte(topic))
		}
	}
}
