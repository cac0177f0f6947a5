package plots

import (
	"fmt"
	"image/color"
	"io"
	"strings"
	"sync"
	"time"

	"codeberg.org/go-pdf/fpdf"
	stdfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdfDate guards the date of new documents, which the PDF library keeps for
// the whole process.
var pdfDate sync.Mutex

func renderPDF(w io.Writer, f chart, l layout, date time.Time) error {
	pdfDate.Lock()
	defer pdfDate.Unlock()
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(date.UTC())
	fpdf.SetDefaultModificationDate(date.UTC())
	c := &pdfCanvas{Canvas: vgpdf.New(vg.Points(pageWidth), l.height)}
	drawChart(draw.New(c), f, l)
	if c.err != nil {
		return c.err
	}
	_, err := c.WriteTo(w)
	return err
}

// pdfCanvas makes up for two things that vgpdf gets wrong: it darkens
// translucent colours, and it embeds one font only, so that bold text would
// come out in regular letters.
type pdfCanvas struct {
	*vgpdf.Canvas
	err error // the first one; drawing has no errors
}

// SetColor implements vg.Canvas.
func (c *pdfCanvas) SetColor(clr color.Color) { c.Canvas.SetColor(straight{clr}) }

// straight is a colour whose parts are not multiplied by its alpha, which is
// what a PDF holds, though not what color.Color promises.
type straight struct{ color.Color }

// RGBA implements color.Color for vgpdf's use of it.
func (s straight) RGBA() (r, g, b, a uint32) {
	n := color.NRGBA64Model.Convert(s.Color).(color.NRGBA64)
	return uint32(n.R), uint32(n.G), uint32(n.B), uint32(n.A)
}

// FillString implements vg.Canvas. Bold text is drawn as the outlines of its
// letters.
func (c *pdfCanvas) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Weight != stdfont.WeightBold {
		c.Canvas.FillString(f, at, strings.ReplaceAll(text, "µ", "\xb5")) // fonts of a PDF have code page 1252
		return
	}
	var buf sfnt.Buffer
	ppem := fixed.Int26_6(f.Face.UnitsPerEm()) << 6 // font units, so that nothing is rounded
	scale := f.Font.Size / vg.Length(f.Face.UnitsPerEm())
	for _, r := range text {
		glyph, err := f.Face.GlyphIndex(&buf, r)
		if err != nil {
			c.fail(err)
			return
		}
		outline, err := f.Face.LoadGlyph(&buf, glyph, ppem, nil)
		if err != nil {
			c.fail(err)
			return
		}
		if path := outlinePath(outline, at, scale); len(path) > 0 {
			c.Fill(path)
		}
		advance, err := f.Face.GlyphAdvance(&buf, glyph, ppem, stdfont.HintingNone)
		if err != nil {
			c.fail(err)
			return
		}
		at.X += units(advance) * scale
	}
}

func (c *pdfCanvas) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("letters of a bold text: %w", err)
	}
}

// outlinePath places a letter with its origin at a point. The font's y axis
// points down.
func outlinePath(outline sfnt.Segments, origin vg.Point, scale vg.Length) vg.Path {
	place := func(p fixed.Point26_6) vg.Point {
		return vg.Point{X: origin.X + units(p.X)*scale, Y: origin.Y - units(p.Y)*scale}
	}
	var path vg.Path
	for _, s := range outline {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if len(path) > 0 {
				path.Close()
			}
			path.Move(place(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(place(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(place(s.Args[0]), place(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(place(s.Args[0]), place(s.Args[1]), place(s.Args[2]))
		}
	}
	if len(path) > 0 {
		path.Close()
	}
	return path
}

func units(v fixed.Int26_6) vg.Length { return vg.Length(v) / 64 }
