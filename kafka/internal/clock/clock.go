// Package clock is the seam for time: the real clock, and one that a test moves
// by hand.
package clock

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Clock tells the time and makes timers.
type Clock interface {
	Now() time.Time
	// Elapsed returns how long the clock has been running. Unlike Now it never
	// jumps when somebody puts the clock right, but says nothing about when.
	Elapsed() time.Duration
	// NewTimer returns a timer that fires once, d from now.
	NewTimer(d time.Duration) Timer
}

// Timer is a timer that fires once.
type Timer interface {
	// C receives the time when the timer fires.
	C() <-chan time.Time
	// Stop makes sure that C receives nothing any more. It reports whether the
	// timer was still to fire.
	Stop() bool
	// Reset lets the timer fire d from now, whether it has fired before or not.
	Reset(d time.Duration)
}

// Real returns the clock of the machine.
func Real() Clock { return realClock{} }

type realClock struct{}

type realTimer struct{ *time.Timer }

// started is where Elapsed counts from.
var started = time.Now()

func (realClock) Now() time.Time                 { return time.Now() }
func (realClock) Elapsed() time.Duration         { return time.Since(started) }
func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }
func (t realTimer) C() <-chan time.Time          { return t.Timer.C }
func (t realTimer) Reset(d time.Duration)        { t.Timer.Reset(d) }

// Manual is a clock that stands still until [Manual.Advance]. Its methods may
// be called by several goroutines at the same time.
type Manual struct {
	mu      sync.Mutex
	changed sync.Cond // the set of pending timers has changed
	now     time.Time
	elapsed time.Duration
	pending []*manualTimer
}

// NewManual returns a clock that shows now.
func NewManual(now time.Time) *Manual {
	m := &Manual{now: now}
	m.changed.L = &m.mu
	return m
}

type manualTimer struct {
	clock *Manual
	c     chan time.Time
	at    time.Duration // of the clock's Elapsed
}

// Now returns the time that the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Elapsed returns by how much Advance has moved the clock.
func (m *Manual) Elapsed() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.elapsed
}

// NewTimer implements [Clock].
func (m *Manual) NewTimer(d time.Duration) Timer {
	t := &manualTimer{clock: m, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// Advance moves the clock by d, which must not be negative, and fires the
// timers that are due, in order of their times.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	m.elapsed += d
	m.fire()
}

// Step puts the clock forward, or back when d is negative, as an administrator
// does: no time has gone by.
func (m *Manual) Step(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// WaitTimers waits until at least n timers are to fire: until the goroutines
// under test have come to wait for the clock.
func (m *Manual) WaitTimers(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.pending) < n {
		m.changed.Wait()
	}
}

func (m *Manual) fire() {
	slices.SortStableFunc(m.pending, func(a, b *manualTimer) int { return cmp.Compare(a.at, b.at) })
	for len(m.pending) > 0 && m.pending[0].at <= m.elapsed {
		m.pending[0].c <- m.now
		m.pending = m.pending[1:]
	}
	m.changed.Broadcast()
}

// remove takes t off the pending timers and empties its channel. The caller
// holds m.mu.
func (m *Manual) remove(t *manualTimer) bool {
	i := slices.Index(m.pending, t)
	if i >= 0 {
		m.pending = slices.Delete(m.pending, i, i+1)
	}
	select {
	case <-t.c:
	default:
	}
	return i >= 0
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.clock.remove(t)
	t.clock.changed.Broadcast()
	return was
}

func (t *manualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.remove(t)
	t.at = t.clock.elapsed + d
	t.clock.pending = append(t.clock.pending, t)
	t.clock.fire()
}
