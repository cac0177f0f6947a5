package plots

import (
	"bytes"
	"fmt"
	"html"
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
