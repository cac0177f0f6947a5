package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// both runs a test on the real file system and on the one in memory: they must
// not differ in what storage relies on.
func both(t *testing.T, test func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS(), t.TempDir()) })
	t.Run("memory", func(t *testing.T) {
		m := NewMem(nil)
		if err := m.Mkdir("/dir"); err != nil {
			t.Fatal(err)
		}
		test(t, m, "/dir")
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys FS, path string, b []byte) File {
	t.Helper()
	f, err := fsys.Create(path)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, err)
	return f
}

func content(t *testing.T, fsys FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	must(t, err)
	return b
}

func TestFiles(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "file")
		f := create(t, fsys, path, []byte("0123456789"))
		_, err := f.WriteAt([]byte("ab"), 12) // leaves a hole
		must(t, err)
		must(t, f.Truncate(13))
		must(t, f.Truncate(15))
		must(t, f.Sync())
		info, err := f.Stat()
		must(t, err)
		if info.Size() != 15 || info.Name() != "file" || info.IsDir() || info.ModTime().IsZero() {
			t.Errorf("described as %v", info)
		}
		b := make([]byte, 20)
		if n, err := f.ReadAt(b, 8); n != 7 || err != io.EOF || string(b[:n]) != "89\x00\x00a\x00\x00" {
			t.Errorf("read %q, %v", b[:n], err)
		}
		if n, err := f.ReadAt(b, 15); n != 0 || err != io.EOF {
			t.Errorf("read %d at the end, %v", n, err)
		}
		must(t, f.Close())
		for what, err := range map[string]error{
			"close": f.Close(), "sync": f.Sync(), "truncate": f.Truncate(0),
			"write": func() error { _, err := f.WriteAt(b, 0); return err }(),
			"read":  func() error { _, err := f.ReadAt(b, 0); return err }(),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after close: %v", what, err)
			}
		}
		ro, err := fsys.Open(path)
		must(t, err)
		if _, err := ro.WriteAt(b, 0); err == nil {
			t.Error("wrote to a file opened for reading")
		}
		must(t, ro.Close())
		rw, err := fsys.OpenWrite(path)
		must(t, err)
		_, err = rw.WriteAt([]byte("X"), 0)
		must(t, err)
		must(t, rw.Close())
		if got := content(t, fsys, path); !strings.HasPrefix(string(got), "X123") {
			t.Errorf("content %q", got)
		}
	})
}

func TestFolders(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		at := func(name string) string { return filepath.Join(dir, name) }
		must(t, fsys.Mkdir(at("a")))
		must(t, fsys.Mkdir(at("a/b")))
		must(t, create(t, fsys, at("a/y"), []byte("y")).Close())
		must(t, create(t, fsys, at("a/x"), []byte("x")).Close())
		entries, err := fsys.ReadDir(at("a"))
		must(t, err)
		if fmt.Sprint(entries) != "[d b/ - x - y]" {
			t.Errorf("entries %v", entries)
		}
		create2 := func(name string) error { _, err := fsys.Create(name); return err }
		open := func(name string) error { _, err := fsys.Open(name); return err }
		for _, c := range []struct {
			what      string
			err, want error
		}{
			{"make what is there", fsys.Mkdir(at("a")), fs.ErrExist},
			{"make over a file", fsys.Mkdir(at("a/x")), fs.ErrExist},
			{"create what is there", create2(at("a/x")), fs.ErrExist},
			{"make without a parent", fsys.Mkdir(at("n/n")), fs.ErrNotExist},
			{"create without a parent", create2(at("n/n")), fs.ErrNotExist},
			{"create in a file", create2(at("a/x/n")), syscall.ENOTDIR},
			{"name too long", create2(at(strings.Repeat("x", 256))), syscall.ENAMETOOLONG},
			{"open what is not there", open(at("n")), fs.ErrNotExist},
			{"remove what is not there", fsys.Remove(at("n")), fs.ErrNotExist},
			{"remove a folder that is not empty", fsys.Remove(at("a")), syscall.ENOTEMPTY},
			{"remove all of what is not there", fsys.RemoveAll(at("n")), nil},
			{"rename what is not there", fsys.Rename(at("n"), at("m")), fs.ErrNotExist},
			{"sync what is not there", fsys.SyncDir(at("n")), fs.ErrNotExist},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, %v wanted", c.what, c.err, c.want)
			}
		}
		must(t, fsys.Rename(at("a/x"), at("a/y")))
		must(t, fsys.Rename(at("a"), at("c")))
		must(t, fsys.SyncDir(at("c")))
		if got := content(t, fsys, at("c/y")); string(got) != "x" {
			t.Errorf("content %q", got)
		}
		held, err := fsys.Open(at("c/y"))
		must(t, err)
		must(t, fsys.RemoveAll(at("c")))
		if _, err := fsys.Stat(at("c")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("removed, but %v", err)
		}
		if n, err := held.ReadAt(make([]byte, 1), 0); n != 1 || err != nil {
			t.Errorf("a removed file cannot be read any more: %v", err)
		}
		must(t, held.Close())
	})
}

