package plots

import (
	"hash/fnv"
	"image/color"
	"math"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"kafkalab/results/resultfile"
)

// The shades of everything that is not a system's line.
var (
	ink      = color.NRGBA{R: 0x1f, G: 0x23, B: 0x28, A: 0xff}
	softInk  = color.NRGBA{R: 0x57, G: 0x60, B: 0x6a, A: 0xff}
	limitInk = color.NRGBA{R: 0x6e, G: 0x77, B: 0x81, A: 0xff}
	gridInk  = color.NRGBA{R: 0xe1, G: 0xe4, B: 0xe8, A: 0xff}
	axisInk  = color.NRGBA{R: 0x8c, G: 0x95, B: 0x9f, A: 0xff}
)

// looks gives each system the same colour, dashes and shape in all figures; its
// second and further lines in a figure take the next of them. The colours are
// the colour-blind-safe ones of Okabe and Ito, dark enough for a white page and
// of different lightness; dashes and shapes tell lines apart in grey print.
var looks = map[string][]style{
	"kafka": {
		{color: rgb(0x00, 0x4c, 0x8c), shape: draw.CircleGlyph{}},
		{color: rgb(0x2b, 0x8c, 0xd6), shape: square{}, dashes: dashed(7, 2.5)},
		{color: rgb(0x6a, 0xb0, 0xe6), shape: open{draw.CircleGlyph{}}, dashes: dashed(8, 2, 1.6, 2, 1.6, 2)},
		{color: rgb(0x3f, 0x55, 0x9f), shape: open{square{}}, dashes: dashed(3, 1.5)},
	},
	"rabbitmq": {
		{color: rgb(0xd5, 0x5e, 0x00), shape: draw.PyramidGlyph{}, dashes: dashed(2.2, 1.8)},
		{color: rgb(0xee, 0x95, 0x45), shape: open{draw.PyramidGlyph{}}, dashes: dashed(1.2, 2.2)},
	},
	"activemq": {
		{color: rgb(0x00, 0x6b, 0x4f), shape: diamond{}, dashes: dashed(8, 2.2, 1.8, 2.2)},
		{color: rgb(0x1f, 0xa8, 0x7f), shape: wedge{}, dashes: dashed(5, 2)},
		{color: rgb(0x7c, 0xcb, 0xb0), shape: open{diamond{}}, dashes: dashed(12, 3)},
	},
	"nats": {
		{color: rgb(0x7d, 0x2a, 0x9c), shape: open{wedge{}}, dashes: dashed(9, 2.5)},
		{color: rgb(0xb8, 0x84, 0xd0), shape: draw.PlusGlyph{}, dashes: dashed(4, 1.6)},
	},
}

// otherLooks are for systems without a look of their own, in their order.
var otherLooks = []style{
	{color: rgb(0x9b, 0x3f, 0x7f), shape: open{wedge{}}, dashes: dashed(10, 2)},
	{color: rgb(0x8a, 0x6d, 0x00), shape: draw.CrossGlyph{}, dashes: dashed(6, 2, 2, 2)},
	{color: rgb(0x4b, 0x4f, 0x9e), shape: draw.PlusGlyph{}, dashes: dashed(3, 3)},
	{color: rgb(0x7a, 0x3b, 0x1d), shape: open{draw.CircleGlyph{}}, dashes: dashed(1.2, 1.6)},
}

// limitDashes are for the lines of physical limits.
var limitDashes = [][]vg.Length{dashed(3, 3), dashed(1, 3), dashed(6, 4)}

// style is how a line looks.
type style struct {
	color  color.NRGBA
	dashes []vg.Length
	shape  draw.GlyphDrawer
	width  vg.Length
	faint  bool // no band, no marks
}

// furtherShapes and furtherDashes are for systems beyond those that have looks:
// their numbers have no common divisor, so that all pairs of them come up.
var (
	furtherShapes = []draw.GlyphDrawer{draw.RingGlyph{}, draw.CrossGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}}
	furtherDashes = [][]vg.Length{
		dashed(5, 1), dashed(1, 1), dashed(9, 1.5, 2, 1.5), dashed(4, 4), dashed(2, 1, 6, 1), dashed(14, 2),
	}
)

// furtherLook makes the look of the nth system of a figure for which its driver
// has none left: another shade of one, other dashes, another shape.
func furtherLook(of style, n int) style {
	of.shape, of.dashes = furtherShapes[n%len(furtherShapes)], furtherDashes[n%len(furtherDashes)]
	towards, share := 0.0, 0.35
	if n%2 == 1 {
		towards, share = 255, 0.3
	}
	mix := func(c uint8) uint8 { return uint8(math.Round(float64(c)*(1-share) + towards*share)) }
	of.color = rgb(mix(of.color.R), mix(of.color.G), mix(of.color.B))
	return of
}

// places is which look of its driver a system has, by what its ID says beside
// the driver's name, so that it does not change with the systems beside it. Those
// that have none here begin at a place that follows from the ID.
var places = map[string]int{
	"": 0, "b50": 0, "b1": 1, "b1-plain": 2, "receipt": 1, "best": 1, "noack": 1, "none": 1, "plain": 9,
	"activemq-best": 2,
}

