package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// key is an entry of a board's legend.
type key struct {
	style  style
	label  string
	notes  []string
	kind   trailKind
	absent bool // it has no line: the notes say why
}

// rows are the lines of text of an entry.
func (k key) rows() []row {
	width := vg.Points(legendWidth - thumbWidth - thumbGap)
	bold := k.kind == strongTrail
	e := entry{}
	e.add(plain(k.label), bold, width)
	for _, n := range k.notes {
		e.add(plain(n), false, width)
	}
	if k.absent && len(e.rows) > 5 { // the table has it in full
		e.rows = e.rows[:5]
		e.rows[4].text += " ..."
	}
	return e.rows
}

func keysHeight(keys []key) vg.Length {
	h := vg.Length(0)
	for _, k := range keys {
		h += vg.Points(float64(len(k.rows()))*legendLead + entryGap)
	}
	return h
}

// drawKeys writes the legend from the top of its column down.
func drawKeys(c draw.Canvas, keys []key) {
	top := c.Max.Y
	for _, k := range keys {
		rows := k.rows()
		y := top - vg.Points(legendLead/2)
		left, right := c.Min.X, c.Min.X+vg.Points(thumbWidth)
		sty := draw.LineStyle{Color: k.style.color, Width: k.style.width, Dashes: k.style.dashes}
		if k.kind == thinTrail {
			sty.Color, sty.Width = fade(k.style.color, 0x88), vg.Points(0.7)
		}
		if k.absent {
			sty.Color = fade(k.style.color, 0x60)
		}
		c.StrokeLine2(sty, left, y, right, y)
		if k.kind == strongTrail && k.style.shape != nil {
			g := glyph(k.style)
			if k.absent {
				g.Color = sty.Color
			}
			c.DrawGlyphNoClip(g, vg.Point{X: (left + right) / 2, Y: y})
		}
		for i, r := range rows {
			text := textStyle(legendSize, softInk, r.bold)
			if r.bold {
				text.Color = ink
			}
			c.FillText(text, vg.Point{X: right + vg.Points(thumbGap), Y: top - vg.Points(float64(i+1)*legendLead-2.6)}, r.text)
		}
		top -= vg.Points(float64(len(rows))*legendLead + entryGap)
	}
}
