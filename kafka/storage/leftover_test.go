package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

// TestFilesAreRemovedBesides: while the files of a deleted topic are removed, which
// may take its time, other topics are made, and Close waits.
func TestFilesAreRemovedBesides(t *testing.T) {
	fsys, _ := newTestFS()
	m, l := openTopic(t, fsys, Config{})
	mustAppend(t, l, []byte("x"))
	removing, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove && strings.Contains(op.Path, deletedSuffix) {
			once.Do(func() {
				close(removing)
				<-goOn
			})
		}
		return nil
	})
	deleted := make(chan error, 1)
	go func() { deleted <- m.DeleteTopic("t") }()
	<-removing
	made := make(chan error, 1)
	go func() {
		_, err := m.Ensure("u", 0)
		made <- errors.Join(err, m.CreateTopic("t", 3))
	}()
	select {
	case err := <-made:
		if err != nil {
			t.Error(err)
		}
	case <-testContext(t).Done():
		t.Error("topics wait to be made")
	}
	closed := make(chan error, 1)
	go func() { closed <- m.Close(testContext(t)) }()
	eventually(t, "the manager is closing", m.closed.Load)
	select {
	case err := <-closed:
		t.Errorf("closed while files are removed: %v", err)
	default:
	}
	close(goOn)
	if err := errors.Join(<-deleted, <-closed); err != nil {
		t.Error(err)
	}
}

// TestFolderWithoutALogIsDeleted: what an attempt to make a partition has left
// goes with its topic, and does not bring it back.
func TestFolderWithoutALogIsDeleted(t *testing.T) {
	fsys, _ := newTestFS()
	m := open(t, fsys, Config{DefaultPartitions: 2})
	for _, topic := range []string{"t", "t-1"} {
		l, err := m.Ensure(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, []byte(topic))
	}
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir || op.Kind == vfs.OpRemove {
			return syscall.EIO
		}
		return nil
	})
	if _, err := m.Ensure("t", 1); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	if _, err := fsys.Stat(filepath.Join(testDir, "t-1")); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, m)
	m = open(t, fsys, Config{DefaultPartitions: 2})
	if topics := m.Topics(); len(topics) != 1 || topics[0] != "t-1" {
		t.Errorf("topics after the next start: %q", topics)
	}
	mustClose(t, m)
}
