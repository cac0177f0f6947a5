package plots

import (
	"math"
	"testing"

	"kafkalab/results/resultfile"
)

// steady makes points at a constant rate, ten a second, that end exactly at n.
func steady(n, perSecond int64) []resultfile.Point {
	points := []resultfile.Point{{}}
	for k := int64(1); ; k++ {
		m := min(n, k*perSecond/10)
		points = append(points, resultfile.Point{Seconds: float64(m) / float64(perSecond), Messages: m, Arrived: m})
		if m == n {
			return points
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

func TestBandsOfASteadySystem(t *testing.T) {
	c := newCurve(steady(1_000_000, 10_000), resultfile.Produce)
	bs := bands([]curve{c}, 200, 200)
	if len(bs) != windows || bs[0].from != 0 || bs[windows-1].to != 200 {
		t.Fatalf("%d windows from %v to %v", len(bs), bs[0].from, bs[len(bs)-1].to)
	}
	for _, b := range bs {
		if !near(b.median, 10_000) || !near(b.min, 10_000) || !near(b.max, 10_000) {
			t.Errorf("from %v MB: %+v", b.from, b)
		}
	}
}

func TestBandsOverRepetitions(t *testing.T) {
	var curves []curve
	for _, perSecond := range []int64{8_000, 10_000, 11_000} {
		curves = append(curves, newCurve(steady(1_000_000, perSecond), resultfile.Consume))
	}
	for _, b := range bands(curves, 200, 200) {
		if !near(b.median, 10_000) || !near(b.min, 8_000) || !near(b.max, 11_000) {
			t.Errorf("%+v", b)
		}
	}
}

// A produce is drawn by what arrived, whatever the client believed to have
// sent (its buffers take everything at once).
func TestProduceIsWhatArrived(t *testing.T) {
	points := steady(100_000, 10_000)
	for i := range points {
		points[i].Messages = 100_000
	}
	for _, b := range bands([]curve{newCurve(points, resultfile.Produce)}, 200, 20) {
		if !near(b.median, 10_000) {
			t.Errorf("%+v", b)
		}
	}
}

// Counts that a busy host gives late, and then two of at once, are spread over
// the time that they were late.
func TestLateCountsMakeNoSpike(t *testing.T) {
	points := steady(100_000, 100_000)
	points = append(points[:5:5], // 40,000 until 0.4 s
		resultfile.Point{Seconds: 0.8, Messages: 80_000, Arrived: 40_000},
		resultfile.Point{Seconds: 0.9, Messages: 90_000, Arrived: 41_000},
		resultfile.Point{Seconds: 0.9001, Messages: 90_000, Arrived: 90_000},
		resultfile.Point{Seconds: 0.99, Messages: 100_000, Arrived: 90_000},
		resultfile.Point{Seconds: 1, Messages: 100_000, Arrived: 99_000},
		resultfile.Point{Seconds: 1.0001, Messages: 100_000, Arrived: 100_000})
	c := newCurve(points, resultfile.Produce)
	if c.messages() != 100_000 {
		t.Errorf("the curve ends at %v messages", c.messages())
	}
	for i := 1; i < len(c.steps); i++ {
		a, b := c.steps[i-1], c.steps[i]
		if rate := (b.messages - a.messages) / (b.seconds - a.seconds); rate > 110_000 {
			t.Errorf("%.0f messages/s from %v to %v", rate, a, b)
		}
	}
}

// A count that came late does not swallow what follows it, however close the
// points are.
func TestALateCountEndsWithItself(t *testing.T) {
	var points []resultfile.Point
	for k := int64(0); k <= 400; k++ { // 25 ms apart, but for a hole of 100 ms
		if k >= 101 && k <= 103 {
			continue
		}
		points = append(points, resultfile.Point{Seconds: float64(k) * 0.025, Messages: k * 100, Arrived: k * 100})
	}
	c := newCurve(points, resultfile.Produce)
	if c.messages() != 40_000 {
		t.Errorf("the curve ends at %v messages", c.messages())
	}
	for i := 1; i < len(c.steps); i++ {
		if a, b := c.steps[i-1], c.steps[i]; a.seconds > 2.7 && b.seconds-a.seconds > 0.08 {
			t.Errorf("a step from %v to %v", a.seconds, b.seconds)
		}
	}
}

// A system that is fast for the rate of the points gets wider windows instead
// of a line that shows when the points were taken.
func TestFewPointsMakeWideWindows(t *testing.T) {
	c := newCurve(steady(1_000_000, 500_000), resultfile.Produce) // 20 points
	bs := bands([]curve{c}, 200, 200)
	if len(bs) > 7 || len(bs) < 5 {
		t.Errorf("%d windows of 20 points", len(bs))
	}
	if bs[0].from != 0 || bs[len(bs)-1].to != 200 {
		t.Errorf("from %v to %v", bs[0].from, bs[len(bs)-1].to)
	}
}

// A stall is in the rate of the window in which it happened; it is no gap,
// because points were taken all the time.
func TestStallLowersTheRate(t *testing.T) {
	points := steady(100_000, 10_000)
	stalled := []resultfile.Point{}
	for _, p := range points {
		if p.Arrived > 50_000 {
			p.Seconds += 5
		}
		stalled = append(stalled, p)
		if p.Arrived == 50_000 {
			for s := 0.1; s <= 5; s += 0.1 {
				q := p
				q.Seconds += s
				stalled = append(stalled, q)
			}
		}
	}
	low := 0
	for _, b := range bands([]curve{newCurve(stalled, resultfile.Produce)}, 200, 20) {
		if !b.known() {
			t.Errorf("a gap at %v MB", b.from)
		}
		if b.median < 5_000 {
			low++
		}
	}
	if low == 0 || low > 2 {
		t.Errorf("%d low windows", low)
	}
}

// TestB23GapsAreGaps: of a series without points for the first 30 %, and with a
// hole later, the axis begins at 0 and what is not known is not drawn (fault B23).
func TestB23GapsAreGaps(t *testing.T) {
	all := steady(1_000_000, 10_000) // 100 s, 1,000 points
	var points []resultfile.Point
	points = append(points, all[300:600]...)
	points = append(points, all[700:]...)
	bs := bands([]curve{newCurve(points, resultfile.Produce)}, 200, 200)
	if bs[0].from != 0 {
		t.Errorf("begins at %v", bs[0].from)
	}
	for _, b := range bs {
		want := b.from >= 60 && b.to <= 120 || b.from >= 140
		if b.known() != want && !(b.from < 60 && b.to > 60) && !(b.from < 120 && b.to > 120) && !(b.from < 140 && b.to > 140) {
			t.Errorf("from %v to %v MB: known %v", b.from, b.to, b.known())
		}
		if b.known() && b.from >= 60 && !near(b.median, 10_000) && b.to <= 118 {
			t.Errorf("%+v", b)
		}
	}
	if n := len(stretches(bs)); n != 2 {
		t.Errorf("%d stretches", n)
	}
}

func TestEmptySeries(t *testing.T) {
	for name, points := range map[string][]resultfile.Point{
		"none": nil, "one at zero": {{}}, "nothing arrived": {{}, {Seconds: 1, Messages: 10}},
	} {
		c := newCurve(points, resultfile.Produce)
		if bs := bands([]curve{c}, 200, 200); len(bs) != 0 {
			t.Errorf("%s: %v", name, bs)
		}
	}
	if bs := bands(nil, 200, 0); bs != nil {
		t.Errorf("no curves: %v", bs)
	}
	// All at one moment: the rate is not known, and nothing divides by zero.
	c := newCurve([]resultfile.Point{{}, {Seconds: 0, Messages: 5, Arrived: 5}}, resultfile.Produce)
	for _, b := range bands([]curve{c}, 200, 0.001) {
		if b.known() {
			t.Errorf("%+v", b)
		}
	}
}

func TestRepetitionsOfDifferentLength(t *testing.T) {
	long := newCurve(steady(1_000_000, 10_000), resultfile.Produce)
	short := newCurve(steady(500_000, 5_000), resultfile.Produce)
	bs := bands([]curve{long, short}, 200, 200)
	if b := bs[10]; !near(b.min, 5_000) || !near(b.max, 10_000) || !near(b.median, 7_500) {
		t.Errorf("both: %+v", b)
	}
	if b := bs[80]; !near(b.min, 10_000) || !near(b.max, 10_000) {
		t.Errorf("the long one alone: %+v", b)
	}
}
