package plots

import (
	"math"
	"slices"
	"testing"

	"kafkalab/results/resultfile"
)

// minutely are points every half second, at each minute's own rate.
func minutely(rates ...float64) []resultfile.Point {
	out := []resultfile.Point{{}}
	n := 0.0
	for m, rate := range rates {
		for i := 1; i <= 120; i++ {
			n += rate / 2
			out = append(out, resultfile.Point{Seconds: float64(m)*60 + float64(i)/2, Arrived: int64(n), Messages: int64(2 * n)})
		}
	}
	return out
}

// The first minute and the last are left out, whole or not, and each rate is of
// two counts.
func TestMinuteRates(t *testing.T) {
	even := minutely(100, 200, 300, 400, 500)
	late := func(by float64) []resultfile.Point {
		return append(slices.Clone(even), resultfile.Point{Seconds: 300 + by, Arrived: 1e6, Messages: 1e6})
	}
	shifted := slices.Clone(even) // no point at the ends of minutes
	for i := range shifted[1:] {
		shifted[i+1].Seconds += 0.2
	}
	for _, c := range []struct {
		name   string
		points []resultfile.Point
		work   resultfile.Work
		want   []float64
	}{
		{"whole minutes", even, resultfile.Stream, []float64{200, 300, 400}},
		{"of a consumer", even, resultfile.Consume, []float64{400, 600, 800}},
		{"an end just after", late(0.0003), resultfile.Stream, []float64{200, 300, 400}},
		{"and before", even[:len(even)-1], resultfile.Stream, []float64{200, 300}},
		{"a part of a minute", late(30), resultfile.Stream, []float64{200, 300, 400}},
		{"points that stand elsewhere", shifted, resultfile.Stream, []float64{200, 300, 400}},
		{"points too far apart", late(30.5), resultfile.Stream, nil},
		{"two minutes", even[:241], resultfile.Stream, nil},
		{"nothing", nil, resultfile.Stream, nil},
	} {
		got := minuteRates(c.points, c.work)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What stands still for a while has minutes of nothing, and what is made up for
// later is not more than the plan.
func TestMinutes(t *testing.T) {
	s := resultfile.Scenario{Name: "s", Title: "T", Work: resultfile.Stream, PayloadBytes: 200, Systems: []resultfile.System{{ID: "x", Role: resultfile.RoleSystem}}}
	a := resultfile.Attempt{
		Scenario: "s", System: "x", Repetition: 1, Outcome: resultfile.Valid, Messages: 480 * 100, PayloadBytes: 480 * 100 * 200, Seconds: 480,
		Measures: map[string]float64{"rate_wanted": 100},
	}
	points := minutely(100, 100, 0, 200, 100, 100, 100, 100)
	write := func(repeat int, as ...resultfile.Attempt) *resultfile.Result {
		t.Helper()
		w, err := resultfile.Create(t.TempDir()+"/run", resultfile.Run{Repeat: repeat, Scenarios: []resultfile.Scenario{s}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for _, a := range as {
			a, err := w.Begin(a)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.PutAttempt(a, points, nil); err != nil {
				t.Fatal(err)
			}
		}
		r, err := resultfile.Read(w.Dir())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one := write(1, a)
	for q, want := range map[Quantity][]float64{
		MessageRate: {100, 0, 200, 100, 100, 100}, DataRate: {20_000, 0, 40_000, 20_000, 20_000, 20_000},
		DailyMessages: {8.64e6, 0, 1.728e7, 8.64e6, 8.64e6, 8.64e6}, RateAchieved: {1, 0, 1, 1, 1, 1},
		BrokerCPU: nil,
	} {
		if q.HasMinutes() != (want != nil) {
			t.Errorf("%s has minutes: %v", q, q.HasMinutes())
		}
		if got := Minutes(one, "s", "x", q); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", q, got, want)
		}
	}
	if got := Minutes(one, "s", "y", MessageRate); got != nil {
		t.Errorf("of a system that the run has not: %v", got)
	}
	again := a
	again.Repetition = 2
	failed := again
	failed.Outcome, failed.Reason = resultfile.Failed, "invented"
	for name, r := range map[string]*resultfile.Result{"two repetitions": write(2, a, again), "one of two": write(2, a, failed)} {
		if got := Minutes(r, "s", "x", MessageRate); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	a.Measures = nil
	if got := Minutes(write(1, a), "s", "x", RateAchieved); got != nil {
		t.Errorf("without a plan: %v", got)
	}
}