// TestTimes: a file's time is that of its last write, a folder's that of the
// last change of its entries; both can be set, and cloned.
func TestTimes(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "file")
		when := time.Date(2011, 6, 12, 9, 0, 0, 0, time.UTC)
		is := func(fsys FS, path string) bool {
			t.Helper()
			info, err := fsys.Stat(path)
			must(t, err)
			return info.ModTime().Equal(when)
		}
		set := func(path string) {
			t.Helper()
			must(t, fsys.SetTime(path, when))
			if !is(fsys, path) {
				t.Errorf("time of %s is not what was set", path)
			}
		}
		f := create(t, fsys, path, []byte("x"))
		defer f.Close()
		set(path)
		set(dir)
		must(t, f.Sync())
		if m, ok := fsys.(*Mem); ok {
			must(t, m.SyncDir("/"))
			if !is(m.Clone(), path) || !is(m.CrashClone(nil), dir) {
				t.Error("a clone has other times")
			}
		}
		_, err := f.WriteAt([]byte("y"), 0)
		must(t, err)
		if is(fsys, path) || !is(fsys, dir) {
			t.Error("a write changes the time of the file alone")
		}
		for _, change := range []struct {
			what string
			do   func() error
		}{
			{"rename", func() error { return fsys.Rename(path, path+"2") }},
			{"remove", func() error { return fsys.Remove(path + "2") }},
			{"mkdir", func() error { return fsys.Mkdir(path + "3") }},
		} {
			set(dir)
			must(t, change.do())
			if is(fsys, dir) {
				t.Errorf("%s left the time of the folder", change.what)
			}
		}
		if err := fsys.SetTime(path, when); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("time of a missing file: %v", err)
		}
	})
}

func TestLock(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, ".lock")
		want := func(want bool) {
			t.Helper()
			if got, err := fsys.Locked(path); got != want || err != nil {
				t.Errorf("locked %v, %v", got, err)
			}
		}
		want(false) // and not made by the question
		if _, err := fsys.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("lock file: %v", err)
		}
		lock, err := fsys.Lock(path)
		must(t, err)
		want(true)
		if _, err := fsys.Lock(path); !errors.Is(err, ErrLocked) {
			t.Errorf("locked twice: %v", err)
		}
		want(true)
		must(t, lock.Close())
		want(false)
		lock, err = fsys.Lock(path)
		must(t, err)
		must(t, lock.Close())
	})
}

// TestLockAndFork: a lock that was given up is free, also while a child that is
// about to execute its program still has the file open.
func TestLockAndFork(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	lock, err := OS().Lock(path)
	must(t, err)
	paths, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, p := range paths {
		if to, err := os.Readlink(p); err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(p))
		must(t, err)
		child, err := syscall.Dup(fd) // what a fork does with all of them
		must(t, err)
		defer syscall.Close(child)
	}
	must(t, lock.Close())
	lock, err = OS().Lock(path)
	must(t, err)
	must(t, lock.Close())
}

func TestFd(t *testing.T) {
	f := create(t, OS(), filepath.Join(t.TempDir(), "f"), []byte("abc"))
	defer f.Close()
	fd, ok := f.Fd()
	b := make([]byte, 3)
	if n, err := syscall.Pread(int(fd), b, 0); !ok || n != 3 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if _, ok := create(t, NewMem(nil), "/f", nil).Fd(); ok {
		t.Error("a file in memory has a descriptor")
	}
}

// TestCrashClone: what was synced is there, the rest is not.
func TestCrashClone(t *testing.T) {
	m := NewMem(nil)
	must(t, m.Mkdir("/d"))
	f := create(t, m, "/d/f", []byte("synced"))
	must(t, f.Sync())
	if _, err := m.CrashClone(nil).Stat("/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder whose parent was not synced: %v", err)
	}
	must(t, m.SyncDir("/"))
	if entries, err := m.CrashClone(nil).ReadDir("/d"); len(entries) != 0 || err != nil {
		t.Errorf("a folder that was not synced has %v, %v", entries, err)
	}
	must(t, m.SyncDir("/d"))
	_, err := f.WriteAt([]byte("UNSYNCED"), 2)
	must(t, err)
	if got := content(t, m.CrashClone(nil), "/d/f"); string(got) != "synced" {
		t.Errorf("content %q", got)
	}
	must(t, f.Truncate(1))
	must(t, m.Rename("/d/f", "/d/g"))
	c := m.CrashClone(nil)
	if got := content(t, c, "/d/f"); string(got) != "synced" {
		t.Errorf("content %q", got)
	}
	if _, err := c.Stat("/d/g"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new name: %v", err)
	}
	if got := content(t, m.Clone(), "/d/g"); string(got) != "s" {
		t.Errorf("a copy has %q", got)
	}
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	if got := content(t, m.CrashClone(nil), "/d/g"); string(got) != "s" {
		t.Errorf("content %q", got)
	}
}

