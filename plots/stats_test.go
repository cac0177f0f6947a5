package plots

import (
	"math"
	"slices"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func TestSummarise(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	s := Summarise(values)
	if s.N != 5 || s.Median != 3 || s.Min != 1 || s.Max != 5 || s.Low != nil || s.High != nil {
		t.Errorf("five values: %+v", s)
	}
	if !slices.Equal(values, []float64{5, 1, 4, 2, 3}) {
		t.Errorf("the values were changed: %v", values)
	}
	if s := Summarise([]float64{1, 2, 3, 10}); s.Median != 2.5 {
		t.Errorf("median of an even number: %v", s.Median)
	}
	if s := Summarise(nil); s.N != 0 {
		t.Errorf("nothing: %+v", s)
	}
}

// With six measurements, the lowest and the highest bound the median with a
// confidence of 1 - 2/2^6 = 96.9 %; with five it would be 93.8 %.
func TestIntervalNeedsSix(t *testing.T) {
	s := Summarise([]float64{6, 5, 4, 3, 2, 1})
	if s.Low == nil || *s.Low != 1 || *s.High != 6 {
		t.Errorf("six values: %+v", s)
	}
	if s := Summarise([]float64{5, 4, 3, 2, 1}); s.Low != nil {
		t.Errorf("five values have an interval: %v", *s.Low)
	}
	// Of 11, from the second to the ninth: 1 - (1+11)/2^11 - (1+11+55)/2^11 =
	// 96.1 %, the shortest above 95 %.
	if s := Summarise([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}); *s.Low != 2 || *s.High != 9 {
		t.Errorf("eleven values: %v to %v", *s.Low, *s.High)
	}
}

func TestRatio(t *testing.T) {
	r := ratio(Summarise([]float64{80, 100, 110}), Summarise([]float64{10, 20, 25}))
	if r.Median != 5 || r.Min != 80.0/25 || r.Max != 11 {
		t.Errorf("%+v", r)
	}
	if ratio(Summary{}, Summarise([]float64{1})) != nil || ratio(Summarise([]float64{1}), Summarise([]float64{0})) != nil {
		t.Error("a ratio with nothing")
	}
}

// The critical values stand in every table of the Mann-Whitney U test (two
// tails, 5 %).
func TestCriticalValues(t *testing.T) {
	for _, c := range []struct{ n, m, want int }{{6, 6, 5}, {7, 7, 8}, {8, 8, 13}, {10, 10, 23}, {6, 10, 11}, {10, 6, 11}} {
		if got := chanceBelow(c.n, c.m, 0.025); got != c.want {
			t.Errorf("%d and %d: %d, want %d", c.n, c.m, got, c.want)
		}
	}
}

// Runs may have up to 1,000 repetitions, whose orders nobody could count.
func TestCriticalValuesOfManyRepetitions(t *testing.T) {
	// 1000*1000/2 - 1.95996*sqrt(1000*1000*2001/12) - 1/2
	if got := chanceBelow(1000, 1000, 0.025); got != 474_690 {
		t.Errorf("1,000 and 1,000: %d", got)
	}
	// From the last that are counted to the first that are not there is no leap.
	counted, next := chanceBelow(100, 100, 0.025), chanceBelow(101, 100, 0.025)
	if step := next - counted; step < 40 || step > 48 {
		t.Errorf("100 and 100: %d; one more: %d", counted, next)
	}
}

func TestRatioOfHasAnIntervalFromSixOn(t *testing.T) {
	six, twelve := []float64{1, 2, 3, 4, 5, 6}, []float64{12, 14, 16, 18, 20, 22}
	r := RatioOf(twelve, six)
	// The sixth of the 36 ratios from either end.
	if r.Low == nil || *r.Low != 3 || *r.High != 12 || r.Min != 2 || r.Max != 22 {
		t.Errorf("%+v, %v to %v", r, *r.Low, *r.High)
	}
	if r := RatioOf(twelve[:5], six); r.Low != nil {
		t.Errorf("five have an interval: %+v", r)
	}
	if RatioOf(nil, six) != nil || RatioOf([]float64{0}, six) != nil {
		t.Error("a ratio with nothing")
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want string
	}{
		{[]float64{1, 2, 3}, []float64{11, 12, 13}, tooFew},
		{[]float64{1, 2, 3, 4}, []float64{11, 12, 13, 14}, "differs"}, // p = 2/70
		{[]float64{1, 12, 3, 14}, []float64{11, 2, 13, 4}, noDifference},
		{[]float64{1, 2}, []float64{3, 4, 5, 6, 7, 8}, tooFew},           // at best 2/28
		{[]float64{1, 2}, []float64{3, 4, 5, 6, 7, 8, 9, 10}, "differs"}, // 2/45
		{nil, []float64{1}, "measured in one only"},
		{nil, nil, "not measured"},
	} {
		if p, got := verdict(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %s (p = %v), want %s", c.a, c.b, got, p, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {7, "7"}, {0.25, "0.25"}, {12.34, "12.3"}, {100.4, "100"}, {999.6, "1,000"}, {1234567, "1,234,567"}, {-1500, "-1,500"}, {math.NaN(), "-"},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
	for _, c := range [][2]float64{{0, 0}, {123456, 123000}, {999.9, 1000}, {0.12349, 0.123}, {7, 7}} {
		if got := roundTo3(c[0]); math.Abs(got-c[1]) > 1e-9 {
			t.Errorf("%v rounds to %v", c[0], got)
		}
	}
}

func TestAxes(t *testing.T) {
	for _, c := range [][2]float64{{617_000, 700_000}, {1, 1}, {1.01, 1.2}, {96, 100}, {0.0031, 0.004}} {
		if got := niceCeil(c[0]); math.Abs(got-c[1]) > c[1]*1e-9 {
			t.Errorf("above %v: %v", c[0], got)
		}
	}
	for _, max := range []float64{1, 1.2, 200, 2000, 25, 700_000, 0.04} {
		ticks := linearTicks(max)
		if n := len(ticks); n < 5 || n > 11 || ticks[0].Value != 0 {
			t.Errorf("0 to %v has %d ticks", max, n)
		}
	}
	for _, c := range [][4]float64{{3800, 600_000, 2000, 1e6}, {1, 1, 1, 2}, {22_000, 31_000, 20_000, 50_000}, {9.9, 10, 5, 10}} {
		if lo, hi := logBounds(c[0], c[1]); math.Abs(lo-c[2]) > 1e-9*lo || math.Abs(hi-c[3]) > 1e-9*hi {
			t.Errorf("%v to %v: %v to %v", c[0], c[1], lo, hi)
		}
	}
	labelled := 0
	for _, tick := range logTicks(2000, 1e6) {
		if tick.Label != "" {
			labelled++
		}
	}
	if labelled != 9 {
		t.Errorf("2,000 to 1,000,000 has %d labels", labelled)
	}
}

// A foreign run may hold any number there is: its axes end all the same.
func TestAxesOfAnyNumbers(t *testing.T) {
	for _, c := range [][2]float64{
		{math.SmallestNonzeroFloat64, 1}, {math.SmallestNonzeroFloat64, math.MaxFloat64}, {1, math.MaxFloat64}, {1, math.Inf(1)}, {math.MaxFloat64, math.Inf(1)},
	} {
		ended := make(chan int, 1)
		go func() {
			lo, hi := logBounds(c[0], c[1])
			ended <- len(logTicks(lo, hi))
		}()
		select {
		case n := <-ended:
			if n > 6000 {
				t.Errorf("%v to %v: %d ticks", c[0], c[1], n)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v to %v: no end of ticks", c[0], c[1])
		}
		if lo, hi := logBounds(c[0], c[1]); !(lo > 0) || math.IsInf(hi, 0) {
			t.Errorf("%v to %v: bounds %v and %v", c[0], c[1], lo, hi)
		}
	}
	for _, values := range [][]float64{{math.SmallestNonzeroFloat64, 1, math.MaxFloat64}, {1, math.MaxFloat64}} {
		for _, a := range []axis{logAxis(values), placesAxis(values, true), placesAxis(values, false), linearAxis(values)} {
			for _, v := range values {
				if at := a.norm(v); !(at >= 0 && at <= 1) {
					t.Errorf("%v of %v stands at %v", v, values, at)
				}
			}
		}
	}
	if r := newCurve([]resultfile.Point{{}, {Seconds: 1e-320, Messages: 5, Arrived: 5}}, resultfile.Produce).rate(0, 5); !math.IsNaN(r) {
		t.Errorf("a rate of %v", r)
	}
}

func TestFactor(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 1230.0 / 302_000: "0.0041", 0.099: "0.099", 0.1: "0.10", 1: "1.00", 12.34: "12.3", 1234: "1,234"} {
		if got := factor(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
