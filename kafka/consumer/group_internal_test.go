package consumer

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The pauses between tries grow up to the one configured and are never longer:
// TestB12 and the doc of GroupConfig rely on it.
func TestBackoffIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "backoff"))
		tries := rapid.IntRange(1, 100).Draw(t, "tries")
		g := &Group{cfg: GroupConfig{RebalanceBackoff: longest, RebalanceTries: tries}}
		for try := 1; try <= tries; try++ {
			if d := g.backoff(try); d > longest || d < 0 {
				t.Fatalf("pause %v after try %d of %d, longest %v", d, try, tries, longest)
			}
		}
		if d := g.backoff(tries); d < longest/2 {
			t.Fatalf("pause %v after the last try, longest %v", d, longest)
		}
	})
}

// Triggers that come together make one rebalance, and one that comes while a
// rebalance is under way is not forgotten.
func TestTriggersCollapse(t *testing.T) {
	tr := newTriggers()
	for range 100 {
		tr.pull()
	}
	<-tr.wake
	taken := tr.take()
	select {
	case <-tr.wake:
		t.Error("a second rebalance for one burst")
	default:
	}
	if tr.overtaken(taken) {
		t.Error("overtaken by nothing")
	}
	if _, settled := tr.settle(taken); !settled {
		t.Error("not settled")
	}
	<-tr.calm()
	tr.pull()
	taken = tr.take()
	tr.pull()
	if !tr.overtaken(taken) {
		t.Error("not overtaken")
	}
	if _, settled := tr.settle(taken); settled {
		t.Error("settled over a trigger")
	}
	select {
	case <-tr.wake:
	default:
		t.Error("the trigger is forgotten")
	}
	select {
	case <-tr.calm():
		t.Error("calm while there is a trigger")
	default:
	}
}
