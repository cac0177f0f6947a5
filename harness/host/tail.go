package host

import (
	"bytes"
	"fmt"
	"sync"
)

const (
	tailBytes = 2 << 10
	// maxOutputBytes bounds what Run and ReadFile hold in memory.
	maxOutputBytes = 64 << 20
)

// Tail is a writer that keeps the last bytes of what is written to it: the
// output of a program, for an error message. Its methods may be called at once
// by several goroutines.
type Tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

// NewTail returns a tail of at most max bytes.
func NewTail(max int) *Tail { return &Tail{max: max} }

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns what was kept, without the space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// bounded is a writer that keeps all that is written to it, up to
// maxOutputBytes; more is an error, which ends the program that writes.
type bounded struct{ buf []byte }

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.buf)+len(p) > maxOutputBytes {
		return 0, fmt.Errorf("more than %d bytes of output", maxOutputBytes)
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}
