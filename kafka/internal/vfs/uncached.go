package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// directAlign is a multiple of every block size that direct reads ask their
// position, length and memory to be aligned to.
const directAlign = 4096

// directBytes is the size of the buffer for direct reads.
const directBytes = 256 << 10

// uncachedFile reads a file of the operating system past the page cache.
type uncachedFile struct {
	file   *os.File
	direct bool
	buf    []byte // for direct reads; mapped, and so aligned to a page
}

func (osFS) OpenUncached(name string) (UncachedFile, error) {
	f, err := openUncached(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openUncached(name string) (*uncachedFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	// Also for direct reads: some file systems serve them from the cache when
	// it holds the page.
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return nil, errors.Join(pathError("drop cache", name, err), file.Close())
	}
	direct, err := openDirect(name)
	if errors.Is(err, unix.EINVAL) {
		return &uncachedFile{file: file}, nil // there are no direct reads here
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return direct, nil
}

func openDirect(name string) (*uncachedFile, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	buf, err := unix.Mmap(-1, 0, directBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map memory to read %s: %w", name, err), file.Close())
	}
	f := &uncachedFile{file: file, direct: true, buf: buf}
	// Some file systems take the flag and refuse the reads.
	if _, err := f.pread(buf[:directAlign], 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *uncachedFile) Direct() bool { return f.direct }

func (f *uncachedFile) ReadAt(p []byte, off int64) (int, error) {
	if !f.direct {
		return f.file.ReadAt(p, off)
	}
	if f.buf == nil {
		return 0, pathError("read", f.file.Name(), fs.ErrClosed)
	}
	done := 0
	for done < len(p) {
		at := off + int64(done)
		start := at &^ (directAlign - 1)
		skip := int(at - start)
		want := (skip + len(p) - done + directAlign - 1) &^ (directAlign - 1)
		n, err := f.pread(f.buf[:min(want, len(f.buf))], start)
		if err != nil {
			return done, err
		}
		if n <= skip {
			return done, io.EOF
		}
		done += copy(p[done:], f.buf[skip:n])
	}
	return done, nil
}

// pread is one read. Not [os.File.ReadAt]: that one goes on behind a short read,
// at a position that is not aligned.
func (f *uncachedFile) pread(b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(f.file.Fd()), b, off)
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, unix.EINTR):
			return 0, pathError("read past the cache", f.file.Name(), err)
		}
	}
}

func (f *uncachedFile) Close() error {
	var err error
	if f.buf != nil {
		err = unix.Munmap(f.buf)
		f.buf = nil
	}
	return errors.Join(err, f.file.Close())
}
