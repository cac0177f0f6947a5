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
	legendGap   = 22.0 // between the axes and the legend, for leaders and marks
	headHeight  = 40.0
	captionSize = 7.6
	captionLead = 10.4
	pngDPI      = 135 // 1200 pixels wide
)

// formats are the kinds of file that a figure is written as.
var formats = []string{"png", "svg", "pdf"}

// chart is a figure of any kind that can be drawn.
type chart interface {
	name() string             // its title
	words() []string          // the paragraphs of its caption
	withoutWords() chart      // the same figure without a caption
	arrange() layout          // where its parts stand
	draw(draw.Canvas, layout) // all but the caption
}

// render draws a figure in one of the formats. The same figure and date give
// the same bytes. date is what a PDF says of its making: the run's.
func render(f chart, format string, date time.Time) ([]byte, error) {
	layout := f.arrange()
	w, h := vg.Points(pageWidth), layout.height
	var b bytes.Buffer
	switch format {
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI))
		drawChart(draw.New(c), f, layout)
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
		return b.Bytes(), err
	case "svg":
		c := vgsvg.New(w, h)
		drawChart(draw.New(c), f, layout)
		if _, err := c.WriteTo(&b); err != nil {
			return nil, err
		}
		return finishSVG(b.Bytes(), f.name()), nil
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

// newLayout makes room for a caption, and for a body of at least the height of
// the usual axes.
func newLayout(caption []string, body vg.Length) layout {
	var l layout
	sty := textStyle(captionSize, softInk, false)
	for _, paragraph := range caption {
		l.caption = append(l.caption, wrap(sty, paragraph, vg.Points(pageWidth-2*margin))...)
	}
	captionHeight := vg.Points(float64(len(l.caption))*captionLead + margin + 6)
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

// drawChart draws a figure with its caption on a white page.
func drawChart(c draw.Canvas, f chart, l layout) {
	c.SetColor(rgb(0xff, 0xff, 0xff))
	c.Fill(c.Rectangle.Path())
	f.draw(c, l)
	sty := textStyle(captionSize, softInk, false)
	for i, line := range l.caption {
		y := l.plot.Min.Y - vg.Points(margin+captionLead*float64(i)+3)
		c.FillText(sty, vg.Point{X: vg.Points(margin), Y: y}, line)
	}
}

// drawHead writes what a figure shows, and where it was measured if that was on
// no two machines.
func drawHead(c draw.Canvas, l layout, title, subtitle, mark string) {
	top := l.height - vg.Points(margin)
	c.FillText(textStyle(12, ink, true), vg.Point{X: vg.Points(margin), Y: top - vg.Points(10)}, title)
	c.FillText(textStyle(8.5, softInk, false), vg.Point{X: vg.Points(margin), Y: top - vg.Points(23)}, subtitle)
	if mark != "" {
		sty := textStyle(9, softInk, true)
		sty.XAlign = draw.XRight
		c.FillText(sty, vg.Point{X: vg.Points(pageWidth - margin), Y: top - vg.Points(10)}, mark)
	}
}

func (f figure) name() string        { return f.title }
func (f figure) words() []string     { return f.caption }
func (f figure) withoutWords() chart { f.caption = nil; return f }

func (f figure) arrange() layout {
	return newLayout(f.caption, max(vg.Points(plotHeight), legendHeight(f)))
}

func (f figure) draw(c draw.Canvas, l layout) {
	sub := f.subtitle
	if f.log {
		sub += " (logarithmic)"
	}
	drawHead(c, l, f.title, sub, f.mark)
	p := newPlot(f)
	area := draw.Canvas{Canvas: c.Canvas, Rectangle: l.plot}
	p.Draw(area)
	drawLegend(draw.Canvas{Canvas: c.Canvas, Rectangle: l.legend}, f, p, p.DataCanvas(area))
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
