package plots

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// tick is a place on an axis. Those without a label are thin lines between.
type tick struct {
	at    float64
	label string
}

// axis maps numbers to a length.
type axis struct {
	min, max float64 // 0 < min on a logarithmic one
	log      bool
	ticks    []tick
}

// norm is where a number stands, 0 at the axis's begin and 1 at its end; what
// lies beyond is held to it.
func (a axis) norm(v float64) float64 {
	lo, hi := a.min, a.max
	if a.log {
		if !(v > 0) {
			return 0
		}
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	if !(hi > lo) {
		return 0
	}
	return math.Max(0, math.Min(1, (v-lo)/(hi-lo)))
}

// linearAxis is one from 0, or from below where there are such numbers, that
// holds all of the values with a little room.
func linearAxis(values []float64) axis {
	lo, hi := rangeOf(values)
	switch {
	case hi <= 0 && lo >= 0:
		return axis{max: 1, ticks: []tick{{0, "0"}}}
	case lo < 0: // overheads of stores that shrank
		end := niceCeil(max(hi, -lo) * 1.05)
		a := axis{min: -end, max: end}
		for _, t := range linearTicks(end) {
			a.ticks = append(a.ticks, tick{t.Value, t.Label})
			if t.Value != 0 {
				a.ticks = append(a.ticks, tick{-t.Value, "-" + t.Label})
			}
		}
		slices.SortFunc(a.ticks, func(x, y tick) int { return cmp.Compare(x.at, y.at) })
		return a
	}
	a := axis{max: niceCeil(hi * 1.05)}
	for _, t := range linearTicks(a.max) {
		a.ticks = append(a.ticks, tick{t.Value, fineLabel(t.Value, a.max)})
	}
	return a
}

// fineLabel is number, with as many digits as numbers far below 1 need.
func fineLabel(v, most float64) string {
	if most >= 0.5 || v == 0 {
		return number(v)
	}
	return strconv.FormatFloat(roundTo3(v), 'g', 3, 64)
}

// logAxis is a logarithmic one that holds all of the values above 0.
func logAxis(values []float64) axis {
	lo, hi := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if hi == 0 {
		return axis{min: 1, max: 10, log: true}
	}
	a := axis{log: true}
	a.min, a.max = logBounds(lo*0.95, hi*1.05)
	for _, t := range logTicks(a.min, a.max) {
		label := t.Label
		if label != "" && t.Value < 1 {
			label = strconv.FormatFloat(t.Value, 'g', 2, 64)
		}
		a.ticks = append(a.ticks, tick{t.Value, label})
	}
	return a
}

// placesAxis is the axis of a sweep, whose values alone stand on it if they are
// few.
func placesAxis(xs []float64, log bool) axis {
	if log {
		a := logAxis(xs)
		lo, hi := rangeOf(xs)
		if lo > 0 && hi > lo {
			if room := math.Pow(hi/lo, 0.04); !math.IsInf(hi*room, 1) {
				a.min, a.max = lo/room, hi*room
			}
		}
		var kept []tick
		for _, t := range a.ticks {
			if t.at >= a.min && t.at <= a.max {
				kept = append(kept, t)
			}
		}
		a.ticks = kept
		if len(xs) <= 12 {
			a.ticks = nil
			for _, x := range xs {
				a.ticks = append(a.ticks, tick{x, number(x)})
			}
		}
		return a
	}
	return linearAxis(xs)
}

func rangeOf(values []float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		return 0, 0
	}
	return lo, hi
}

// frame is the area of a panel between its axes.
type frame struct {
	draw.Canvas
	x, y axis
}

func (f frame) at(x, y float64) vg.Point {
	return vg.Point{
		X: f.Min.X + vg.Length(f.x.norm(x))*(f.Max.X-f.Min.X),
		Y: f.Min.Y + vg.Length(f.y.norm(y))*(f.Max.Y-f.Min.Y),
	}
}

// drawGrid draws the lines of both axes' ticks and the foot of the frame.
func (f frame) drawGrid() {
	line := draw.LineStyle{Color: gridInk, Width: vg.Points(0.6)}
	thin := draw.LineStyle{Color: fade(gridInk, 0x90), Width: vg.Points(0.4)}
	for _, t := range f.y.ticks {
		sty := line
		if t.label == "" {
			sty = thin
		}
		y := f.at(f.x.min, t.at).Y
		f.StrokeLine2(sty, f.Min.X, y, f.Max.X, y)
	}
	for _, t := range f.x.ticks {
		sty := line
		if t.label == "" {
			sty = thin
		}
		x := f.at(t.at, f.y.min).X
		f.StrokeLine2(sty, x, f.Min.Y, x, f.Max.Y)
	}
	f.StrokeLine2(draw.LineStyle{Color: axisInk, Width: vg.Points(0.6)}, f.Min.X, f.Min.Y, f.Max.X, f.Min.Y)
}

// drawYLabels writes the vertical axis's numbers, left of the frame. One that
// would touch the one before is left out.
func (f frame) drawYLabels() {
	sty := textStyle(8, ink, false)
	sty.XAlign, sty.YAlign = draw.XRight, draw.YCenter
	last := vg.Length(math.Inf(-1))
	for _, t := range f.y.ticks {
		y := f.at(f.x.min, t.at).Y
		if t.label == "" || y-last < vg.Points(9) && y > last {
			continue
		}
		f.FillText(sty, vg.Point{X: f.Min.X - vg.Points(4), Y: y}, t.label)
		last = y
	}
}

// drawXLabels writes the horizontal axis's numbers, below the frame.
func (f frame) drawXLabels() {
	sty := textStyle(8, ink, false)
	sty.XAlign, sty.YAlign = draw.XCenter, draw.YTop
	end := vg.Length(math.Inf(-1))
	for _, t := range f.x.ticks {
		half := sty.Width(t.label) / 2
		x := f.at(t.at, f.y.min).X
		if t.label == "" || x-half < end+vg.Points(3) {
			continue
		}
		f.FillText(sty, vg.Point{X: x, Y: f.Min.Y - vg.Points(4)}, t.label)
		end = x + half
	}
}
