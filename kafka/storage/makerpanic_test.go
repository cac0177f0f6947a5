package storage

import (
	"path/filepath"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestPanicInMaking: a broken invariant while a partition is made is the end of who
// makes it, and of nothing else: others, and the same one again, are made.
func TestPanicInMaking(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpMkdir, vfs.OpCreate, vfs.OpSyncDir} {
		fsys, _ := newTestFS()
		m := open(t, fsys, Config{DefaultPartitions: 2})
		fsys.SetHook(func(op vfs.Op) error {
			if dir := filepath.Join(testDir, "t-0"); op.Kind == kind && (op.Path == dir || filepath.Dir(op.Path) == dir) {
				panic("as no code does")
			}
			return nil
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: no panic", kind)
				}
			}()
			_, _ = m.Ensure("t", 0)
		}()
		fsys.SetHook(nil)
		if len(m.making) != 0 || len(m.makers) != 0 {
			t.Errorf("%v: %d are still being made", kind, len(m.making))
		}
		for _, partition := range []int32{1, 0} {
			l, err := m.Ensure("t", partition)
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			mustAppend(t, l, []byte("after it"))
		}
		if err := m.DeleteTopic("t"); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
