package interrupt

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A call that goes on after its context is aborted.
func TestAborts(t *testing.T) {
	aborted := make(chan struct{})
	w := NewWatch(time.Millisecond, func() { close(aborted) })
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-aborted:
	case <-time.After(30 * time.Second):
		t.Fatal("not aborted")
	}
	w.End()
	if err := w.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin with an ended context: %v", err)
	}
}

// A call that returns within the grace, and one that did before, are let be.
func TestLetsBe(t *testing.T) {
	var aborts atomic.Int32
	w := NewWatch(time.Hour, func() { aborts.Add(1) })
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			if err := w.Begin(ctx); err != nil {
				t.Fatal(err)
			}
			w.End()
		}
		if err := w.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		w.End()
	}
	if err := w.Begin(context.Background()); err != nil { // has no end
		t.Fatal(err)
	}
	w.End()
	w.Close() // waits for whoever watches; goleak sees the rest
	if n := aborts.Load(); n != 0 {
		t.Errorf("%d calls were aborted", n)
	}
	w.Close()
	if err := w.Begin(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Begin after Close: %v", err)
	}
}

// The common call costs no allocation.
func TestBeginAllocatesNothing(t *testing.T) {
	w := NewWatch(time.Second, func() {})
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(1000, func() {
		if err := w.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		w.End()
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
