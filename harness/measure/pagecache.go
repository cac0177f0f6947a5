package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cached is what the page cache holds of the files of a folder.
type Cached struct {
	Files       int   `json:"files"`
	Bytes       int64 `json:"bytes"`        // their size
	CachedBytes int64 `json:"cached_bytes"` // in whole pages, in the page cache
}

// DropCache makes the regular files below dir leave the page cache, after all
// that was written to them is on the disk, and returns what has stayed: pages
// that a process has mapped, or that are being written just now, cannot go. A
// file that vanishes meanwhile is left out. It takes no links. ctx is looked at
// between two files.
func DropCache(ctx context.Context, dir string) (Cached, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return Cached{}, err
	}
	// All are dropped before the first is looked at: reading one's table of
	// blocks may bring back pages of another.
	var left Cached
	for _, pass := range []func(*os.File) error{dropFile, left.add} {
		for _, path := range paths {
			if ctx.Err() != nil {
				return left, context.Cause(ctx)
			}
			if err := withFile(path, pass); err != nil {
				return left, err
			}
		}
	}
	return left, nil
}

// withFile opens a file for one piece of work; one that has vanished is none.
func withFile(path string, work func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = work(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(err, f.Close())
}

// dropFile writes what is dirty, which could not go, and drops all.
func dropFile(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// windowBytes is how much of a file is looked at at a time. It is a multiple of
// every page size.
const windowBytes = 1 << 30

// add counts what of a file is in the page cache.
func (c *Cached) add(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.Files++
	c.Bytes += info.Size()
	for at := int64(0); at < info.Size(); at += windowBytes {
		n, err := cachedPages(f, at, int(min(windowBytes, info.Size()-at)))
		if err != nil {
			return err
		}
		c.CachedBytes += n * int64(os.Getpagesize())
	}
	return nil
}

// cachedPages counts the pages of a part of a file that are in the page cache.
func cachedPages(f *os.File, offset int64, length int) (int64, error) {
	// No page is touched, so that a file that is cut meanwhile does no harm.
	mapped, err := unix.Mmap(int(f.Fd()), offset, length, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("mapping: %w", err)
	}
	pages := make([]byte, (length+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(length), uintptr(unsafe.Pointer(&pages[0])))
	if err := unix.Munmap(mapped); err != nil {
		return 0, fmt.Errorf("unmapping: %w", err)
	}
	if errno != 0 {
		return 0, fmt.Errorf("mincore: %w", errno)
	}
	var cached int64
	for _, p := range pages {
		cached += int64(p & 1)
	}
	return cached, nil
}
