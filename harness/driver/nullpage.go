package driver

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nullPage is what the null driver remembers of a queue: memory that is shared
// by every process that maps the queue's file. A new file is all zeros, which
// is the empty queue. The producer sets count last, and the consumer reads the
// other fields only when count is not zero.
type nullPage struct {
	payloadBytes atomic.Uint64
	runID        atomic.Uint64
	first        atomic.Uint64 // sequence number of the first message
	count        atomic.Uint64 // of messages
}

const nullPageBytes = 4096

// openNullPage maps the queue's page, making its file if need be.
func openNullPage(dir, queue string) (*nullPage, error) {
	f, err := os.OpenFile(nullFile(dir, queue), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(nullPageBytes)
	var b []byte
	if err == nil {
		b, err = unix.Mmap(int(f.Fd()), 0, nullPageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	// The mapping holds the file open.
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	// A mapping begins at a page's border, so the words are aligned.
	return (*nullPage)(unsafe.Pointer(&b[0])), nil
}
