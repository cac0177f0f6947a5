// Package host is a machine to run things on: this one, a network namespace of
// it, or another machine over ssh. A [Host] starts processes, keeps files and
// answers questions about itself; everything that the testbed does on a
// machine goes through it, so that a run looks the same on all three kinds.
package host

import (
	"context"
	"io"
	"os"
	"time"
)

// Kind is what a host is.
type Kind string

// The kinds of host.
const (
	Local     Kind = "local"
	Namespace Kind = "netns" // emulated: a network namespace of this machine
	SSH       Kind = "ssh"
)

// Command is a program to start on a host.
type Command struct {
	Name string    // what messages call it
	Args []string  // Args[0] is a path, or a name to find on the host's PATH
	Env  []string  // KEY=value, added to the host's own environment
	Dir  string    // working folder on the host; empty: the host's own choice
	In   io.Reader // standard input; nil: none
	// Out and Err receive the output as it comes. Nil: discarded.
	Out, Err io.Writer

	confined *Confined // what holds it; nil: nothing
}

// Usage is what a process has used since it started.
type Usage struct {
	UserSeconds, SystemSeconds float64 // processor time, all threads
	ResidentBytes              int64
	ReadBytes, WrittenBytes    int64 // at the block layer (/proc/PID/io)
	// Syscalls are syscr and syscw of /proc/PID/io: calls of the read and write
	// families on files and sockets, and sendfile, which is one of each. The
	// kernel leaves out recv, send, and what waits, such as epoll.
	Syscalls int64
}

// Process is a program that runs on a host. Its methods may be called at once
// by several goroutines.
type Process interface {
	PID() int // on the host; of the program itself, not of a wrapper
	// Wait waits for the end. A program that fails or is killed is an error
	// that says how.
	Wait(ctx context.Context) error
	// Done is closed when the program has ended and its output has been
	// written out.
	Done() <-chan struct{}
	Signal(ctx context.Context, sig os.Signal) error
	// Stop sends SIGTERM, waits up to grace, then kills the whole process
	// group. It returns nil when the program is gone, however it ended, and is
	// idempotent.
	Stop(ctx context.Context, grace time.Duration) error
	Usage(ctx context.Context) (Usage, error)
}

// Host is a machine. Its methods may be called at once by several goroutines.
type Host interface {
	Name() string // as the testbed file calls it
	Kind() Kind
	// Addr is the address of the host on the test network, without a port.
	Addr() string
	// Start starts a program in a process group of its own. Everything that
	// was started ends with Close at the latest.
	Start(ctx context.Context, c Command) (Process, error)
	// Run runs a program to its end and returns its standard output. A failure
	// is an error that holds the last lines of its standard error.
	Run(ctx context.Context, args ...string) ([]byte, error)

	// Dir returns the folder on the host that this host's runs may use for
	// their data. It is on the disk to be measured.
	Dir() string
	MkdirAll(ctx context.Context, path string) error
	WriteFile(ctx context.Context, path string, data []byte, mode os.FileMode) error
	ReadFile(ctx context.Context, path string) ([]byte, error)
	// RemoveAll removes a folder below Dir; any other path is refused.
	RemoveAll(ctx context.Context, path string) error
	// Fetch copies a file, or a folder, to this machine.
	Fetch(ctx context.Context, remote, local string) error
	// AllocatedBytes is the disk space that the files below path take (du).
	AllocatedBytes(ctx context.Context, path string) (int64, error)
	// FreeBytes is the space left on the file system that holds path.
	FreeBytes(ctx context.Context, path string) (int64, error)
	// FreePort returns a TCP port that is free on Addr and on loopback at the
	// moment.
	FreePort(ctx context.Context) (int, error)
	// Binary returns the path on the host of one of this project's programs
	// ("kafka", "testbed"), copying it there first if need be.
	Binary(ctx context.Context, name string) (string, error)

	// Close ends every process that is left, removes what the host made for
	// itself, and returns what could not be. It is idempotent.
	Close(ctx context.Context) error
}