// ownLook is the look of a system among those of its driver, unless others have
// them all; it is taken then.
func ownLook(of []style, y resultfile.System, taken map[int]bool) (look style, free bool) {
	place, known := places[y.ID]
	if !known {
		place, known = places[strings.TrimPrefix(strings.TrimPrefix(y.ID, y.Driver), "-")]
	}
	if !known {
		h := fnv.New32a()
		h.Write([]byte(y.ID))
		place = int(h.Sum32() % uint32(len(of)))
	}
	if place >= len(of) {
		return style{}, false
	}
	for range of {
		if !taken[place] {
			taken[place] = true
			return of[place], true
		}
		place = (place + 1) % len(of)
	}
	return style{}, false
}

// stylesOf gives every system of a scenario its look, which does not depend
// on which of them are drawn together.
func stylesOf(s resultfile.Scenario) map[string]style {
	styles := make(map[string]style)
	used := make(map[string]int)           // further looks by driver; "" counts drivers without looks
	taken := make(map[string]map[int]bool) // the looks that a driver's systems have
	for _, role := range []string{resultfile.RoleSystem, resultfile.RoleAlso, resultfile.RoleExtra, resultfile.RoleLimit} {
		for _, y := range s.Systems {
			if y.Role != role {
				continue
			}
			kind, of := y.Driver, looks[y.Driver]
			switch {
			case role == resultfile.RoleLimit:
				dashes := limitDashes[used["limit"]%len(limitDashes)]
				styles[y.ID] = style{color: limitInk, dashes: dashes, width: vg.Points(1.1)}
				used["limit"]++
				continue
			case of == nil:
				kind, of = "", otherLooks
			}
			if taken[kind] == nil {
				taken[kind] = make(map[int]bool)
			}
			st, free := ownLook(of, y, taken[kind])
			if !free {
				st = furtherLook(of[used[kind]%len(of)], used["further"])
				used["further"]++
				used[kind]++
			}
			st.width = vg.Points(1.7)
			styles[y.ID] = st
		}
	}
	return styles
}

func dashed(points ...float64) []vg.Length {
	var out []vg.Length
	for _, p := range points {
		out = append(out, vg.Points(p))
	}
	return out
}

func rgb(r, g, b uint8) color.NRGBA { return color.NRGBA{R: r, G: g, B: b, A: 0xff} }

// fade makes a colour translucent.
func fade(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// textStyle is the style of text in the figures' one typeface.
func textStyle(size float64, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	return text.Style{Color: c, Font: f, XAlign: draw.XLeft, YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
}

// wedge is a triangle on its corner.
type wedge struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (wedge) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius
	var p vg.Path
	p.Move(vg.Point{X: pt.X, Y: pt.Y - r})
	p.Line(vg.Point{X: pt.X + r*0.95, Y: pt.Y + r*0.65})
	p.Line(vg.Point{X: pt.X - r*0.95, Y: pt.Y + r*0.65})
	p.Close()
	c.SetColor(sty.Color)
	c.Fill(p)
}

// diamond is a square on its corner.
type diamond struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamond) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 1.25
	var p vg.Path
	p.Move(vg.Point{X: pt.X, Y: pt.Y + r})
	p.Line(vg.Point{X: pt.X + r, Y: pt.Y})
	p.Line(vg.Point{X: pt.X, Y: pt.Y - r})
	p.Line(vg.Point{X: pt.X - r, Y: pt.Y})
	p.Close()
	c.SetColor(sty.Color)
	c.Fill(p)
}

// square is a filled square.
type square struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (square) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 0.88
	c.SetColor(sty.Color)
	c.Fill(vg.Rectangle{Min: vg.Point{X: pt.X - r, Y: pt.Y - r}, Max: vg.Point{X: pt.X + r, Y: pt.Y + r}}.Path())
}

// open is a shape with a white middle, which hides the line below it.
type open struct{ shape draw.GlyphDrawer }

// DrawGlyph implements draw.GlyphDrawer.
func (o open) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	o.shape.DrawGlyph(c, sty, pt)
	sty.Color, sty.Radius = color.White, sty.Radius*0.55
	o.shape.DrawGlyph(c, sty, pt)
}

// plain writes text in ASCII and the µ of µs, the letters that all three formats
// and their fonts share.
func plain(s string) string {
	s = plainer.Replace(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case (r < 0x20 || r > 0x7e) && r != 'µ':
			return '?'
		}
		return r
	}, s)
}

var plainer = strings.NewReplacer(
	"–", "-", "—", "-", "−", "-", "…", "...", "×", "x", "·", "-", "μ", "µ",
	"“", `"`, "”", `"`, "„", `"`, "’", "'", "‘", "'", "\u00a0", " ", "\u202f", " ", "≥", ">=", "≤", "<=", "→", "->",
	"ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "é", "e", "®", "(R)", "™", "(TM)",
)

// wrap breaks text into lines that are no wider than width; a word that is
// wider stands alone.
func wrap(sty text.Style, s string, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		longer := word
		if line != "" {
			longer = line + " " + word
		}
		if line != "" && sty.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
