package plots

import (
	"cmp"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"kafkalab/results/paper"
)

// The measures of the legend, in points.
const (
	legendSize = 8.4
	legendLead = 10.6
	entryGap   = 5.0
	thumbWidth = 26.0
	thumbGap   = 6.0
	markRoom   = 9.0 // beside the axes for the paper's marks, which leaders do not cross
)

// entry is one system in the legend, beside the end of its line.
type entry struct {
	rows   []row
	style  style
	limit  bool
	absent bool
	value  float64 // the rate at which it wants to stand
	leader bool    // the line reaches the right edge
}

type row struct {
	text string
	bold bool
}

func (e entry) height() vg.Length { return vg.Points(float64(len(e.rows)) * legendLead) }

// entries returns the legend in its order: lines from the fastest down, then
// what has no line.
func entries(f figure) []entry {
	width := vg.Points(legendWidth - thumbWidth - thumbGap)
	var lines, absent []entry
	for _, l := range f.lines {
		e := entry{style: l.style, limit: l.limit, value: l.rate, leader: l.limit || l.reaches(f.xMax)}
		e.add(l.label, !l.limit && !l.style.faint, width)
		text := number(roundTo3(l.rate)) + " /s"
		if l.note != "" {
			text += ", " + l.note
		}
		e.add(text, false, width)
		if !l.limit {
			for _, b := range l.bands {
				if b.known() {
					e.value = b.median
				}
			}
		}
		lines = append(lines, e)
	}
	slices.SortStableFunc(lines, func(a, b entry) int { return cmp.Compare(b.value, a.value) })
	for _, a := range f.absent {
		e := entry{style: a.style, absent: true}
		e.add(a.label, true, width)
		e.add(a.reason, false, width)
		if len(e.rows) > 4 { // the table has it in full
			e.rows = e.rows[:4]
			e.rows[3].text += " ..."
		}
		absent = append(absent, e)
	}
	return append(lines, absent...)
}

func (e *entry) add(text string, bold bool, width vg.Length) {
	for _, line := range wrap(textStyle(legendSize, ink, bold), text, width) {
		e.rows = append(e.rows, row{line, bold})
	}
}

func (l line) reaches(xMax float64) bool {
	return len(l.bands) > 0 && l.bands[len(l.bands)-1].known() && l.bands[len(l.bands)-1].to >= 0.98*xMax
}

func legendHeight(f figure) vg.Length {
	h := vg.Length(0)
	for _, e := range entries(f) {
		h += e.height() + vg.Points(entryGap)
	}
	return h + vg.Points(float64(len(markRows(f)))*legendLead+entryGap)
}

// markRows is the note on the paper's own rates.
func markRows(f figure) []row {
	if len(f.marks) == 0 {
		return nil
	}
	rows := []row{{text: "The paper, 2011:"}}
	for _, m := range f.marks {
		rows = append(rows, row{text: m.Label + ": " + number(m.Rate) + " /s"})
	}
	return rows
}

// drawLegend writes each system's name beside the end of its line; c is the
// legend's column and data the area of the axes.
func drawLegend(c draw.Canvas, f figure, p *plot.Plot, data draw.Canvas) {
	es := entries(f)
	notes := markRows(f)
	floor := c.Min.Y + vg.Points(float64(len(notes))*legendLead+entryGap)
	for i, top := range settle(es, p, data, c.Max.Y, floor) {
		drawEntry(c, es[i], top, p, data)
	}
	sty := textStyle(legendSize, softInk, false)
	x := c.Min.X + vg.Points(thumbWidth+thumbGap)
	for i, r := range notes {
		c.FillText(sty, vg.Point{X: x, Y: c.Min.Y + vg.Points(float64(len(notes)-1-i)*legendLead+2)}, r.text)
	}
	for i, m := range f.marks {
		ink := markInk(f, m)
		drawMark(c, ink, vg.Point{X: x - vg.Points(thumbGap+6), Y: c.Min.Y + vg.Points(float64(len(f.marks)-1-i)*legendLead+5)})
		if m.Rate >= f.yMin && m.Rate <= f.yMax {
			drawMark(c, ink, vg.Point{X: data.Max.X + vg.Points(1), Y: yOf(data, p, m.Rate)})
		}
	}
}

// markInk is the colour of the system that a rate of the paper belongs to: the
// mark may stand at the end of another one's line.
func markInk(f figure, m paper.Mark) color.Color {
	for _, l := range f.lines {
		if l.label == plain(m.Label) {
			return l.style.color
		}
	}
	return limitInk
}

// drawMark draws a small triangle that points left to pt.
func drawMark(c draw.Canvas, ink color.Color, pt vg.Point) {
	var t vg.Path
	t.Move(pt)
	t.Line(vg.Point{X: pt.X + vg.Points(6), Y: pt.Y + vg.Points(3)})
	t.Line(vg.Point{X: pt.X + vg.Points(6), Y: pt.Y - vg.Points(3)})
	t.Close()
	c.SetColor(ink)
	c.Fill(t)
}

// settle returns the top of each entry: as near to its line as the others and
// the column's ends allow, in order, none over another.
func settle(es []entry, p *plot.Plot, data draw.Canvas, top, bottom vg.Length) []vg.Length {
	tops := make([]vg.Length, len(es))
	next := top
	for i, e := range es {
		want := bottom // what has no line goes to the bottom
		if !e.absent {
			want = yOf(data, p, e.value) + vg.Points(legendLead)
		}
		tops[i] = min(next, want)
		next = tops[i] - e.height() - vg.Points(entryGap)
	}
	low := bottom
	for i := len(es) - 1; i >= 0; i-- {
		tops[i] = max(tops[i], low+es[i].height())
		low = tops[i] + vg.Points(entryGap)
	}
	return tops
}

func drawEntry(c draw.Canvas, e entry, top vg.Length, p *plot.Plot, data draw.Canvas) {
	y := top - vg.Points(legendLead/2) // middle of the first row
	left, right := c.Min.X, c.Min.X+vg.Points(thumbWidth)
	lineStyle := draw.LineStyle{Color: e.style.color, Width: e.style.width, Dashes: e.style.dashes}
	if e.leader {
		end := vg.Point{X: data.Max.X, Y: yOf(data, p, e.value)}
		elbow := vg.Point{X: left - vg.Points(2), Y: y}
		c.StrokeLines(draw.LineStyle{Color: fade(e.style.color, 0x90), Width: vg.Points(0.5)}, []vg.Point{end, {X: end.X + vg.Points(markRoom), Y: end.Y}, elbow})
	}
	if e.absent {
		lineStyle.Color = fade(e.style.color, 0x60)
	}
	c.StrokeLine2(lineStyle, left, y, right, y)
	if !e.limit && !e.style.faint {
		g := glyph(e.style)
		g.Color = lineStyle.Color
		c.DrawGlyphNoClip(g, vg.Point{X: (left + right) / 2, Y: y})
	}
	for i, r := range e.rows {
		sty := textStyle(legendSize, softInk, r.bold)
		if r.bold {
			sty.Color = ink
		}
		c.FillText(sty, vg.Point{X: right + vg.Points(thumbGap), Y: top - vg.Points(float64(i+1)*legendLead-2.6)}, r.text)
	}
}
