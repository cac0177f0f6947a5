package plots

import (
	"image/color"
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

// hues gives each system its colour in all figures: the colour-blind-safe ones
// of Okabe and Ito, dark enough for text, of different lightness for grey
// print. The second and further lines of a system take the next shade.
var hues = map[string][]color.NRGBA{
	"kafka":    {rgb(0x00, 0x4c, 0x8c), rgb(0x2b, 0x8c, 0xd6), rgb(0x6a, 0xb0, 0xe6)},
	"rabbitmq": {rgb(0xd5, 0x5e, 0x00), rgb(0xee, 0x95, 0x45)},
	"activemq": {rgb(0x00, 0x6b, 0x4f), rgb(0x1f, 0xa8, 0x7f), rgb(0x7c, 0xcb, 0xb0)},
}

// otherHues are for systems without a colour of their own, in their order.
var otherHues = []color.NRGBA{rgb(0x9b, 0x3f, 0x7f), rgb(0x8a, 0x6d, 0x00), rgb(0x4b, 0x4f, 0x9e), rgb(0x7a, 0x3b, 0x1d)}

// dashes tell lines apart without colour, in the order of the systems.
var dashes = [][]vg.Length{
	nil,
	{vg.Points(7), vg.Points(2.5)},
	{vg.Points(2.2), vg.Points(2)},
	{vg.Points(8), vg.Points(2.2), vg.Points(1.8), vg.Points(2.2)},
	{vg.Points(4), vg.Points(2)},
	{vg.Points(8), vg.Points(2), vg.Points(1.6), vg.Points(2), vg.Points(1.6), vg.Points(2)},
	{vg.Points(1), vg.Points(2.2)},
	{vg.Points(12), vg.Points(3)},
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, diamond{},
	draw.RingGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
}

// limitDashes are for the lines of physical limits.
var limitDashes = [][]vg.Length{
	{vg.Points(3), vg.Points(3)},
	{vg.Points(1), vg.Points(3)},
	{vg.Points(6), vg.Points(4)},
}

// style is how a line looks.
type style struct {
	color  color.NRGBA
	dashes []vg.Length
	shape  draw.GlyphDrawer
	width  vg.Length
	faint  bool // no band, no marks
}

// stylesOf gives every system of a scenario its look, which does not depend
// on which of them are drawn together.
func stylesOf(s resultfile.Scenario) map[string]style {
	styles := make(map[string]style)
	perDriver := make(map[string]int)
	others := make(map[string][]color.NRGBA)
	lines, limits := 0, 0
	for _, role := range []string{resultfile.RoleSystem, resultfile.RoleExtra, resultfile.RoleLimit} {
		for _, y := range s.Systems {
			if y.Role != role {
				continue
			}
			if role == resultfile.RoleLimit {
				styles[y.ID] = style{color: limitInk, dashes: limitDashes[limits%len(limitDashes)], width: vg.Points(1.1)}
				limits++
				continue
			}
			shades := hues[y.Driver]
			if shades == nil {
				if others[y.Driver] == nil {
					others[y.Driver] = otherHues[len(others)%len(otherHues):][:1]
				}
				shades = others[y.Driver]
			}
			styles[y.ID] = style{
				color:  shades[perDriver[y.Driver]%len(shades)],
				dashes: dashes[lines%len(dashes)],
				shape:  shapes[lines%len(shapes)],
				width:  vg.Points(1.7),
			}
			perDriver[y.Driver]++
			lines++
		}
	}
	return styles
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

// plain writes text in ASCII, the one set of letters that all three formats
// and their fonts share.
func plain(s string) string {
	s = plainer.Replace(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < 0x20 || r > 0x7e:
			return '?'
		}
		return r
	}, s)
}

var plainer = strings.NewReplacer(
	"–", "-", "—", "-", "−", "-", "…", "...", "×", "x", "·", "-", "µ", "u", "μ", "u",
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
