package plots

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"kafkalab/results/resultfile"
)

// The paper's drawings: Figure 1 (a cluster), Figure 2 (a log) and Figure 3
// (clusters and mirrors), made from what was read of live ones. The same folder
// gives the same bytes.

// picture is a drawing that is not a chart.
type picture struct {
	name          string // of the files, without an extension
	title         string
	caption       []string // paragraphs
	width, height float64  // in points
	draw          func(*pen)
}

// pictures are the drawings of a folder: of each cluster one, of the log, and
// of all clusters where there is a mirror between them.
func pictures(t *Topology, l *PartitionLog) []picture {
	var out []picture
	for _, c := range t.Clusters {
		p := clusterPicture(c)
		p.name = "fig1-cluster"
		if len(t.Clusters) > 1 {
			p.name += "-" + fileName(c.Name)
		}
		p.caption = append(p.caption, origin(t.Taken, t.Commit, t.Command, t.Note))
		out = append(out, p)
	}
	if l != nil {
		p := logPicture(l)
		p.name = "fig2-log"
		p.caption = append(p.caption, origin(l.Taken, l.Commit, l.Command, l.Note))
		out = append(out, p)
	}
	if len(t.Clusters) > 1 && len(t.Mirrors) > 0 {
		p := mirrorPicture(t)
		p.name = "fig3-clusters"
		p.caption = append(p.caption, origin(t.Taken, t.Commit, t.Command, t.Note))
		out = append(out, p)
	}
	return out
}

// origin says where a drawing comes from.
func origin(taken time.Time, commit, command, note string) string {
	s := fmt.Sprintf("Read at %s, commit %s, by: %s.", taken.UTC().Format(time.RFC3339), shortCommit(commit), command)
	if note != "" {
		s += " " + note
	}
	return s
}

// fileName makes a cluster's name fit for a file's.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
}

// LiveDrawings reads a folder of drawings and returns them as SVG, to be laid out by
// somebody else.
func LiveDrawings(dir string) ([]Drawing, error) {
	t, l, err := ReadDrawings(dir)
	if err != nil {
		return nil, err
	}
	var out []Drawing
	for _, p := range pictures(t, l) {
		caption := p.caption
		p.caption = nil
		svg, err := p.render("svg", time.Time{})
		if err != nil {
			return nil, fmt.Errorf("drawing %s of %s: %w", p.name, filepath.Base(dir), err)
		}
		out = append(out, Drawing{Name: p.name, Title: p.title, Caption: caption, SVG: svg})
	}
	return out, nil
}

// DrawLive draws a folder of drawings as PNG, SVG and PDF into the folder out,
// which is made if need be, and returns the paths of what it wrote.
func DrawLive(dir, out string) ([]string, error) {
	t, l, err := ReadDrawings(dir)
	if err != nil {
		return nil, err
	}
	var written []string
	for _, p := range pictures(t, l) {
		for _, format := range formats {
			path := filepath.Join(out, p.name+"."+format)
			data, err := p.render(format, t.Taken)
			if err != nil {
				return written, fmt.Errorf("drawing %s: %w", path, err)
			}
			if err := resultfile.ReplaceFile(path, data); err != nil {
				return written, err
			}
			written = append(written, path)
		}
	}
	return written, nil
}

// render draws in one of the formats, with the caption below.
func (p picture) render(format string, date time.Time) ([]byte, error) {
	sty := textStyle(captionSize, softInk, false)
	var caption []string
	for _, paragraph := range p.caption {
		caption = append(caption, wrap(sty, plain(paragraph), vg.Points(p.width-2*margin))...)
	}
	below := 6.0
	if len(caption) > 0 {
		below = margin + 6 + captionLead*float64(len(caption))
	}
	width, height := p.width, p.height+below+headHeight-12
	on := func(c draw.Canvas) {
		q := &pen{c: c, height: height}
		q.fill(rect{0, 0, width, height}, rgb(0xff, 0xff, 0xff))
		q.text(margin, margin+10, textStyle(12, ink, true), plain(p.title))
		q.top = headHeight - 12
		p.draw(q)
		q.top = 0
		for i, line := range caption {
			q.text(margin, height-below+margin+captionLead*float64(i), sty, line)
		}
	}
	w, h := vg.Points(width), vg.Points(height)
	var b bytes.Buffer
	switch format {
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI))
		on(draw.New(c))
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
		return b.Bytes(), err
	case "svg":
		c := vgsvg.New(w, h)
		on(draw.New(c))
		if _, err := c.WriteTo(&b); err != nil {
			return nil, err
		}
		return finishSVG(b.Bytes(), p.title), nil
	case "pdf":
		pdfDate.Lock()
		defer pdfDate.Unlock()
		fpdf.SetDefaultCatalogSort(true)
		fpdf.SetDefaultCreationDate(date.UTC())
		fpdf.SetDefaultModificationDate(date.UTC())
		c := &pdfCanvas{Canvas: vgpdf.New(w, h)}
		on(draw.New(c))
		if c.err != nil {
			return nil, c.err
		}
		_, err := c.WriteTo(&b)
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("drawings are made as %v, not as %q", formats, format)
}
