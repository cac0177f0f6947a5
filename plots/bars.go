package plots

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"kafkalab/results/resultfile"
)

// The measures of bar charts, in points.
const (
	barLabels     = 166.0 // the column of names
	barColumnGap  = 12.0
	barColumnHead = 26.0 // a title of two lines
	barColumnFoot = 20.0 // the axis's numbers
	barBlockGap   = 12.0
	barsAcross    = 3   // columns beside one another
	barHeight     = 9.0 // of the bar itself
	barValue      = 50.0
)

// barChart has a row for each system and a column for each quantity. What does
// not fit beside one another stands below, with the rows again.
type barChart struct {
	title, subtitle string
	mark            string
	rows            []barRow
	columns         []barColumn
	caption         []string
}

// barRow is a system. One without any bar says why in the place of them.
type barRow struct {
	label  []string // in lines
	style  style
	limit  bool
	reason string
}

// barColumn is a quantity, or the parts of one.
type barColumn struct {
	title string
	axis  axis
	bars  []bar // one for each row
	parts bool
	limit bool // the physical limit bounds it
}

// bar is what one system has of a quantity.
type bar struct {
	known             bool
	median, low, high float64
	text              string
	parts             []float64 // in the order of storeParts, in the axis's unit
}

// newBars makes the figure of a bar for each system.
func newBars(r *resultfile.Result, s resultfile.Scenario) barChart {
	b := barChart{
		title: plain(heading(s)), mark: emulatedMark(r.Run.Testbed),
		subtitle: plain(fmt.Sprintf("Bars: median over the repetitions; whiskers: %s", shortSpread(r, s))),
	}
	styles := stylesOf(s)
	var systems []resultfile.System
	for _, limits := range []bool{false, true} {
		for _, y := range s.Systems {
			if limits == (y.Role == resultfile.RoleLimit) {
				systems = append(systems, y)
			}
		}
	}
	sty := textStyle(legendSize, ink, false)
	for _, y := range systems {
		row := barRow{label: wrap(sty, plain(named(y)), vg.Points(barLabels-8)), style: styles[y.ID], limit: y.Role == resultfile.RoleLimit}
		if valid, tried := len(validAttempts(r, s, y)), len(attempts(r, s, y)); valid == 0 {
			row.reason = plain(whyAbsent(r, s, y))
		} else if valid < tried {
			row.label = append(row.label, fmt.Sprintf("(%d of %d attempts valid)", valid, tried))
		}
		b.rows = append(b.rows, row)
	}
	shows := showsOf(s)
	stacked := splitColumn(r, s, systems)
	for _, q := range shows {
		if stacked != nil && (q == StoreBytes || slices.Contains(partQuantities, q)) {
			continue // the stack has it
		}
		c := quantityColumn(r, s, q, systems)
		if slices.Contains(partQuantities, q) && !slices.ContainsFunc(c.bars, func(one bar) bool { return one.known }) {
			continue // parts that no system tells apart
		}
		b.columns = append(b.columns, c)
	}
	lines := fmt.Sprintf(" Bars: median over the repetitions; whiskers: %s", spreadText(r, s))
	if stacked != nil && slices.ContainsFunc(shows, func(q Quantity) bool {
		return q == StoreBytes || q == StoreOverhead || slices.Contains(partQuantities, q)
	}) {
		b.columns = append(b.columns, *stacked)
		lines += "; stacked: what the disk space of a message is taken for, by the files of each system"
	}
	if slices.ContainsFunc(b.rows, func(row barRow) bool { return row.limit }) {
		lines += "; grey: the physical limit, with a dashed line across where it bounds the others"
	}
	b.caption = captionOf(r, s, extrasView, lines+".")
	return b
}

