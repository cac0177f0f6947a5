package plots

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The measures of a figure, in points.
const (
	pageWidth   = 640.0
	margin      = 12.0
	plotHeight  = 300.0 // with tick labels and axis title; more if the legend needs it
	legendWidth = 168.0
	legendGap   = 14.0 // between the axes and the legend, for leaders and marks
	headHeight  = 40.0
	captionSize = 7.6
	captionLead = 10.4
	pngDPI      = 135 // 1200 pixels wide
)

// formats are the kinds of file that a figure is written as.
var formats = []string{"png", "svg", "pdf"}

// render draws a figure in one of the formats. The same figure and date give
// the same bytes. date is what a PDF says of its making: the run's.
func render(f figure, format string, date time.Time) ([]byte, error) {
	layout := newLayout(f)
	w, h := vg.Points(pageWidth), layout.height
	var b bytes.Buffer
	switch format {
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI))
		drawFigure(draw.New(c), f, layout)
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
		return b.Bytes(), err
	case "svg":
		c := vgsvg.New(w, h)
		drawFigure(draw.New(c), f, layout)
		if _, err := c.WriteTo(&b); err != nil {
			return nil, err
		}
		return finishSVG(b.Bytes(), f.title), nil
	case "pdf":
		err := renderPDF(&b, f, layout, date)
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("figures are drawn as %v, not as %q", formats, format)
}

// finishSVG adds a title for readers that see none, and names the fonts of the
// same measures that a machine without Liberation has.
func finishSVG(svg []byte, title string) []byte {
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	head := []byte(`xlink">` + "\n")
	return bytes.Replace(svg, head, append(head, []byte("<title>"+html.EscapeString(title)+"</title>\n")...), 1)
}

// layout is where the parts of a figure stand, measured from the bottom.
type layout struct {
	height  vg.Length
	caption []string // in lines
	plot    vg.Rectangle
	legend  vg.Rectangle
}

func newLayout(f figure) layout {
	var l layout
	sty := textStyle(captionSize, softInk, false)
	for _, paragraph := range f.caption {
		l.caption = append(l.caption, wrap(sty, paragraph, vg.Points(pageWidth-2*margin))...)
	}
	captionHeight := vg.Points(float64(len(l.caption))*captionLead + margin + 6)
	body := max(vg.Points(plotHeight), legendHeight(f))
	l.height = captionHeight + body + vg.Points(headHeight)
	l.plot = vg.Rectangle{
		Min: vg.Point{X: vg.Points(margin), Y: captionHeight},
		Max: vg.Point{X: vg.Points(pageWidth - margin - legendWidth - legendGap), Y: captionHeight + body},
	}
	l.legend = vg.Rectangle{
		Min: vg.Point{X: vg.Points(pageWidth - margin - legendWidth), Y: captionHeight},
		Max: vg.Point{X: vg.Points(pageWidth - margin), Y: captionHeight + body},
	}
	return l
}

func drawFigure(c draw.Canvas, f figure, l layout) {
	c.SetColor(rgb(0xff, 0xff, 0xff))
	c.Fill(c.Rectangle.Path())
	top := l.height - vg.Points(margin)
	c.FillText(textStyle(12, ink, true), vg.Point{X: vg.Points(margin), Y: top - vg.Points(10)}, f.title)
	sub := f.subtitle
	if f.log {
		sub += " (logarithmic)"
	}
	c.FillText(textStyle(8.5, softInk, false), vg.Point{X: vg.Points(margin), Y: top - vg.Points(23)}, sub)

	p := newPlot(f)
	area := draw.Canvas{Canvas: c.Canvas, Rectangle: l.plot}
	p.Draw(area)
	data := p.DataCanvas(area)
	drawLegend(draw.Canvas{Canvas: c.Canvas, Rectangle: l.legend}, f, p, data)

	sty := textStyle(captionSize, softInk, false)
	for i, line := range l.caption {
		y := l.plot.Min.Y - vg.Points(margin+captionLead*float64(i)+3)
		c.FillText(sty, vg.Point{X: vg.Points(margin), Y: y}, line)
	}
}

// newPlot makes the axes with the lines in them.
func newPlot(f figure) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	xMax := f.xMax
	if xMax == 0 {
		xMax = 1
	}
	p.X.Min, p.X.Max = 0, xMax
	p.Y.Min, p.Y.Max = f.yMin, f.yMax
	p.X.Tick.Marker = plot.ConstantTicks(linearTicks(xMax))
	p.Y.Tick.Marker = plot.ConstantTicks(linearTicks(f.yMax))
	if f.log {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = plot.ConstantTicks(logTicks(f.yMin, f.yMax))
	}
	p.X.Label.Text = f.xLabel
	p.X.Label.Padding = vg.Points(4)
	p.X.Label.TextStyle.Font = textStyle(8.5, softInk, false).Font
	p.X.Label.TextStyle.Color = softInk
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Padding = 0
		a.Color = axisInk
		a.Width = vg.Points(0.6)
		a.Tick.Color = axisInk
		a.Tick.Width = vg.Points(0.6)
		a.Tick.Length = vg.Points(4)
		a.Tick.Label.Font = textStyle(8.5, softInk, false).Font
		a.Tick.Label.Color = ink
	}
	p.Y.Width = 0 // the grid says as much
	p.Y.Tick.Length = 0
	p.Add(grid{})
	for _, l := range f.lines {
		if !l.limit && !l.style.faint {
			p.Add(spread{l})
		}
	}
	for i := len(f.lines) - 1; i >= 0; i-- { // limits lowest, the first system on top
		p.Add(trace{f.lines[i], i, len(f.lines)})
	}
	if len(f.lines) == 0 {
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(nil), plot.ConstantTicks(nil)
		p.Add(nothing{})
	}
	return p
}

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
