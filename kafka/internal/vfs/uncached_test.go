package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
)

// TestUncached: what was synced is read, at any position, and the end of the file
// is where it is.
func TestUncached(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "file")
		if _, err := fsys.OpenUncached(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open what is not there: %v", err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for _, size := range []int{0, 1, directAlign - 1, directAlign, directAlign + 1, 2*directBytes + 777} {
			want := make([]byte, size)
			for i := range want {
				want[i] = byte(rng.Uint32())
			}
			f := create(t, fsys, path, want)
			must(t, f.Sync())
			u, err := fsys.OpenUncached(path)
			must(t, err)
			for range 50 {
				off := rng.IntN(size + 2)
				b := make([]byte, rng.IntN(size+directAlign))
				n, err := u.ReadAt(b, int64(off))
				if wantN := max(0, min(len(b), size-off)); n != wantN || !bytes.Equal(b[:n], want[min(off, size):][:n]) {
					t.Fatalf("read %d bytes at %d of %d, %d wanted, or they are wrong", n, off, size, wantN)
				}
				if n < len(b) && err != io.EOF || n == len(b) && err != nil && err != io.EOF {
					t.Fatalf("read %d of %d bytes at %d of %d: %v", n, len(b), off, size, err)
				}
			}
			t.Logf("%d bytes, direct %v", size, u.Direct())
			must(t, u.Close())
			if _, err := u.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("read after close: %v", err)
			}
			must(t, f.Close())
			must(t, fsys.Remove(path))
		}
	})
}

// TestUncachedShowsTheDisk: not what a failed sync has dropped, or one that lied.
func TestUncachedShowsTheDisk(t *testing.T) {
	for name, fault := range map[string]error{"failed": syscall.EIO, "lied": ErrSyncLost} {
		t.Run(name, func(t *testing.T) {
			m := NewMem(nil)
			f := create(t, m, "/f", []byte("safe"))
			must(t, f.Sync())
			_, err := f.WriteAt([]byte("lost"), 4)
			must(t, err)
			m.SetHook(FailNth(OpSync, 1, fault))
			if err := f.Sync(); (err == nil) != (fault == ErrSyncLost) {
				t.Errorf("sync: %v", err)
			}
			must(t, f.Sync()) // proves nothing
			u, err := m.OpenUncached("/f")
			must(t, err)
			defer u.Close()
			b := make([]byte, 8)
			// The size is the file's, as the later sync has made it safe.
			if _, err := u.ReadAt(b, 0); err != nil || string(b) != "safe\x00\x00\x00\x00" {
				t.Errorf("the disk has %q, %v", b, err)
			}
			if got := content(t, m, "/f"); string(got) != "safelost" {
				t.Errorf("the cache has %q", got)
			}
			must(t, m.DropCache("/f"))
			if got := content(t, m, "/f"); string(got) != "safe\x00\x00\x00\x00" {
				t.Errorf("without the cache it has %q", got)
			}
		})
	}
	if err := NewMem(nil).DropCache("/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cache of a missing file: %v", err)
	}
}

// TestKillClone: it has everything, and a crash later takes what was not synced.
func TestKillClone(t *testing.T) {
	m := NewMem(nil)
	f := create(t, m, "/f", []byte("safe"))
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt([]byte("more"), 4)
	must(t, err)
	must(t, m.Rename("/f", "/g"))
	k := m.KillClone()
	if got := content(t, k, "/g"); string(got) != "safemore" {
		t.Errorf("content %q", got)
	}
	if got := content(t, k.CrashClone(nil), "/f"); string(got) != "safe" {
		t.Errorf("after a crash %q", got)
	}
	g, err := k.OpenWrite("/g")
	must(t, err)
	must(t, g.Sync())
	if got := content(t, k.CrashClone(nil), "/f"); string(got) != "safemore" {
		t.Errorf("after a sync and a crash %q", got)
	}
	if got := content(t, m.CrashClone(nil), "/f"); string(got) != "safe" {
		t.Errorf("the original has %q", got)
	}
}

// TestNextData: what it leaves out is zeros, and on a file system with holes it
// leaves them out.
func TestNextData(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "file"), []byte("begin"))
		defer f.Close()
		const middle, size = 3 << 20, 5 << 20
		_, err := f.WriteAt([]byte("middle"), middle)
		must(t, err)
		must(t, f.Truncate(size))
		must(t, f.Sync())
		steps := 0
		for off := int64(0); off < size; steps++ {
			at, err := f.NextData(off)
			must(t, err)
			if at < off || at > size || off <= 0 && at > 0 || off <= middle && at > middle {
				t.Fatalf("next data from %d is at %d", off, at)
			}
			off = at + 64<<10
		}
		if _, holes := fsys.(osFS); holes && steps > 20 {
			t.Logf("%d steps: no holes on this file system", steps)
		}
		if at, err := f.NextData(size + 7); at < size || err != nil {
			t.Errorf("next data from behind the end is at %d, %v", at, err)
		}
	})
}
