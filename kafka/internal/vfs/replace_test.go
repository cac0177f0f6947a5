package vfs

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "file")
		must(t, create(t, fsys, path+temporarySuffix, []byte("left over from a crash")).Close())
		for _, want := range []string{"long, and in two parts", "short", ""} {
			half := len(want) / 2
			must(t, ReplaceFile(fsys, path, []byte(want[:half]), []byte(want[half:])))
			if got := string(content(t, fsys, path)); got != want {
				t.Errorf("content %q, want %q", got, want)
			}
			if entries, err := fsys.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("in the folder: %v, %v", entries, err)
			}
		}
		if err := ReplaceFile(fsys, filepath.Join(dir, "missing", "file"), nil); err == nil {
			t.Error("a file was made in a folder that is not there")
		}
	})
}

// At whatever step it fails or is cut off, the old content stands there or the new.
func TestReplaceFileFails(t *testing.T) {
	failure := errors.New("no")
	for _, kind := range []OpKind{OpCreate, OpWrite, OpSync, OpRename, OpSyncDir} {
		m := NewMem(nil)
		must(t, m.Mkdir("/dir"))
		must(t, m.SyncDir("/"))
		must(t, ReplaceFile(m, "/dir/file", []byte("old")))
		m.SetHook(FailNth(kind, 1, failure))
		if err := ReplaceFile(m, "/dir/file", []byte("new")); !errors.Is(err, failure) {
			t.Errorf("failure of %v: %v", kind, err)
		}
		m.SetHook(nil)
		for seed := range uint64(20) {
			after := m.CrashClone(rand.New(rand.NewPCG(seed, 0)))
			if got := string(content(t, after, "/dir/file")); got != "old" && (got != "new" || kind != OpSyncDir) {
				t.Errorf("after a failure of %v and a crash: %q", kind, got)
			}
		}
		must(t, ReplaceFile(m, "/dir/file", []byte("newer")))
		if got := string(content(t, m, "/dir/file")); got != "newer" {
			t.Errorf("after a failure of %v: %q", kind, got)
		}
	}
}
