package plots

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"kafkalab/results/resultfile"
)

// The measures of a stack's key, in points.
const partKeysHeight = 24.0

// partQuantities are the parts of the disk space that a message takes.
var partQuantities = []Quantity{LogBytes, IndexBytes, JournalBytes, MetadataBytes, OtherBytes}

// storeParts are what a stack is made of, from the left. The payload lies in
// the log, in the journal of a system that has no log, or in the index of one
// that keeps small messages there (RabbitMQ's classic queues); what a message of
// the system's own format has beyond it is the header, where that is known byte
// by byte. Their colours are greys and others that no system has.
var storeParts = []struct {
	name string
	fill pattern
}{
	{"payload", pattern{color: rgb(0xd9, 0xdd, 0xe2)}},
	{"header", pattern{color: rgb(0x6a, 0x72, 0x7c)}},
	{"log, beyond payload and header", pattern{color: rgb(0xb4, 0xba, 0xc2), lines: 1}},
	{"index", pattern{color: rgb(0xf2, 0xd6, 0x49), lines: 2}},
	{"journal, beyond payload and header", pattern{color: rgb(0xf0, 0xbf, 0xcc), lines: 3}},
	{"metadata", pattern{color: rgb(0x24, 0x29, 0x2f)}},
	{"other", pattern{color: rgb(0xff, 0xff, 0xff), lines: 4}},
}

// splitOf splits the disk space of a message of a system into storeParts, by
// the medians over its repetitions; nil if nothing of it is known.
func splitOf(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) []float64 {
	part := make([]float64, len(partQuantities))
	known := false
	for i, q := range partQuantities {
		if sum := Summarise(q.valuesIn(r, s, y)); sum.N > 0 {
			part[i], known = max(sum.Median, 0), true
		}
	}
	if !known {
		return nil
	}
	log, index, journal, metadata, other := part[0], part[1], part[2], part[3], part[4]
	payload := float64(payloadOf(s, y.ID))
	home := homeOf(payload, &log, &journal, &index, &other)
	payload = min(payload, *home)
	*home -= payload
	header := 0.0
	if format := summaryOf(validAttempts(r, s, y), formatBytes); format.N > 0 {
		header = min(max(format.Median-payload, 0), *home)
		*home -= header
	}
	return []float64{payload, header, log, index, journal, metadata, other}
}

// homeOf is the first of the parts in which the payload has room, or else the
// largest of them.
func homeOf(payload float64, parts ...*float64) *float64 {
	largest := parts[0]
	for _, p := range parts {
		if *p >= payload {
			return p
		}
		if *p > *largest {
			largest = p
		}
	}
	return largest
}

// splitColumn is the column of stacks; nil if no system says what its files are.
func splitColumn(r *resultfile.Result, s resultfile.Scenario, systems []resultfile.System) *barColumn {
	c := barColumn{title: "Disk space, split (B/message)", parts: true}
	any := false
	var totals []float64
	for _, y := range systems {
		parts := splitOf(r, s, y)
		if parts == nil {
			c.bars = append(c.bars, bar{})
			continue
		}
		any = true
		sum := 0.0
		for _, p := range parts {
			sum += p
		}
		totals = append(totals, sum)
		c.bars = append(c.bars, bar{known: true, median: sum, low: sum, high: sum, text: short(sum), parts: parts})
	}
	if !any {
		return nil
	}
	c.axis = linearAxis(totals)
	return &c
}

// drawStack draws the parts of one bar.
func drawStack(f frame, parts []float64, mid vg.Length) {
	from := 0.0
	for i, p := range parts {
		if !(p > 0) {
			continue
		}
		box := vg.Rectangle{
			Min: vg.Point{X: f.at(from, 0).X, Y: mid - vg.Points(barHeight/2)}, Max: vg.Point{X: f.at(from+p, 0).X, Y: mid + vg.Points(barHeight/2)},
		}
		storeParts[i].fill.draw(f.Canvas, box)
		from += p
	}
}

// drawPartKeys names the parts that some system has, below the columns.
func drawPartKeys(c draw.Canvas, at vg.Point, column barColumn) {
	sty := textStyle(8, softInk, false)
	x, y := at.X, at.Y-vg.Points(8)
	for i, p := range storeParts {
		if !slices.ContainsFunc(column.bars, func(b bar) bool { return b.known && b.parts[i] > 0 }) {
			continue
		}
		width := vg.Points(15) + sty.Width(p.name) + vg.Points(10)
		if x+width > c.Max.X && x > at.X {
			x, y = at.X, y-vg.Points(11)
		}
		p.fill.draw(c, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + vg.Points(11), Y: y + vg.Points(7)}})
		c.FillText(sty, vg.Point{X: x + vg.Points(15), Y: y}, p.name)
		x += width
	}
}

// pattern is how an area is filled, to be told from the others in grey too.
type pattern struct {
	color color.NRGBA
	lines int // 0 none, 1 rising, 2 falling, 3 upright, 4 both ways
}

func (p pattern) draw(c draw.Canvas, box vg.Rectangle) {
	c.SetColor(p.color)
	c.Fill(box.Path())
	ink := draw.LineStyle{Color: color.NRGBA{R: 0x1f, G: 0x23, B: 0x28, A: 0xff}, Width: vg.Points(0.5)}
	const step = 4.0
	height := box.Max.Y - box.Min.Y
	if p.lines == 3 {
		for x := box.Min.X + vg.Points(step/2); x < box.Max.X; x += vg.Points(step) {
			c.StrokeLine2(ink, x, box.Min.Y, x, box.Max.Y)
		}
	}
	if p.lines == 1 || p.lines == 4 {
		hatch(c, ink, box, height)
	}
	if p.lines == 2 || p.lines == 4 {
		hatch(c, ink, box, -height)
	}
	path := box.Path()
	c.SetLineStyle(draw.LineStyle{Color: axisInk, Width: vg.Points(0.4)})
	c.Stroke(path)
}

// hatch draws slanted lines that rise (or fall, where rise is below 0) over the
// height of a box, cut at its sides.
func hatch(c draw.Canvas, ink draw.LineStyle, box vg.Rectangle, rise vg.Length) {
	height := box.Max.Y - box.Min.Y
	for x := box.Min.X - height; x < box.Max.X; x += vg.Points(4) {
		x0, x1 := x, x+height
		if x1 <= box.Min.X {
			continue
		}
		from, to := max(x0, box.Min.X), min(x1, box.Max.X)
		yAt := func(at vg.Length) vg.Length {
			if rise > 0 {
				return box.Min.Y + (at - x0)
			}
			return box.Max.Y - (at - x0)
		}
		if math.Abs(float64(to-from)) > 0.1 {
			c.StrokeLine2(ink, from, yAt(from), to, yAt(to))
		}
	}
}
