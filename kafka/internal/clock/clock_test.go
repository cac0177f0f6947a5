package clock

import (
	"testing"
	"time"
)

var start = time.Date(2011, 6, 12, 0, 0, 0, 0, time.UTC)

func fired(t Timer) bool {
	select {
	case <-t.C():
		return true
	default:
		return false
	}
}

func TestManual(t *testing.T) {
	c := NewManual(start)
	early, late := c.NewTimer(time.Second), c.NewTimer(2*time.Second)
	c.Advance(time.Second - 1)
	if fired(early) || fired(late) || !c.Now().Equal(start.Add(time.Second-1)) {
		t.Error("fired before its time")
	}
	c.Advance(1)
	if !fired(early) || fired(late) {
		t.Error("the early one alone is due")
	}
	if early.Stop() || !late.Stop() {
		t.Error("stop reports what was still to come")
	}
	c.Advance(time.Hour)
	if fired(late) {
		t.Error("fired after its stop")
	}
	early.Reset(time.Minute)
	c.Advance(time.Minute)
	early.Reset(time.Minute) // drops the value that nobody took
	if fired(early) {
		t.Error("an old value is left after a reset")
	}
	early.Reset(0)
	if !fired(early) {
		t.Error("a timer of 0 fires at once")
	}
}

// TestStep: putting the clock right is no time that goes by.
func TestStep(t *testing.T) {
	c := NewManual(start)
	timer := c.NewTimer(time.Minute)
	c.Step(time.Hour)
	if fired(timer) || c.Elapsed() != 0 || !c.Now().Equal(start.Add(time.Hour)) {
		t.Error("time has gone by")
	}
	c.Step(-2 * time.Hour)
	c.Advance(time.Minute)
	if !fired(timer) || c.Elapsed() != time.Minute || !c.Now().Equal(start.Add(time.Minute-time.Hour)) {
		t.Errorf("a minute later: %v, elapsed %v", c.Now(), c.Elapsed())
	}
}

func TestWaitTimers(t *testing.T) {
	c := NewManual(start)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-c.NewTimer(time.Second).C()
	}()
	c.WaitTimers(1)
	c.Advance(time.Second)
	<-done
}

func TestReal(t *testing.T) {
	c := Real()
	before, elapsed := time.Now(), c.Elapsed()
	timer := c.NewTimer(time.Hour)
	timer.Reset(time.Microsecond)
	<-timer.C()
	if timer.Stop() || !c.Now().After(before) || c.Elapsed() <= elapsed {
		t.Error("the real clock stands still")
	}
}
