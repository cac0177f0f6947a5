package storage

import (
	"sync/atomic"
	"testing"

	"kafkalab/kafka/internal/vfs"
)

// TestModelCatches shows that the model test can fail: on a file system that does
// not do what it says the model objects, and soon.
func TestModelCatches(t *testing.T) {
	const episodes = 1000
	for _, mutant := range []struct {
		name string
		wrap func(*brokenFS)
	}{
		{"sync does nothing", func(f *brokenFS) { f.sync = func(vfs.File) error { return nil } }},
		{"errors of sync are lost", func(f *brokenFS) {
			f.sync = func(file vfs.File) error {
				_ = file.Sync()
				return nil
			}
		}},
		{"sync of folders does nothing", func(f *brokenFS) { f.syncDir = func(string) error { return nil } }},
		{"truncate does nothing", func(f *brokenFS) { f.truncate = func(vfs.File, int64) error { return nil } }},
		{"errors of truncate are lost", func(f *brokenFS) {
			f.truncate = func(file vfs.File, size int64) error {
				_ = file.Truncate(size)
				return nil
			}
		}},
		{"truncate cuts a byte too much", func(f *brokenFS) {
			f.truncate = func(file vfs.File, size int64) error { return file.Truncate(max(size-1, 0)) }
		}},
		{"errors of write are lost", func(f *brokenFS) {
			f.write = func(file vfs.File, p []byte, off int64) (int, error) {
				_, _ = file.WriteAt(p, off)
				return len(p), nil
			}
		}},
		{"the last byte is not written", func(f *brokenFS) {
			f.write = func(file vfs.File, p []byte, off int64) (int, error) {
				n, err := file.WriteAt(p[:len(p)-1], off)
				if err != nil {
					return n, err
				}
				return len(p), nil
			}
		}},
		{"a bit flips in reading", func(f *brokenFS) {
			var reads atomic.Int64
			f.read = func(file vfs.File, p []byte, off int64) (int, error) {
				n, err := file.ReadAt(p, off)
				if n > 0 && reads.Add(1)%20 == 0 {
					p[n/2] ^= 4
				}
				return n, err
			}
		}},
		{"files read from the beginning", func(f *brokenFS) {
			f.read = func(file vfs.File, p []byte, off int64) (int, error) { return file.ReadAt(p, 0) }
		}},
		{"rename does nothing", func(f *brokenFS) { f.rename = func(string, string) error { return nil } }},
		{"remove does nothing", func(f *brokenFS) { f.remove = func(string) error { return nil } }},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			seed := testSeed(t)
			for n := range episodes {
				e := runEpisode(seed, n, func(mem *vfs.Mem) vfs.FS {
					f := newBrokenFS(mem)
					mutant.wrap(f)
					return f
				})
				if e.problem != "" {
					t.Logf("caught in episode %d: %s", n+1, e.problem)
					return
				}
			}
			t.Errorf("not caught in %d episodes", episodes)
		})
	}
}

// brokenFS is a file system some of whose operations a test replaces. Each gets
// the real one to call.
type brokenFS struct {
	*vfs.Mem
	sync     func(vfs.File) error
	truncate func(vfs.File, int64) error
	write    func(vfs.File, []byte, int64) (int, error)
	read     func(vfs.File, []byte, int64) (int, error)
	syncDir  func(string) error
	rename   func(string, string) error
	remove   func(string) error
}

func newBrokenFS(mem *vfs.Mem) *brokenFS {
	return &brokenFS{
		Mem:      mem,
		sync:     vfs.File.Sync,
		truncate: vfs.File.Truncate,
		write:    vfs.File.WriteAt,
		read:     vfs.File.ReadAt,
		syncDir:  mem.SyncDir,
		rename:   mem.Rename,
		remove:   mem.Remove,
	}
}

type brokenFile struct {
	vfs.File
	fs *brokenFS
}

func (f *brokenFS) file(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &brokenFile{file, f}, nil
}

func (f *brokenFS) Create(name string) (vfs.File, error)    { return f.file(f.Mem.Create(name)) }
func (f *brokenFS) Open(name string) (vfs.File, error)      { return f.file(f.Mem.Open(name)) }
func (f *brokenFS) OpenWrite(name string) (vfs.File, error) { return f.file(f.Mem.OpenWrite(name)) }
func (f *brokenFS) SyncDir(name string) error               { return f.syncDir(name) }
func (f *brokenFS) Rename(oldName, newName string) error    { return f.rename(oldName, newName) }
func (f *brokenFS) Remove(name string) error                { return f.remove(name) }

func (f *brokenFile) Sync() error                              { return f.fs.sync(f.File) }
func (f *brokenFile) Truncate(size int64) error                { return f.fs.truncate(f.File, size) }
func (f *brokenFile) WriteAt(p []byte, off int64) (int, error) { return f.fs.write(f.File, p, off) }
func (f *brokenFile) ReadAt(p []byte, off int64) (int, error)  { return f.fs.read(f.File, p, off) }
