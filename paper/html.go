package paper

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"

	"kafkalab/plots"
)

//go:embed report.html.tmpl
var pageText string

//go:embed report.css
var pageStyle string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"svg": func(svg []byte) (template.HTML, error) {
		svg, err := inlineSVG(svg)
		return template.HTML(svg), err
	},
	"numbers": numbersTable,
	"words":   wordsTable,
	"folded":  folded,
	"anchor":  func(v Verdict) string { return strings.ReplaceAll(string(v), " ", "-") },
}).Parse(pageText))

// HTML makes the report a page that needs no other file, no network and no
// script.
func (r *Report) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		*Report
		Style          template.CSS
		Method         string
		Emulated       string
		ViewsNote      string
		ArrayNote      string
		DrawnNote      string
		Legend         []string
		DeviationsHTML template.HTML
	}{r, template.CSS(pageStyle), method, emulatedNote, viewsNote, arrayNote, drawnNote, plots.Legend(), markdownHTML(withoutTitle(deviations), 1)})
	return b.Bytes(), err
}

// withoutTitle is a Markdown page without its first heading.
func withoutTitle(page string) string {
	if strings.HasPrefix(page, "# ") {
		_, page, _ = strings.Cut(page, "\n")
	}
	return page
}

// laidOut is a table as the page shows it.
type laidOut struct {
	Head []cell
	Rows [][]cell
	// Class is "words" for columns that hold more than a few words each,
	// "attempts" for the many columns of the attempts, else "".
	Class string
}

type cell struct {
	Text, Link string
	Left       bool
}

// numbersTable lays out a table whose numbers all come from one folder: each
// leads there.
func numbersTable(t *plots.Table, link string) laidOut {
	out := layOut(t, func(_ []string, column int) string {
		if t.IsLeft(column) {
			return ""
		}
		return link
	})
	if len(t.Head) > mostPrinted {
		out.Class = "wide"
	}
	return out
}

// mostPrinted is how many columns of numbers fit a printed page in letters of
// the usual size.
const mostPrinted = 7

// wordsTable lays out a table of words, or of attempts, whose IDs in the first
// column lead to their points.
func wordsTable(t *plots.Table, p RunPart, attempts bool) laidOut {
	out := layOut(t, func(row []string, column int) string {
		if name := "points/" + row[0] + ".csv"; attempts && column == 0 && p.hasFile(name) {
			return p.Link + name
		}
		return ""
	})
	out.Class = "words"
	if attempts {
		out.Class = "attempts"
	}
	return out
}

func layOut(t *plots.Table, link func(row []string, column int) string) laidOut {
	var out laidOut
	for i, text := range t.Head {
		out.Head = append(out.Head, cell{Text: text, Left: t.IsLeft(i)})
	}
	for _, row := range t.Rows {
		cells := make([]cell, len(row))
		for i, text := range row {
			cells[i] = cell{Text: text, Link: link(row, i), Left: t.IsLeft(i)}
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// Of returns the part of the run that a finding comes from.
func (r *Report) Of(f Finding) RunPart { return r.part(f.Run) }
