package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// OS returns the file system of the operating system.
func OS() FS { return osFS{} }

const (
	fileMode   fs.FileMode = 0o644
	folderMode fs.FileMode = 0o755
)

type osFS struct{}

type osFile struct{ *os.File }

// Fd never changes the descriptor's mode: regular files are not in non-blocking
// mode, so the call has no side effect.
func (f osFile) Fd() (uintptr, bool) { return f.File.Fd(), true }

// NextData moves the descriptor's own position, which nothing goes by.
func (f osFile) NextData(off int64) (int64, error) {
	at, err := unix.Seek(int(f.File.Fd()), off, unix.SEEK_DATA)
	switch {
	case err == nil:
		return at, nil
	case errors.Is(err, unix.EINVAL): // there are no holes here
		return off, nil
	case !errors.Is(err, unix.ENXIO):
		return 0, pathError("seek data", f.Name(), err)
	}
	info, err := f.File.Stat() // a hole up to the end
	if err != nil {
		return 0, err
	}
	return max(info.Size(), off), nil
}

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}
func (osFS) Open(name string) (File, error)             { return open(name, os.O_RDONLY) }
func (osFS) OpenWrite(name string) (File, error)        { return open(name, os.O_RDWR) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                { return os.RemoveAll(name) }
func (osFS) Rename(oldName, newName string) error       { return os.Rename(oldName, newName) }
func (osFS) Mkdir(name string) error                    { return os.Mkdir(name, folderMode) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }

// SetTime leaves alone when the file was last read.
func (osFS) SetTime(name string, t time.Time) error { return os.Chtimes(name, time.Time{}, t) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock uses a lock of the open file description, which ends with the process
// however that ends. Unlike flock's it can be asked for without taking it, so
// that a tool that only looks never stands in the way of a broker's start.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	switch err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); {
	case err == nil:
		// Who holds it, for whoever finds it locked. Nothing depends on that, so it
		// may be missing, as on a full disk.
		if f.Truncate(0) == nil {
			_, _ = fmt.Fprintln(f, os.Getpid())
		}
		return osLock{f}, nil
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return nil, errors.Join(fmt.Errorf("%s: %w", name, ErrLocked), f.Close())
	default:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
}

// osLock is a lock that is held.
type osLock struct{ file *os.File }

// Close gives the lock up before the file is closed: a child of this process has
// the file open too, from its fork until it executes its program, and would hold
// the lock as long.
func (l osLock) Close() error {
	lock := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart}
	return errors.Join(unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &lock), l.file.Close())
}

func (osFS) Locked(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, errors.Join(fmt.Errorf("ask for the lock of %s: %w", name, err), f.Close())
	}
	return lock.Type != unix.F_UNLCK, f.Close()
}