func quantityColumn(r *resultfile.Result, s resultfile.Scenario, q Quantity, systems []resultfile.System) barColumn {
	var sums []Summary
	var values []float64
	for _, y := range systems {
		sum := Summarise(q.valuesIn(r, s, y))
		sums = append(sums, sum)
		if sum.N > 0 {
			low, high := sum.bounds()
			values = append(values, sum.Median, low, high)
		}
	}
	lo, hi := rangeOf(values)
	unit := q.scaleFor(max(hi, -lo))
	var scaled []float64
	for i := range values {
		scaled = append(scaled, values[i]/unit.factor)
	}
	c := barColumn{axis: linearAxis(scaled), limit: q.hasLimit()}
	title := quantities[q].title
	if !containsUnit(title, unit.unit) {
		title += " (" + unit.unit + ")"
	}
	if lo > 0 && hi/lo > logFactor*5 { // bars from 0 would hide the small ones
		c.axis = logAxis(scaled)
		title += ", logarithmic"
	}
	c.title = plain(title)
	for _, sum := range sums {
		one := bar{known: sum.N > 0, median: sum.Median / unit.factor}
		if one.known {
			low, high := sum.bounds()
			one.low, one.high, one.text = low/unit.factor, high/unit.factor, plain(short(sum.Median/unit.factor))
		}
		c.bars = append(c.bars, one)
	}
	return c
}

func (b barChart) name() string        { return b.title }
func (b barChart) words() []string     { return b.caption }
func (b barChart) withoutWords() chart { b.caption = nil; return b }

func (row barRow) height() vg.Length {
	return vg.Points(max(float64(len(row.label))*legendLead+4, barHeight+7))
}

// blocks are the columns that stand beside one another.
func (b barChart) blocks() [][]barColumn { return slices.Collect(slices.Chunk(b.columns, b.across())) }

// across is how many columns stand beside one another: no block is left with
// one alone if it can be helped.
func (b barChart) across() int {
	if len(b.columns) == 4 {
		return 2
	}
	return barsAcross
}

func (b barChart) blockHeight(columns []barColumn) vg.Length {
	h := vg.Points(barColumnHead + barColumnFoot)
	for _, row := range b.rows {
		h += row.height()
	}
	if slices.ContainsFunc(columns, func(c barColumn) bool { return c.parts }) {
		h += vg.Points(partKeysHeight)
	}
	return h
}

func (b barChart) arrange() layout {
	body := vg.Length(0)
	for i, columns := range b.blocks() {
		if i > 0 {
			body += vg.Points(barBlockGap)
		}
		body += b.blockHeight(columns)
	}
	return newLayout(b.caption, max(body, vg.Points(60)))
}

func (b barChart) draw(c draw.Canvas, l layout) {
	drawHead(c, l, b.title, b.subtitle, b.mark)
	top := l.plot.Max.Y
	for _, columns := range b.blocks() {
		area := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: l.plot.Min.X, Y: top - b.blockHeight(columns)}, Max: vg.Point{X: vg.Points(pageWidth - margin), Y: top},
		}}
		b.drawBlock(area, columns)
		top = area.Min.Y - vg.Points(barBlockGap)
	}
}

