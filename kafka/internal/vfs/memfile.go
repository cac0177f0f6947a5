package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"
)

// memFile is one opening of a file of a [Mem].
type memFile struct {
	fs     *Mem
	node   *node
	path   string
	write  bool
	closed atomic.Bool
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) { return f.readAt(p, off, false) }

// readAt reads what was written, or of that what is safe.
func (f *memFile) readAt(p []byte, off int64, safe bool) (int, error) {
	if f.closed.Load() {
		return 0, pathError("read", f.path, fs.ErrClosed)
	}
	if err := f.fs.ask(Op{Kind: OpRead, Path: f.path, Size: len(p)}); err != nil {
		return 0, pathError("read", f.path, err)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	content := f.node.data
	if safe {
		content = f.node.safe
	}
	if off >= int64(len(content)) {
		return 0, io.EOF
	}
	n := copy(p, content[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.writable("write"); err != nil {
		return 0, err
	}
	err := f.fs.ask(Op{Kind: OpWrite, Path: f.path, Size: len(p)})
	var torn *TornWrite
	if errors.As(err, &torn) {
		p, err = p[:min(torn.Bytes, len(p))], torn.Err
	} else if err != nil {
		p = nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.node
	if end := int(off) + len(p); end > len(n.data) && len(p) > 0 {
		n.resize(end)
	}
	copy(n.data[min(int(off), len(n.data)):], p)
	n.touch(int(off), int(off)+len(p))
	n.mtime = f.fs.now()
	if err != nil {
		return len(p), pathError("write", f.path, err)
	}
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.writable("truncate"); err != nil {
		return err
	}
	if err := f.fs.ask(Op{Kind: OpTruncate, Path: f.path}); err != nil {
		return pathError("truncate", f.path, err)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.resize(int(size))
	f.node.mtime = f.fs.now()
	return nil
}

func (f *memFile) Sync() error {
	if f.closed.Load() {
		return pathError("sync", f.path, fs.ErrClosed)
	}
	// What is dirty is settled before the hook, as a sync covers what was
	// written before it began; more may be written while it lasts.
	f.fs.mu.Lock()
	low, high, size := f.node.dirtyLow, f.node.dirtyHigh, len(f.node.data)
	f.node.dirtyLow, f.node.dirtyHigh = 0, 0
	content := append([]byte(nil), f.node.data[min(low, size):min(high, size)]...)
	taken := &span{low, high}
	f.node.syncing = append(f.node.syncing, taken)
	f.fs.mu.Unlock()
	defer func() {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		f.node.syncing = slices.DeleteFunc(f.node.syncing, func(s *span) bool { return s == taken })
	}()

	if err := f.fs.ask(Op{Kind: OpSync, Path: f.path}); errors.Is(err, ErrSyncLost) {
		return nil
	} else if err != nil {
		return pathError("sync", f.path, err)
	}
	f.fs.mu.Lock()
	f.node.safe = resized(f.node.safe, size)
	copy(f.node.safe[min(low, size):], content)
	f.fs.mu.Unlock()
	return nil
}

// span is bytes low to high (exclusive) of a file.
type span struct{ low, high int }

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.info(), nil
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.path, fs.ErrClosed)
	}
	return nil
}

// memUncached reads what is safe of a file.
type memUncached struct{ *memFile }

func (f memUncached) ReadAt(p []byte, off int64) (int, error) { return f.readAt(p, off, true) }

func (f memUncached) Direct() bool { return true }

// NextData knows of no holes.
func (f *memFile) NextData(off int64) (int64, error) { return off, nil }

// Fd reports that there is no descriptor.
func (f *memFile) Fd() (uintptr, bool) { return 0, false }

func (f *memFile) writable(op string) error {
	switch {
	case f.closed.Load():
		return pathError(op, f.path, fs.ErrClosed)
	case !f.write:
		return pathError(op, f.path, fs.ErrPermission)
	}
	return nil
}

// resize sets the size of the content. The caller holds Mem.mu.
func (n *node) resize(size int) {
	n.touch(min(size, len(n.data)), max(size, len(n.data)))
	n.data = resized(n.data, size)
}

// resized returns b with the given length; what is gained is zero, also where
// b held something before it was cut.
func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	old := len(b)
	if size > cap(b) {
		grown := make([]byte, old, max(size, 2*cap(b)))
		copy(grown, b)
		b = grown
	}
	b = b[:size]
	clear(b[old:])
	return b
}

// touch marks bytes low to high (exclusive) as perhaps not safe.
func (n *node) touch(low, high int) {
	if low >= high {
		return
	}
	if n.dirtyLow == n.dirtyHigh {
		n.dirtyLow, n.dirtyHigh = low, high
		return
	}
	n.dirtyLow, n.dirtyHigh = min(n.dirtyLow, low), max(n.dirtyHigh, high)
}

func (n *node) info() fs.FileInfo {
	return fileInfo{name: n.name, size: int64(len(n.data)), dir: n.isDir(), mtime: n.mtime}
}

type fileInfo struct {
	name  string
	size  int64
	dir   bool
	mtime time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) ModTime() time.Time { return i.mtime }
func (i fileInfo) IsDir() bool        { return i.dir }
func (i fileInfo) Sys() any           { return nil }
func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | folderMode
	}
	return fileMode
}
