// Package interrupt bounds calls that take no context.
//
// The client libraries of the systems that are compared block in some calls
// for as long as the server likes. A [Watch] gives such a connection up when
// the context of a call has ended and the call still has not returned after a
// grace. The grace is there because a call that is under way is usually about
// to return, and giving the connection up loses what is in its buffers.
package interrupt

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by Begin after Close.
var ErrClosed = errors.New("closed")

// Watch watches the calls of one goroutine, one at a time. Close may be called
// from another.
type Watch struct {
	grace time.Duration
	abort func()

	calls atomic.Uint64 // odd while a call is under way
	quit  chan struct{}
	wg    sync.WaitGroup // of the function that waits for done

	mu     sync.Mutex
	closed bool
	done   <-chan struct{} // of the context that is being watched; nil: none
	stop   func() bool     // of the function that waits for done
}

// NewWatch returns a watch that calls abort when a call is still under way
// grace after its context has ended. The caller closes it.
func NewWatch(grace time.Duration, abort func()) *Watch {
	return &Watch{grace: grace, abort: abort, quit: make(chan struct{})}
}

// Begin begins a call, unless ctx has ended already. It is cheap when ctx is
// the one of the call before. Every Begin without an error needs an End.
func (w *Watch) Begin(ctx context.Context) error {
	if err := w.follow(ctx); err != nil {
		return err
	}
	// First counted, then asked: when ctx ends in between, ended sees the call.
	w.calls.Add(1)
	if err := ctx.Err(); err != nil {
		w.calls.Add(1)
		return err
	}
	return nil
}

// End ends the call.
func (w *Watch) End() { w.calls.Add(1) }

// follow makes ctx the context that is watched.
func (w *Watch) follow(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if done := ctx.Done(); done != w.done {
		w.forget()
		if done != nil { // nil: a context without an end
			w.wg.Add(1)
			w.stop = context.AfterFunc(ctx, w.ended)
		}
		w.done = done
	}
	return nil
}

// forget lets go of the context that is watched. The lock is held.
func (w *Watch) forget() {
	if w.done != nil && w.stop() {
		w.wg.Done() // ended will not run
	}
	w.done = nil
}

// ended runs when the context has ended.
func (w *Watch) ended() {
	defer w.wg.Done()
	call := w.calls.Load()
	if call%2 == 0 {
		return // and no other begins with this context
	}
	t := time.NewTimer(w.grace)
	defer t.Stop()
	select {
	case <-t.C:
		if w.calls.Load() == call {
			w.abort()
		}
	case <-w.quit:
	}
}

// Close ends the watch. It does not wait for a call that is under way. It is
// idempotent.
func (w *Watch) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.quit)
		w.forget()
	}
	w.mu.Unlock()
	w.wg.Wait()
}
