package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The measures of boards, in points.
const (
	soloHeight     = 300.0 // of a panel that stands alone
	panelHeight    = 158.0 // of one among two or three
	lowPanelHeight = 108.0 // of one among more
	panelHead      = 15.0  // its title
	panelGap       = 10.0
	yLabelsWidth   = 58.0
	xLabelsRoom    = 30.0 // below the lowest panel: numbers and title
)

// board is a figure of one or several panels above one another, which share
// their horizontal axis, beside one legend.
type board struct {
	title    string
	subtitle string
	mark     string // "emulated", at the head
	xLabel   string
	x        axis
	panels   []panel
	keys     []key
	caption  []string
}

// panel is one quantity over the board's axis.
type panel struct {
	title  string // the quantity with its unit
	y      axis
	curves []trail
	empty  string // said in the middle where nothing was measured
	flat   bool   // every value is 0
}

// trail is one line of a panel.
type trail struct {
	style  style
	points []point
	kind   trailKind
	spread trailSpread
	index  int       // for the places of marks
	shift  vg.Length // to the right, of everything
}

// point is a place on a line with what its repetitions spread over.
type point struct {
	x, y      float64
	low, high float64
	gap       bool // nothing is known between the point before and this one
}

// trailKind is how strongly a line is drawn.
type trailKind int

const (
	strongTrail trailKind = iota
	thinTrail             // a repetition, or a view for comparison
	limitTrail            // a physical limit
	levelTrail            // one level across the whole panel
)

// trailSpread is how the spread of the points is drawn.
type trailSpread int

const (
	noSpread  trailSpread = iota
	whiskers              // at each point, with a mark
	shade                 // as a band, with a few marks
	markedFew             // a few marks and no spread
)

func (b board) name() string        { return b.title }
func (b board) words() []string     { return b.caption }
func (b board) withoutWords() chart { b.caption = nil; return b }

// flatHeight is that of a panel in which every value is 0.
const flatHeight = 26.0

func (b board) heightOf(p panel) vg.Length {
	if p.flat {
		return vg.Points(flatHeight)
	}
	switch n := len(b.panels); {
	case n <= 1:
		return vg.Points(soloHeight)
	case n > 3:
		return vg.Points(lowPanelHeight)
	}
	return vg.Points(panelHeight)
}

func (b board) arrange() layout {
	body := vg.Points(xLabelsRoom - panelGap)
	for _, p := range b.panels {
		body += vg.Points(panelHead) + b.heightOf(p) + vg.Points(panelGap)
	}
	return newLayout(b.caption, max(body, keysHeight(b.keys)))
}

func (b board) draw(c draw.Canvas, l layout) {
	drawHead(c, l, b.title, b.subtitle, b.mark)
	top := l.plot.Max.Y
	left, right := l.plot.Min.X+vg.Points(yLabelsWidth), l.plot.Max.X
	for i, p := range b.panels {
		top -= vg.Points(panelHead)
		f := frame{Canvas: draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left, Y: top - b.heightOf(p)}, Max: vg.Point{X: right, Y: top},
		}}, x: b.x, y: p.y}
		c.FillText(textStyle(8.5, ink, true), vg.Point{X: l.plot.Min.X, Y: top + vg.Points(5)}, p.title)
		p.draw(f)
		if i == len(b.panels)-1 {
			f.drawXLabels()
			sty := textStyle(8.5, softInk, false)
			sty.XAlign, sty.YAlign = draw.XCenter, draw.YTop
			c.FillText(sty, vg.Point{X: (left + right) / 2, Y: f.Min.Y - vg.Points(17)}, b.xLabel)
		}
		top = f.Min.Y - vg.Points(panelGap)
	}
	drawKeys(draw.Canvas{Canvas: c.Canvas, Rectangle: l.legend}, b.keys)
}

