package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestDeletedFilesStay: files of a deleted topic that cannot be removed keep
// neither the next start from serving the rest nor further topics from being
// deleted, and are gone once they can be removed.
func TestDeletedFilesStay(t *testing.T) {
	fsys, _ := newTestFS()
	refuse := func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove && strings.Contains(op.Path, deletedSuffix) {
			return fs.ErrPermission
		}
		return nil
	}
	m := open(t, fsys, Config{})
	for _, topic := range []string{"gone", "stays"} {
		l, err := m.Ensure(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte(topic))
	}
	fsys.SetHook(refuse)
	if err := m.DeleteTopic("gone"); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("delete: %v", err)
	}
	mustClose(t, m)

	m = open(t, fsys, Config{})
	l := m.Lookup([]byte("stays"), 0)
	if l == nil || l.OutOfService() != nil || m.Lookup([]byte("gone"), 0) != nil {
		t.Fatalf("topics after the start: %q", m.Topics())
	}
	if got := read(t, l, 0, 100); string(got) != string(set([]byte("stays"))) {
		t.Errorf("read %q", got)
	}
	// The name that the first deletion has chosen is taken.
	if err := m.DeleteTopic("stays"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("delete beside the left-over: %v", err)
	}
	if len(m.Topics()) > 0 {
		t.Errorf("topics after the second deletion: %q", m.Topics())
	}
	fsys.SetHook(nil)
	mustClose(t, m)

	m = open(t, fsys, Config{})
	mustClose(t, m)
	entries, err := fsys.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if isDeleted(e.Name()) {
			t.Errorf("left: %s", filepath.Join(testDir, e.Name()))
		}
	}
}
