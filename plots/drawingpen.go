package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// rect is a rectangle of a picture, in points from its upper left corner.
type rect struct{ x, y, w, h float64 }

func (r rect) right() float64  { return r.x + r.w }
func (r rect) bottom() float64 { return r.y + r.h }
func (r rect) middle() float64 { return r.x + r.w/2 }

// spot is a place in a picture.
type spot struct{ x, y float64 }

// pen draws with the origin at the upper left, as one reads.
type pen struct {
	c      draw.Canvas
	height float64
	top    float64 // of the part that is drawn in
}

func (p *pen) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Points(x), Y: vg.Points(p.height - p.top - y)}
}

func (p *pen) path(r rect) vg.Path {
	return vg.Rectangle{Min: p.at(r.x, r.bottom()), Max: p.at(r.right(), r.y)}.Path()
}

func (p *pen) fill(r rect, c color.Color) {
	p.c.SetColor(c)
	p.c.Fill(p.path(r))
}

// frame draws a box.
func (p *pen) frame(r rect, inside, line color.Color, width float64, dashes ...float64) {
	p.fill(r, inside)
	p.c.SetColor(line)
	p.c.SetLineWidth(vg.Points(width))
	p.c.SetLineDash(dashed(dashes...), 0)
	p.c.Stroke(p.path(r))
	p.c.SetLineDash(nil, 0)
}

// text writes with its base line at y.
func (p *pen) text(x, y float64, sty text.Style, s string) {
	sty.XAlign, sty.YAlign = draw.XLeft, draw.YBottom
	p.c.FillText(sty, p.at(x, y), s)
}

// centred writes into the middle of a box, as much as fits.
func (p *pen) centred(r rect, sty text.Style, s string) {
	s = fit(sty, s, r.w-4)
	w := float64(sty.Width(s) / vg.Points(1))
	p.text(r.middle()-w/2, r.y+r.h/2+sizeOf(sty)*0.36, sty, s)
}

// left writes at the left end of a box, as much as fits.
func (p *pen) left(r rect, sty text.Style, s string) {
	p.text(r.x+4, r.y+r.h/2+sizeOf(sty)*0.36, sty, fit(sty, s, r.w-8))
}

func sizeOf(sty text.Style) float64 { return float64(sty.Font.Size / vg.Points(1)) }

// fit shortens a text in its middle until it is no wider than so many points:
// names differ at their ends.
func fit(sty text.Style, s string, width float64) string {
	s = plain(s)
	if sty.Width(s) <= vg.Points(width) {
		return s
	}
	for n := len(s) - 1; n > 0; n-- {
		short := s[:(n+1)/2] + ".." + s[len(s)-n/2:]
		if sty.Width(short) <= vg.Points(width) {
			return short
		}
	}
	return ""
}

// line draws a line through spots.
func (p *pen) line(c color.Color, width float64, dashes []float64, spots ...spot) {
	var path vg.Path
	for i, s := range spots {
		if i == 0 {
			path.Move(p.at(s.x, s.y))
		} else {
			path.Line(p.at(s.x, s.y))
		}
	}
	p.c.SetColor(c)
	p.c.SetLineWidth(vg.Points(width))
	p.c.SetLineDash(dashed(dashes...), 0)
	p.c.Stroke(path)
	p.c.SetLineDash(nil, 0)
}

// arrow draws a line with a head at its last spot.
func (p *pen) arrow(c color.Color, width float64, dashes []float64, spots ...spot) {
	const long, half = 5.5, 2.3
	end, before := spots[len(spots)-1], spots[len(spots)-2]
	d := math.Hypot(end.x-before.x, end.y-before.y)
	if d == 0 {
		return
	}
	ux, uy := (end.x-before.x)/d, (end.y-before.y)/d
	foot := spot{end.x - ux*long, end.y - uy*long}
	shaft := append(append([]spot{}, spots[:len(spots)-1]...), foot)
	p.line(c, width, dashes, shaft...)
	var head vg.Path
	head.Move(p.at(end.x, end.y))
	head.Line(p.at(foot.x-uy*half, foot.y+ux*half))
	head.Line(p.at(foot.x+uy*half, foot.y-ux*half))
	head.Close()
	p.c.SetColor(c)
	p.c.Fill(head)
}

// shares divides a width into n equal boxes with a gap between them.
func shares(x, y, w, h, gap float64, n int) []rect {
	out := make([]rect, n)
	each := (w - gap*float64(n-1)) / float64(n)
	for i := range out {
		out[i] = rect{x + float64(i)*(each+gap), y, each, h}
	}
	return out
}
