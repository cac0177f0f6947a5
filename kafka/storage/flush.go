package storage

import (
	"context"
	"fmt"
)

// A round is one sync and those who wait for it. They join before it begins, so
// everything that they have appended is covered: group commit.
type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// WaitFlushed returns once everything before the offset end is flushed. If that
// takes a sync it joins the next one: all who wait share it, and it covers
// whatever is appended when it begins, not only what they wait for.
//
// It returns the error of the context when that ends first; the sync goes on
// nevertheless, and the messages may or may not become flushed. It returns
// [ErrOutOfService] when a sync failed, this one or an earlier one.
func (l *Log) WaitFlushed(ctx context.Context, end int64) error {
	if l.flushed.Load() >= end {
		return nil
	}
	if logEnd := l.logEnd.Load(); end > logEnd {
		return l.errorf("wait for the flush of offset %d: the log ends at %d", end, logEnd)
	}
	r := l.joinRound()
	if r == nil {
		return l.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return l.errorf("wait for the flush of offset %d: %w", end, context.Cause(ctx))
	}
}

// WaitAppended waits for the flush of what an append has appended: see
// [Log.WaitFlushed]. It knows also of messages that were lost meanwhile and
// whose offsets others have got: in the rare case that a sync fails, the page
// cache does not have them any more, and the log is back in service before this
// call. The error is [ErrOutOfService] then. After such a loss it may be that
// for messages too that are safe.
func (l *Log) WaitAppended(ctx context.Context, a Appended) error {
	err := l.WaitFlushed(ctx, a.Next)
	if l.maybeLost(a) {
		return l.errorf("%w: it has lost unflushed messages since those from offset %d to %d were appended", ErrOutOfService, a.Base, a.Next)
	}
	return err
}

// IsFlushed reports whether what an append has appended is flushed.
func (l *Log) IsFlushed(a Appended) bool {
	return l.flushed.Load() >= a.Next && !l.maybeLost(a)
}

// maybeLost reports whether the log has lost messages since an append. What was
// flushed before is among those that it takes for lost.
func (l *Log) maybeLost(a Appended) bool { return a.Next > a.Base && l.losses.Load() != a.losses }

// Flush flushes everything that is appended now. It does nothing if that is
// flushed already. See [Log.WaitFlushed] for errors.
func (l *Log) Flush(ctx context.Context) error {
	return l.WaitFlushed(ctx, l.logEnd.Load())
}

// joinRound returns the round that has not begun yet, and sees to it that it
// will. It returns nil when the log is closed.
func (l *Log) joinRound() *round {
	l.roundMu.Lock()
	defer l.roundMu.Unlock()
	if l.roundsOver {
		return nil
	}
	if l.round == nil {
		l.round = &round{done: make(chan struct{})}
	}
	if l.runner == nil {
		l.runner = make(chan struct{})
		go l.runRounds(l.runner)
	}
	return l.round
}

// runRounds syncs for one round after the other until nobody waits. It is a
// goroutine of its own, so that those who wait can stop waiting.
func (l *Log) runRounds(ended chan<- struct{}) {
	defer close(ended)
	for {
		l.roundMu.Lock()
		r := l.round
		l.round = nil
		if r == nil {
			l.runner = nil
			l.roundMu.Unlock()
			return
		}
		l.roundMu.Unlock()
		r.err = l.sync()
		close(r.done)
	}
}

// endRounds refuses further rounds and restorations, calls a restoration under
// way off, and waits until nothing of that works on the log any more.
func (l *Log) endRounds(ctx context.Context) error {
	l.roundMu.Lock()
	l.roundsOver = true
	working := []chan struct{}{l.runner}
	if r := l.restoration; r != nil {
		r.cancel()
		working = append(working, r.done)
	}
	l.roundMu.Unlock()
	for _, done := range working {
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
			return l.errorf("wait for a sync under way: %w", context.Cause(ctx))
		}
	}
	return nil
}

// sync flushes the log up to the end that it has when the sync begins. Appends
// go on meanwhile.
func (l *Log) sync() error {
	l.mu.Lock()
	list := *l.segments.Load()
	end := l.logEnd.Load()
	l.unflushed = 0
	// Closing takes the list away under l.mu, so the log holds the segment still.
	if len(list) == 0 || !list[len(list)-1].acquire() {
		l.mu.Unlock()
		return l.Err()
	}
	active := list[len(list)-1]
	l.mu.Unlock()
	defer active.release()
	return l.flushTo(active, end)
}

// flushTo syncs the segment that ends at end, or did when end was read, and
// moves the flushed end there. Segments before it were flushed when they were
// rolled.
//
// One sync runs at a time: the kernel reports a failed write-back to one sync of
// a descriptor only, so of two that overlap one may seem to succeed. After a
// failure no sync of this file is tried again, for it would succeed without
// having written what the failed one dropped (fault B04): see [Log.rewrite].
func (l *Log) flushTo(active *segment, end int64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if s := l.failed.Load(); s != nil {
		return s.err
	}
	// A cut must be safe before another segment follows: a crash could bring back
	// what was cut off, and the segment would reach into the next one.
	if shortened := active.shortened.Swap(false); end <= l.flushed.Load() && !shortened {
		return nil
	}
	began := l.cfg.Clock.Elapsed()
	err := active.file.Sync()
	l.cfg.Hooks.flushed(l, l.cfg.Clock.Elapsed()-began, err)
	if err != nil {
		l.markUnsynced(active.path)
		return l.fail(stop{mend: mendRewrite, err: fmt.Errorf("flush up to offset %d: %w", end, err)})
	}
	if s := l.failed.Load(); s != nil {
		// The disk refused something else meanwhile, such as a write and its cut.
		// A file system that was just shut down has been seen to let such a sync
		// succeed, and the data was gone.
		return s.err
	}
	if end <= l.flushed.Load() {
		return nil
	}
	l.flushed.Store(end)
	if l.cfg.Visible == VisibleFlushed {
		l.visible.Store(end)
		l.notify()
	}
	return nil
}
