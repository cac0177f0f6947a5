package workload

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Clock is where a [Pacer] takes its time from.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// RealClock is the machine's own clock.
type RealClock struct{}

// Now returns the time, with its monotonic part.
func (RealClock) Now() time.Time { return time.Now() }

// Sleep waits for d.
func (RealClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pacer hands out the planned send times of messages at a fixed rate: message
// i is due i/rate after the start. The plan never shifts: when the system
// under test stalls, the messages that should have been sent meanwhile are due
// at once, and a latency measured from the planned time includes the wait.
// (Measured from the actual send, stalls would be left out.)
// It must not be used by several goroutines at once.
type Pacer struct {
	clock     Clock
	perSecond float64
	start     time.Time
	next      int64
}

// NewPacer returns a pacer of perSecond messages a second (above 0, at most
// 10^9) whose first message is due now.
func NewPacer(clock Clock, perSecond float64) (*Pacer, error) {
	if !(perSecond > 0 && perSecond <= 1e9) {
		return nil, fmt.Errorf("rate of %v messages a second: more than 0 and at most 10^9 are possible", perSecond)
	}
	return &Pacer{clock: clock, perSecond: perSecond, start: clock.Now()}, nil
}

// Wait waits until the next message is due and returns the time for which it
// was planned. A message that is due already does not wait. The message counts
// as taken unless there is an error, which is the context's.
func (p *Pacer) Wait(ctx context.Context) (planned time.Time, err error) {
	planned = p.planned(p.next)
	if wait := planned.Sub(p.clock.Now()); wait > 0 {
		if err := p.clock.Sleep(ctx, wait); err != nil {
			return time.Time{}, err
		}
	} else if ctx.Err() != nil {
		return time.Time{}, context.Cause(ctx)
	}
	p.next++
	return planned, nil
}

// Behind returns by how much the next message is late; 0 when it is not.
func (p *Pacer) Behind() time.Duration {
	return max(0, p.clock.Now().Sub(p.planned(p.next)))
}

// planned computes each time from the start, so that rounding does not add up.
func (p *Pacer) planned(i int64) time.Time {
	seconds, fraction := math.Modf(float64(i) / p.perSecond)
	return p.start.Add(time.Duration(seconds)*time.Second + time.Duration(math.Round(fraction*1e9)))
}