func (p panel) draw(f frame) {
	if p.empty != "" {
		f.y.ticks = nil
		f.drawGrid()
		sty := textStyle(9, softInk, false)
		sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
		f.FillText(sty, f.Center(), p.empty)
		return
	}
	f.drawGrid()
	f.drawYLabels()
	for _, t := range p.curves {
		if t.spread == shade {
			t.drawShade(f)
		}
	}
	for _, kind := range []trailKind{levelTrail, limitTrail, thinTrail, strongTrail} {
		for i := len(p.curves) - 1; i >= 0; i-- { // the first system on top
			if p.curves[i].kind == kind {
				p.curves[i].draw(f, len(p.curves))
			}
		}
	}
}

// runs splits the points where nothing is known between two.
func (t trail) runs() [][]point {
	var out [][]point
	begin := 0
	for i := range t.points {
		if t.points[i].gap && i > begin {
			out = append(out, t.points[begin:i])
			begin = i
		}
	}
	if begin < len(t.points) {
		out = append(out, t.points[begin:])
	}
	return out
}

func (t trail) draw(f frame, of int) {
	sty := draw.LineStyle{Color: t.style.color, Width: t.style.width, Dashes: t.style.dashes}
	switch t.kind {
	case levelTrail:
		if len(t.points) > 0 {
			y := f.at(f.x.min, t.points[0].y).Y
			f.StrokeLine2(sty, f.Min.X, y, f.Max.X, y)
		}
		return
	case thinTrail:
		sty.Color, sty.Width = fade(t.style.color, 0x88), vg.Points(0.7)
	}
	place := func(x, y float64) vg.Point {
		at := f.at(x, y)
		at.X += t.shift
		return at
	}
	for _, run := range t.runs() {
		var places []vg.Point
		for _, p := range run {
			places = append(places, place(p.x, p.y))
		}
		f.StrokeLines(sty, places)
	}
	switch t.spread {
	case whiskers:
		for _, p := range t.points {
			if p.high > p.low {
				drawWhisker(f.Canvas, t.style, place(p.x, p.low), place(p.x, p.high))
			}
			if t.kind == strongTrail {
				f.DrawGlyphNoClip(glyph(t.style), place(p.x, p.y))
			}
		}
	case shade, markedFew:
		t.drawFewMarks(f, of)
	}
}

// drawWhisker draws the interval of a point, upright or lying.
func drawWhisker(c draw.Canvas, st style, from, to vg.Point) {
	sty := draw.LineStyle{Color: st.color, Width: vg.Points(0.9)}
	c.StrokeLine2(sty, from.X, from.Y, to.X, to.Y)
	const half = 2.4
	dx, dy := vg.Points(half), vg.Length(0)
	if from.Y == to.Y {
		dx, dy = 0, vg.Points(half)
	}
	for _, end := range []vg.Point{from, to} {
		c.StrokeLine2(sty, end.X-dx, end.Y-dy, end.X+dx, end.Y+dy)
	}
}

func (t trail) drawShade(f frame) {
	for _, run := range t.runs() {
		var outline []vg.Point
		differs := false
		for _, p := range run {
			outline = append(outline, f.at(p.x, p.high))
			differs = differs || p.high > p.low
		}
		for i := len(run) - 1; i >= 0; i-- {
			outline = append(outline, f.at(run[i].x, run[i].low))
		}
		if differs {
			f.FillPolygon(fade(t.style.color, 0x2c), outline)
		}
	}
}

// drawFewMarks puts about six marks on the line, at other places than those of
// the other lines.
func (t trail) drawFewMarks(f frame, of int) {
	const marks = 6
	spacing := 1.0 / marks
	next := spacing * (float64(t.index%of) + 0.5) / float64(of)
	for i, p := range t.points {
		at := f.x.norm(p.x)
		last := i == len(t.points)-1 && next < spacing // a short line has one all the same
		if at < next && !last {
			continue
		}
		f.DrawGlyphNoClip(glyph(t.style), f.at(p.x, p.y))
		for next <= at {
			next += spacing
		}
		next = max(next, spacing)
	}
}
