package workload

import (
	"context"
	"errors"
	"testing"
	"time"
)

// fakeClock moves only when somebody sleeps on it, or by hand.
type fakeClock struct {
	now   time.Time
	slept []time.Duration
}

func (c *fakeClock) Now() time.Time { return c.now }

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.slept = append(c.slept, d)
	c.now = c.now.Add(d)
	return nil
}

func newPacer(t *testing.T, perSecond float64) (*Pacer, *fakeClock) {
	t.Helper()
	c := &fakeClock{now: time.Unix(1000, 0)}
	p, err := NewPacer(c, perSecond)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func wait(t *testing.T, p *Pacer) time.Duration {
	t.Helper()
	planned, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return planned.Sub(time.Unix(1000, 0))
}

func TestFirstMessageIsDueAtTheStart(t *testing.T) {
	p, c := newPacer(t, 10)
	if d := wait(t, p); d != 0 || len(c.slept) != 0 {
		t.Errorf("planned %v after the start, slept %v", d, c.slept)
	}
}

func TestMessagesAreEvenlySpaced(t *testing.T) {
	p, c := newPacer(t, 10)
	for i := range 25 {
		if d, want := wait(t, p), time.Duration(i)*100*time.Millisecond; d != want {
			t.Fatalf("message %d planned at %v, want %v", i, d, want)
		}
	}
	if got := c.now.Sub(time.Unix(1000, 0)); got != 2400*time.Millisecond {
		t.Errorf("25 messages at 10/s took %v", got)
	}
}

func TestRoundingDoesNotAddUp(t *testing.T) {
	p, _ := newPacer(t, 3)
	var last time.Duration
	for range 300_001 {
		last = wait(t, p)
	}
	if last != 100_000*time.Second {
		t.Errorf("message 300,000 at 3/s planned at %v, want 100,000 s", last)
	}
}

// B22: the plan does not move when the system stalls.
func TestAfterAStallTheMissedMessagesAreDueAtOnce(t *testing.T) {
	p, c := newPacer(t, 1000)
	wait(t, p)
	c.now = c.now.Add(2 * time.Second)
	if b := p.Behind(); b != 1999*time.Millisecond {
		t.Errorf("Behind = %v after a stall of 2 s, want 1.999s", b)
	}
	for i := 1; i <= 2000; i++ {
		if d, want := wait(t, p), time.Duration(i)*time.Millisecond; d != want {
			t.Fatalf("message %d planned at %v, want %v", i, d, want)
		}
	}
	if len(c.slept) != 0 {
		t.Errorf("slept %v while behind", c.slept)
	}
	if wait(t, p); len(c.slept) != 1 || p.Behind() != 0 {
		t.Errorf("caught up, but slept %v and behind by %v", c.slept, p.Behind())
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p, c := newPacer(t, 1)
	cause := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := p.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("a message that is due: Wait = %v, want the cause", err)
	}
	wait(t, p)
	if _, err := p.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("a message that is not due: Wait = %v, want the cause", err)
	}
	if d := wait(t, p); d != time.Second || len(c.slept) != 1 {
		t.Errorf("the message whose wait was ended is planned at %v, want 1s", d)
	}
}

func TestRealClockSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (RealClock{}).Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep = %v", err)
	}
	before := RealClock{}.Now()
	if err := (RealClock{}).Sleep(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if (RealClock{}).Now().Sub(before) < time.Millisecond {
		t.Error("slept for less than was asked")
	}
}

func TestPacerRefusesRates(t *testing.T) {
	nan := 0.0
	for _, rate := range []float64{0, -1, 2e9, nan / nan} {
		if _, err := NewPacer(RealClock{}, rate); err == nil {
			t.Errorf("a pacer of %v messages a second was made", rate)
		}
	}
}
