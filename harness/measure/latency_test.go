package measure

import (
	"bytes"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func TestLatencies(t *testing.T) {
	var got []resultfile.LatencyInterval
	l := NewLatencies(func(i resultfile.LatencyInterval) { got = append(got, i) })
	cut := func(now time.Duration) {
		t.Helper()
		if err := l.Cut(now); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		l.Record(2*time.Millisecond, time.Millisecond)
	}
	cut(time.Second)
	cut(2 * time.Second) // nothing came
	l.Record(2*time.Hour, -1)
	cut(2500 * time.Millisecond)
	if len(got) != 3 {
		t.Fatalf("%d intervals: %+v", len(got), got)
	}
	for i, want := range []struct {
		tag            string
		start, seconds float64
	}{{resultfile.TagPlanned, 0, 1}, {resultfile.TagSent, 0, 1}, {resultfile.TagPlanned, 2, 0.5}} {
		if got[i].Tag != want.tag || got[i].Start != want.start || got[i].Seconds != want.seconds {
			t.Errorf("interval %d: %s from %v, %v long; want %+v", i, got[i].Tag, got[i].Start, got[i].Seconds, want)
		}
	}
	planned, sent := l.Whole()
	if planned.TotalCount() != 4 || sent.TotalCount() != 3 {
		t.Errorf("%d and %d messages", planned.TotalCount(), sent.TotalCount())
	}
	if most := time.Duration(planned.Max()); most < time.Hour-4*time.Second || most > time.Hour+4*time.Second {
		t.Errorf("longest %v", most)
	}
	// What was reported makes the same histograms when it is read back.
	var b bytes.Buffer
	if err := resultfile.WriteLatency(&b, &resultfile.Latency{Intervals: got}); err != nil {
		t.Fatal(err)
	}
	back, err := resultfile.ReadLatency(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Planned.Equals(planned) || !back.Sent.Equals(sent) {
		t.Error("what is read back is another histogram")
	}
}

func TestLatenciesAllocateNothing(t *testing.T) {
	l := NewLatencies(func(resultfile.LatencyInterval) {})
	if n := testing.AllocsPerRun(1000, func() { l.Record(time.Millisecond, time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

// With tags of its own it records one time for each.
func TestLatenciesOfTags(t *testing.T) {
	var got []resultfile.LatencyInterval
	l := NewLatencies(func(i resultfile.LatencyInterval) { got = append(got, i) }, resultfile.Tiers()...)
	l.RecordAt(0, time.Second)
	l.RecordAt(2, 3*time.Second)
	l.RecordAt(2, -1) // not known
	if err := l.Cut(time.Second); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Tag != resultfile.TagLive || got[1].Tag != resultfile.TagLoad {
		t.Fatalf("%+v", got)
	}
	for tag, want := range []int64{1, 0, 1} {
		if n := l.WholeOf(tag).TotalCount(); n != want {
			t.Errorf("tag %d: %d messages, want %d", tag, n, want)
		}
	}
}
