// Package coalesce holds a connection that gathers small writes and reads.
//
// The client libraries of the systems that are compared write each frame, and
// some of them each part of a frame, with a system call of its own. A [Conn]
// takes what they write into a buffer, from which one goroutine writes
// whatever has gathered, as soon as its last write has returned. So nothing
// waits for more to come, bytes stay in their order, and no message is changed
// or joined with another: only the number of system calls and packets falls.
package coalesce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// BufferBytes is how much may wait to be written; Write blocks beyond it.
	BufferBytes = 256 << 10
	// ReadBufferBytes is the largest read from the socket.
	ReadBufferBytes = 64 << 10
	// CloseTimeout is how long Close tries to write what has gathered.
	CloseTimeout = 2 * time.Second
)

// ErrAborted is what calls return after [Conn.Abort].
var ErrAborted = errors.New("connection given up")

// Conn is a connection whose writes are gathered. Several goroutines may
// write at once, and close; one may read.
type Conn struct {
	net.Conn
	in   *bufio.Reader
	done chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex // protects all below
	work    sync.Cond  // the writing goroutine waits here for something to do
	moved   sync.Cond  // the others wait here for it to have done something
	pending []byte     // gathered, not yet given to the socket
	spare   []byte     // the other buffer, while none is being written
	writing int        // bytes that the goroutine is writing now
	taken   int64      // bytes taken by Write, ever
	err     error      // the first failure; it stays
	closing bool
}

// New returns a connection over c, which from now on belongs to it. The caller
// closes it, which ends its goroutine.
func New(c net.Conn) *Conn {
	g := &Conn{
		Conn:    c,
		in:      bufio.NewReaderSize(c, ReadBufferBytes),
		done:    make(chan struct{}),
		pending: make([]byte, 0, BufferBytes),
		spare:   make([]byte, 0, BufferBytes),
	}
	g.work.L, g.moved.L = &g.mu, &g.mu
	go g.write()
	return g
}

// Write takes p into the buffer and returns; it blocks while the buffer is
// full. An error is that of an earlier write to the socket, and stays.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 0; ; {
		if c.err != nil {
			return n, c.err
		}
		if c.closing {
			return n, net.ErrClosed
		}
		if part := min(len(p)-n, BufferBytes-len(c.pending)); part > 0 {
			c.pending = append(c.pending, p[n:n+part]...)
			c.taken += int64(part)
			n += part
			c.work.Signal()
		}
		if n == len(p) {
			return n, nil
		}
		c.moved.Wait()
	}
}

// write is the writing goroutine. It ends after Close, when all is written, or
// with the first error.
func (c *Conn) write() {
	defer close(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.pending) == 0 && !c.closing && c.err == nil {
			c.work.Wait()
		}
		if len(c.pending) == 0 || c.err != nil {
			return
		}
		out := c.pending
		c.pending, c.spare, c.writing = c.spare[:0], nil, len(out)
		c.moved.Broadcast()
		c.mu.Unlock()
		n, err := c.Conn.Write(out)
		c.mu.Lock()
		c.spare, c.writing = out, 0
		if err != nil {
			// What was not written stays counted, in Unwritten.
			c.writing = len(out) - n
			c.fail(err)
			return
		}
		c.moved.Broadcast()
	}
}

// fail keeps the first error and ends the socket, so that a reader learns of
// it too. The lock is held.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
		// The error that matters is err.
		_ = c.Conn.Close()
	}
	c.work.Signal()
	c.moved.Broadcast()
}

// Read reads what there is, up to len(p).
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			err = c.err // why the socket was closed
		}
	}
	return n, err
}

// Flush returns when everything that was written before has been given to the
// operating system, or with the reason why not.
func (c *Conn) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.moved.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for target := c.taken; c.err == nil && c.taken-c.unwritten() < target; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d bytes are not written yet: %w", c.unwritten(), err)
		}
		c.moved.Wait()
	}
	return c.err
}

func (c *Conn) unwritten() int64 { return int64(len(c.pending) + c.writing) }

// Unwritten returns how many bytes were taken by Write, ever, and how many of
// them have not been given to the operating system.
func (c *Conn) Unwritten() (taken, unwritten int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken, c.unwritten()
}

// Close writes what has gathered, for CloseTimeout at most, and closes the
// connection. Another call waits for the first and returns the same.
func (c *Conn) Close() error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	if first && c.err == nil {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(CloseTimeout)); err != nil {
			c.fail(err)
		}
	}
	c.work.Signal()
	c.moved.Broadcast()
	c.mu.Unlock()
	<-c.done

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = net.ErrClosed
		return c.Conn.Close()
	}
	if lost := c.unwritten(); lost > 0 && !errors.Is(c.err, ErrAborted) {
		return fmt.Errorf("%d bytes were not written: %w", lost, c.err)
	}
	return nil
}

// Abort closes the connection without writing what has gathered. Calls that
// wait return [ErrAborted].
func (c *Conn) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(ErrAborted)
}
