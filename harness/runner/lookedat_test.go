package runner

import (
	"testing"
	"time"
)

// A machine that stands still for long is no stall: of the time between two looks
// only so much counts. What is looked at as often as it should counts whole.
func TestLookedAt(t *testing.T) {
	var l lookedAt
	for range 100 {
		l.until(l.last + watchEvery)
	}
	if l.sum != 100*watchEvery {
		t.Errorf("%v counts of %v", l.sum, 100*watchEvery)
	}
	if at := l.until(l.last + time.Hour); at != 100*watchEvery+lookMost {
		t.Errorf("behind an hour without a look %v counts", at)
	}
	s := standing{what: "the sending"}
	var still lookedAt
	for now := watchEvery; now <= 5*time.Second; now += watchEvery {
		if err := s.check(still.until(now), 10*time.Second, 7, true); err != nil {
			t.Fatalf("after %v: %v", now, err)
		}
	}
	if err := s.check(still.until(time.Minute), 10*time.Second, 7, true); err != nil {
		t.Errorf("the machine stood still: %v", err)
	}
	var stalled error
	for now := time.Minute + watchEvery; stalled == nil && now <= 2*time.Minute; now += watchEvery {
		stalled = s.check(still.until(now), 10*time.Second, 7, true)
	}
	if stalled == nil {
		t.Error("what stands for a minute is no stall")
	}
}
