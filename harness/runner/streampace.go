package runner

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"
)

// pace is the plan of a stream: when each message is due, in absolute times.
// What is late changes nothing for those that follow.
type pace struct{ rate float64 }

// due is the time of message n after the beginning.
func (p pace) due(n int64) time.Duration {
	return time.Duration(float64(n) * (float64(time.Second) / p.rate))
}

// streamClock is the time of a stream, from its beginning.
type streamClock interface {
	Now() time.Duration
	// Wait returns at that time, at once when it has passed, or when ctx ends.
	Wait(ctx context.Context, until time.Duration) error
}

// wallClock is the machine's own time.
type wallClock struct {
	began time.Time
	timer *time.Timer // nil before the first long wait
}

func (c *wallClock) Now() time.Duration { return time.Since(c.began) }

const (
	// fineWait is the end of a wait, for which a thread sleeps: the runtime's
	// timers come up to a millisecond late, which would be ten messages of
	// 10,000 a second.
	fineWait = 1500 * time.Microsecond
	// prSetTimerSlack is the number of a call of prctl(2): by so many
	// nanoseconds the kernel may wake this thread late. Its default is 50 µs.
	prSetTimerSlack = 29
)

func (c *wallClock) Wait(ctx context.Context, until time.Duration) error {
	left := until - c.Now()
	if left > fineWait {
		if c.timer == nil {
			c.timer = time.NewTimer(left - fineWait)
		} else {
			c.timer.Reset(left - fineWait)
		}
		select {
		case <-c.timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		left = until - c.Now()
	}
	for ; left > 0; left = until - c.Now() {
		// Of this thread, whichever it is: cheap, and without it the sleep is late.
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
		sleep := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&sleep, nil) // a signal ends it early: then it is repeated
	}
	return nil
}

// sendLogSize is for how many messages it is known when they were sent: 10 s
// of 100,000 a second, in 8 MiB.
const sendLogSize = 1 << 20

// sendLog remembers when the last messages were sent. One goroutine notes, and
// another one asks.
type sendLog struct {
	begun atomic.Int64 // messages of which the sending has begun
	times []atomic.Int64
}

func newSendLog(size int64) *sendLog { return &sendLog{times: make([]atomic.Int64, size)} }

// note says that message n, the next one, is sent now.
func (l *sendLog) note(n int64, now time.Duration) {
	l.begun.Store(n + 1) // before the place is written, so that at can tell
	l.times[n%int64(len(l.times))].Store(int64(now))
}

// at is when message n was sent, and false when that is not known any more.
func (l *sendLog) at(n int64) (time.Duration, bool) {
	v := l.times[n%int64(len(l.times))].Load()
	return time.Duration(v), l.begun.Load() <= n+int64(len(l.times))
}