// TestCrashCloneByChance: over many crashes everything between nothing and all
// of what was not synced is seen, and never anything else.
func TestCrashCloneByChance(t *testing.T) {
	m := NewMem(nil)
	old, data := bytes.Repeat([]byte{'o'}, 3*sector), bytes.Repeat([]byte{'n'}, 6*sector)
	f := create(t, m, "/f", old)
	must(t, f.Sync())
	must(t, m.SyncDir("/"))
	_, err := f.WriteAt(data, 0)
	must(t, err)
	must(t, create(t, m, "/new", nil).Close())
	rng := rand.New(rand.NewPCG(1, 2))
	var sizes, mixed, holes, entries int
	for range 200 {
		c := m.CrashClone(rng)
		b := content(t, c, "/f")
		if len(b) < len(old) || len(b) > len(data) || bytes.Trim(b, "on\x00") != nil {
			t.Fatalf("%d bytes, %.20q", len(b), b)
		}
		if len(b)%sector != 0 {
			sizes++
		}
		if bytes.Contains(b, []byte("on")) || bytes.Contains(b, []byte("no")) {
			mixed++
		}
		if bytes.Contains(b, []byte("\x00n")) {
			holes++
		}
		if _, err := c.Stat("/new"); err == nil {
			entries++
		}
	}
	for what, n := range map[string]int{"torn sizes": sizes, "mixed sectors": mixed, "holes": holes, "new entries": entries} {
		if n == 0 || n == 200 {
			t.Errorf("%s in %d of 200 crashes", what, n)
		}
	}
}

// TestFailedSyncDropsData: a later sync does not make good for it, although
// reads still show the data.
func TestFailedSyncDropsData(t *testing.T) {
	m := NewMem(nil)
	f := create(t, m, "/f", []byte("dropped"))
	must(t, m.SyncDir("/"))
	m.SetHook(FailNth(OpSync, 1, syscall.EIO))
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	_, err := f.WriteAt([]byte("!"), 7)
	must(t, err)
	must(t, f.Sync())
	if got := content(t, m, "/f"); string(got) != "dropped!" {
		t.Errorf("reads show %q", got)
	}
	if got := content(t, m.CrashClone(nil), "/f"); string(got) != "\x00\x00\x00\x00\x00\x00\x00!" {
		t.Errorf("a crash leaves %q", got)
	}
}

func TestHook(t *testing.T) {
	m := NewMem(nil)
	f := create(t, m, "/f", nil)
	var ops []string
	boom := errors.New("boom")
	m.SetHook(func(op Op) error {
		ops = append(ops, fmt.Sprintf("%s %s %d", op.Kind, op.Path, op.Size))
		if op.Kind == OpWrite {
			return &TornWrite{Bytes: 2, Err: boom}
		}
		return boom
	})
	n, err := f.WriteAt([]byte("abc"), 0)
	if n != 2 || !errors.Is(err, boom) {
		t.Errorf("torn write: %d, %v", n, err)
	}
	read := func() error { _, err := f.ReadAt(make([]byte, 4), 0); return err }
	open := func() error { _, err := m.Open("/f"); return err }
	create := func() error { _, err := m.Create("/g"); return err }
	for _, err := range []error{read(), f.Sync(), f.Truncate(0), open(), create(), m.Remove("/f"), m.RemoveAll("/f"),
		m.Rename("/f", "/g"), m.Mkdir("/d"), m.SyncDir("/")} {
		if !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
	}
	want := "[write /f 3 read /f 4 sync /f 0 truncate /f 0 open /f 0 create /g 0 remove /f 0 remove /f 0 rename /f 0 mkdir /d 0 syncdir / 0]"
	if fmt.Sprint(ops) != want {
		t.Errorf("asked for %v", ops)
	}
	m.SetHook(nil)
	if got := content(t, m, "/f"); string(got) != "ab" {
		t.Errorf("content %q", got)
	}
	if OpRead.Changes() || OpOpen.Changes() || !OpWrite.Changes() {
		t.Error("which operations change the disk")
	}
}

// TestKillWithinSync: what a sync was about to make safe when the process ended
// is made so by one of the next process.
func TestKillWithinSync(t *testing.T) {
	m := NewMem(time.Now)
	f, err := m.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("content"), 0); err != nil {
		t.Fatal(err)
	}
	var killed *Mem
	m.SetHook(func(op Op) error {
		if op.Kind == OpSync {
			killed = m.KillClone()
		}
		return nil
	})
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	again, err := killed.OpenWrite("/f")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Sync(); err != nil {
		t.Fatal(err)
	}
	safe, err := killed.OpenUncached("/f")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if n, err := safe.ReadAt(got, 0); n != 7 || string(got) != "content" {
		t.Errorf("%q, %v", got[:n], err)
	}
}
