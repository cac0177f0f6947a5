package plots

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// grid draws light lines at the ticks that carry a label.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	sty := draw.LineStyle{Color: gridInk, Width: vg.Points(0.6)}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		y := c.Y(p.Y.Norm(t.Value))
		thin := sty
		if t.IsMinor() {
			thin.Color, thin.Width = fade(gridInk, 0x90), vg.Points(0.4)
		}
		c.StrokeLine2(thin, c.Min.X, y, c.Max.X, y)
	}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		x := c.X(p.X.Norm(t.Value))
		c.StrokeLine2(sty, x, c.Min.Y, x, c.Max.Y)
	}
}

// nothing says that there is no line.
type nothing struct{}

// Plot implements plot.Plotter.
func (nothing) Plot(c draw.Canvas, _ *plot.Plot) {
	sty := textStyle(10, softInk, false)
	sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
	c.FillText(sty, c.Center(), "No system has a valid attempt in this run.")
}

// spread draws the band between the slowest and the fastest repetition.
type spread struct{ line }

// Plot implements plot.Plotter.
func (s spread) Plot(c draw.Canvas, p *plot.Plot) {
	for _, run := range stretches(s.bands) {
		var upper, lower []vg.Point
		differs := false
		for _, at := range outline(run) {
			x := c.X(p.X.Norm(at.x))
			upper = append(upper, vg.Point{X: x, Y: yOf(c, p, at.b.max)})
			lower = append(lower, vg.Point{X: x, Y: yOf(c, p, at.b.min)})
			differs = differs || at.b.max > at.b.min
		}
		if !differs {
			continue
		}
		for i := len(lower) - 1; i >= 0; i-- {
			upper = append(upper, lower[i])
		}
		c.FillPolygon(fade(s.style.color, 0x30), upper)
	}
}

// trace draws a system's line with its marks, or a limit.
type trace struct {
	line
	index, of int // for the places of its marks
}

// Plot implements plot.Plotter.
func (t trace) Plot(c draw.Canvas, p *plot.Plot) {
	sty := draw.LineStyle{Color: t.style.color, Width: t.style.width, Dashes: t.style.dashes}
	if t.limit {
		y := yOf(c, p, t.rate)
		c.StrokeLine2(sty, c.Min.X, y, c.Max.X, y)
		sty = draw.LineStyle{Color: fade(t.style.color, 0x58), Width: vg.Points(0.7)}
	}
	if t.style.faint {
		sty.Color = fade(t.style.color, 0x90)
	}
	for _, run := range stretches(t.bands) {
		var points []vg.Point
		for _, at := range outline(run) {
			if at.x <= p.X.Max {
				points = append(points, vg.Point{X: c.X(p.X.Norm(at.x)), Y: yOf(c, p, at.b.median)})
			}
		}
		c.StrokeLines(sty, points)
	}
	if !t.limit && !t.style.faint {
		t.drawMarks(c, p)
	}
}

// drawMarks puts about seven marks on the line, at other places than those of
// the other lines.
func (t trace) drawMarks(c draw.Canvas, p *plot.Plot) {
	const marks = 7
	spacing := p.X.Max / marks
	next := spacing * (float64(t.index) + 0.5) / float64(t.of)
	for i, b := range t.bands {
		middle := (b.from + b.to) / 2
		short := i == len(t.bands)-1 && next < spacing // a short line has one all the same
		if !b.known() || middle < next && !short {
			continue
		}
		at := vg.Point{X: c.X(p.X.Norm(middle)), Y: yOf(c, p, b.median)}
		c.DrawGlyphNoClip(glyph(t.style), at)
		for next <= middle {
			next += spacing
		}
		next = max(next, spacing)
	}
}

func glyph(s style) draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.color, Radius: vg.Points(3.1), Shape: s.shape}
}

// stretches splits bands where a rate is not known: a gap stays a gap.
func stretches(bands []band) [][]band {
	var out [][]band
	begin := 0
	for i := 0; i <= len(bands); i++ {
		if i < len(bands) && bands[i].known() {
			continue
		}
		if i > begin {
			out = append(out, bands[begin:i])
		}
		begin = i + 1
	}
	return out
}

// place is a band at a point of the x axis.
type place struct {
	x float64 // MB
	b band
}

// outline puts each window's rate at its middle, and the first and the last
// one also at the ends, so that the line covers its data and no more.
func outline(run []band) []place {
	out := []place{{run[0].from, run[0]}}
	for _, b := range run {
		out = append(out, place{(b.from + b.to) / 2, b})
	}
	last := run[len(run)-1]
	return append(out, place{last.to, last})
}

// yOf is the height of a rate, held to the axis.
func yOf(c draw.Canvas, p *plot.Plot, rate float64) vg.Length {
	return c.Y(p.Y.Norm(math.Max(p.Y.Min, math.Min(p.Y.Max, rate))))
}
