package paper

import (
	"testing"

	"kafkalab/results/resultfile"
)

// The greatest of several systems bounds them all; without one of them nothing
// is said.
func TestGreatest(t *testing.T) {
	six := func(v float64) []float64 { return []float64{v, v + 1, v + 2, v + 3, v + 4, v + 5} }
	for _, c := range []struct {
		name              string
		of                [][]float64
		ok, interval      bool
		low, number, high float64
		repetitions       int
	}{
		{"few", [][]float64{{1, 2, 3}, {5, 4}}, true, false, 4, 4.5, 5, 2},
		{"the bounds of different ones", [][]float64{{1, 9, 2}, {4, 5, 6}}, true, false, 4, 5, 9, 3},
		{"with intervals", [][]float64{six(10), six(20)}, true, true, 20, 22.5, 25, 6},
		{"one without", [][]float64{six(10), {20}}, true, false, 20, 20, 20, 1},
		{"one is missing", [][]float64{{1}, nil}, false, false, 0, 0, 0, 0},
	} {
		var f Finding
		if ok := f.takeGreatest(c.of); ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		} else if ok && (f.Number != c.number || f.Low != c.low || f.High != c.high || f.Interval != c.interval || f.Repetitions != c.repetitions) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

// A system that asks for other numbers of messages than its run is held to its
// own, and of several systems the fewest count.
func TestAsked(t *testing.T) {
	r := &resultfile.Result{Run: resultfile.Run{Messages: 1000, Scenarios: []resultfile.Scenario{
		{Name: "other", Systems: []resultfile.System{{ID: "a", Messages: 1}}},
		{Name: "one", Systems: []resultfile.System{{ID: "a"}, {ID: "b", Messages: 70}, {ID: "c", Messages: 5000}}},
	}}}
	for _, c := range []struct {
		check Check
		want  int64
	}{
		{Check{Scenario: "one", System: "a", Statistic: Median}, 1000},
		{Check{Scenario: "one", System: "c", Statistic: Median}, 5000},
		{Check{Scenario: "one", System: "c", Against: "b", Statistic: MedianRatio}, 70},
		{Check{Scenario: "one", Systems: []string{"a", "c"}, Statistic: Greatest}, 1000},
		{Check{Scenario: "one", System: "d", Statistic: Median}, 0},
	} {
		if got := asked(c.check, r); got != c.want {
			t.Errorf("%+v: %d, want %d", c.check, got, c.want)
		}
	}
}

// What stands beside a claim makes no part of its verdict.
func TestBesideDoesNotCount(t *testing.T) {
	check := func(v Verdict, beside bool) JudgedCheck { return JudgedCheck{Check: Check{Beside: beside}, Verdict: v} }
	for _, c := range []struct {
		checks []JudgedCheck
		want   Verdict
	}{
		{[]JudgedCheck{check(Holds, false), check(Contradicted, true)}, Holds},
		{[]JudgedCheck{check(Contradicted, false), check(Holds, true)}, Contradicted},
		{[]JudgedCheck{check(Holds, false), check(NotMeasured, true), check(NotMeasured, false)}, InPart},
	} {
		if got := together(c.checks); got != c.want {
			t.Errorf("%+v: %s, want %s", c.checks, got, c.want)
		}
	}
}
