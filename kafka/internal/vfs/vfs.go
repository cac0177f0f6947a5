// Package vfs is the seam between the partition log and the file system. It
// has two implementations: [OS], the real one, and [Mem], which lives in
// memory, can be cloned as a crash would leave it, and fails on demand.
//
// The interface promises no more than POSIX does. What was written is safe
// from a crash only after [File.Sync]; that a file exists, or has a new name,
// only after [FS.SyncDir] of its folder. A failed Sync says nothing about what
// is on the disk, and a later Sync that succeeds does not make good for it
// (fault B04).
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked is returned by [FS.Lock] when somebody else holds the lock.
var ErrLocked = errors.New("locked")

// FS is a file system. Names are paths as package path/filepath joins them.
// Errors satisfy errors.Is with those of package io/fs. All methods may be
// called at the same time by several goroutines.
type FS interface {
	// Create makes a new, empty file and opens it for reading and writing. It
	// fails with [fs.ErrExist] when the name is taken.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// OpenUncached opens an existing file to read what the disk holds of it.
	// What is to be seen must have been synced before: see [UncachedFile].
	OpenUncached(name string) (UncachedFile, error)
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// RemoveAll removes name and everything in it. A missing name is no error.
	RemoveAll(name string) error
	// Rename gives a file or folder a new name and replaces a file that has it.
	Rename(oldName, newName string) error
	// Mkdir makes one folder. It fails with [fs.ErrExist] when the name is taken.
	Mkdir(name string) error
	// ReadDir lists a folder, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes a file or folder.
	Stat(name string) (fs.FileInfo, error)
	// SetTime sets when a file or folder was last written to. A crash may take
	// that back.
	SetTime(name string, t time.Time) error
	// SyncDir makes the entries of a folder safe: files made, renamed, removed.
	SyncDir(name string) error
	// Lock takes an exclusive lock on a file, which it makes when missing, and
	// holds it until the result is closed or the process ends. It does not wait:
	// it fails with [ErrLocked].
	Lock(name string) (io.Closer, error)
	// Locked reports whether somebody holds the lock, without taking it. A
	// missing file is not locked.
	Locked(name string) (bool, error)
}

// File is an open file. Reads and writes name their position, so that any
// number of goroutines can use one File at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the content and the size of the file safe from a crash.
	Sync() error
	// Truncate sets the size in bytes; what is gained reads as zeros.
	Truncate(size int64) error
	// Stat describes the file.
	Stat() (fs.FileInfo, error)
	// NextData returns the first position from off on that may hold anything but
	// zeros, or the size of the file: whole holes can be left out without being
	// read. It is off itself where the file system does not tell.
	NextData(off int64) (int64, error)
	// Fd returns the descriptor, for sendfile, and whether there is one. It is
	// valid until Close.
	Fd() (uintptr, bool)
}

// UncachedFile reads a file past the page cache, which after a failed sync goes
// on to show what never reached the disk. One goroutine may use it at a time.
type UncachedFile interface {
	io.ReaderAt
	io.Closer
	// Direct reports whether reads pass by the cache. Where the file system has
	// no such reads, as memory file systems may not, the file's pages were
	// dropped from the cache when it was opened: an advice to the kernel, and so
	// a weaker proof.
	Direct() bool
}