func (b barChart) drawBlock(c draw.Canvas, columns []barColumn) {
	top := c.Max.Y - vg.Points(barColumnHead)
	y := top
	var middles []vg.Length
	for _, row := range b.rows {
		middles = append(middles, y-row.height()/2)
		sty := textStyle(legendSize, ink, false)
		sty.XAlign = draw.XRight
		for i, text := range row.label {
			at := y - row.height()/2 + vg.Points(legendLead*(float64(len(row.label))/2-float64(i))) - vg.Points(legendLead-2.4)
			c.FillText(sty, vg.Point{X: c.Min.X + vg.Points(barLabels-8), Y: at}, text)
		}
		y -= row.height()
	}
	across := vg.Length(max(len(columns), min(b.across(), len(b.columns))))
	room := c.Max.X - c.Min.X - vg.Points(barLabels)
	width := (room - vg.Points(barColumnGap)*(across-1)) / across
	for i, column := range columns {
		left := c.Min.X + vg.Points(barLabels) + vg.Length(i)*(width+vg.Points(barColumnGap))
		f := frame{Canvas: draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left, Y: y}, Max: vg.Point{X: left + width - vg.Points(barValue), Y: top},
		}}, x: column.axis, y: axis{max: 1}}
		sty := textStyle(8.2, ink, true)
		lines := wrap(sty, column.title, width)
		for j, line := range lines {
			c.FillText(sty, vg.Point{X: left, Y: top + vg.Points(6+10*float64(len(lines)-1-j))}, line)
		}
		f.drawGrid()
		f.drawXLabels()
		b.drawColumn(f, column, middles)
		if column.parts {
			drawPartKeys(c, vg.Point{X: c.Min.X + vg.Points(barLabels), Y: y - vg.Points(barColumnFoot)}, column)
		}
	}
	for i, row := range b.rows {
		if row.reason != "" {
			sty := textStyle(legendSize, softInk, false)
			lines := wrap(sty, row.reason, room)
			writeOver(c, sty, vg.Point{X: c.Min.X + vg.Points(barLabels+3), Y: middles[i] - vg.Points(3)}, lines[0])
		}
	}
}

func (b barChart) drawColumn(f frame, column barColumn, middles []vg.Length) {
	base := f.at(max(column.axis.min, 0), 0).X
	if column.axis.log {
		base = f.Min.X
	}
	type value struct {
		at   vg.Point
		text string
	}
	var values []value // last, over the lines of limits
	for i, one := range column.bars {
		row := b.rows[i]
		mid := middles[i]
		if !one.known {
			if row.reason == "" {
				f.FillText(textStyle(8, softInk, false), vg.Point{X: base + vg.Points(3), Y: mid - vg.Points(3)}, "not known")
			}
			continue
		}
		end := f.at(one.median, 0).X
		box := vg.Rectangle{Min: vg.Point{X: min(base, end), Y: mid - vg.Points(barHeight/2)}, Max: vg.Point{X: max(base, end), Y: mid + vg.Points(barHeight/2)}}
		whisker := row.style
		switch {
		case column.parts:
			drawStack(f, one.parts, mid)
		case row.limit:
			f.SetColor(fade(limitInk, 0x60))
			f.Fill(box.Path())
			if column.limit {
				f.StrokeLine2(draw.LineStyle{Color: limitInk, Width: vg.Points(0.9), Dashes: dashed(3, 3)}, end, f.Min.Y, end, f.Max.Y)
			}
		case column.axis.log: // a bar has no foot there: a point with a thread
			f.StrokeLine2(draw.LineStyle{Color: row.style.color, Width: vg.Points(1.2)}, base, mid, end, mid)
			f.DrawGlyphNoClip(draw.GlyphStyle{Color: row.style.color, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}, vg.Point{X: end, Y: mid})
		default:
			f.SetColor(row.style.color)
			f.Fill(box.Path())
		}
		edge := end
		if one.high > one.low {
			whisker.color = ink
			from, to := f.at(one.low, 0).X, f.at(one.high, 0).X
			drawWhisker(f.Canvas, whisker, vg.Point{X: from, Y: mid}, vg.Point{X: to, Y: mid})
			edge = max(edge, to)
		}
		values = append(values, value{vg.Point{X: edge + vg.Points(5), Y: mid - vg.Points(3)}, one.text})
	}
	for _, v := range values {
		writeOver(f.Canvas, textStyle(8, ink, false), v.at, v.text)
	}
}

// writeOver writes on white, so that lines below do not cross the letters.
func writeOver(c draw.Canvas, sty text.Style, at vg.Point, words string) {
	c.SetColor(color.White)
	c.Fill(vg.Rectangle{Min: vg.Point{X: at.X - vg.Points(1), Y: at.Y - vg.Points(1.5)}, Max: vg.Point{X: at.X + sty.Width(words) + vg.Points(1), Y: at.Y + vg.Points(7)}}.Path())
	c.FillText(sty, at, words)
}
