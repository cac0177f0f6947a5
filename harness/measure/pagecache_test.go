package measure

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// diskFolder returns a folder that is not in memory alone, where nothing can be
// dropped: the one for temporary files, or else one beside the tests.
func diskFolder(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{"", "."} {
		dir, err := os.MkdirTemp(parent, "kafkalab-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		if fs.Type != unix.TMPFS_MAGIC {
			return dir
		}
	}
	t.Fatal("both the folder for temporary files and the source lie in memory: point TMPDIR to a folder on a disk")
	return ""
}

// What was written and read leaves the page cache, and what a process holds
// there is told.
func TestDropCache(t *testing.T) {
	dir := diskFolder(t)
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(dir, "a", "held")
	sizes := map[string]int{filepath.Join(dir, "one"): 3 << 20, filepath.Join(dir, "a", "b", "two"): 5000, filepath.Join(dir, "empty"): 0, held: 1 << 20}
	for path, size := range sizes {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A link is no file of this folder.
	if err := os.Symlink(held, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	all, err := DropCache(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if all.Files != 4 || all.Bytes != 4<<20+5000 {
		t.Errorf("looked at %+v", all)
	}
	if all.CachedBytes != 0 {
		t.Errorf("left %+v", all)
	}

	f, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	if left, err := DropCache(t.Context(), dir); err != nil || left.CachedBytes != 1<<20 {
		t.Errorf("left %+v, %v; the mapped file is 1 MiB", left, err)
	}
}

func TestDropCacheFails(t *testing.T) {
	if _, err := DropCache(t.Context(), filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("error %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := DropCache(ended, dir); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}
