package paper

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
	"unicode/utf8"

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
	"list":     func(r *Report, claims []Judged) claimList { return claimList{r, claims} },
	"numbers":  numbersTable,
	"words":    wordsTable,
	"attempts": attemptsTable,
	"folded":   folded,
	"anchor":   func(v Verdict) string { return strings.ReplaceAll(string(v), " ", "-") },
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
		Reading        string
		ViewsNote      string
		ArrayNote      string
		DrawnNote      string
		Legend         []string
		DeviationsHTML template.HTML
	}{r, template.CSS(pageStyle), method, emulatedNote, readingNote, viewsNote, arrayNote, drawnNote, plots.Legend(), markdownHTML(withoutTitle(deviations), 1)})
	return b.Bytes(), err
}

// withoutTitle is a Markdown page without its first heading.
func withoutTitle(page string) string {
	if strings.HasPrefix(page, "# ") {
		_, page, _ = strings.Cut(page, "\n")
	}
	return page
}

// claimList is some of a report's claims, for a part of the page.
type claimList struct {
	Report *Report
	Claims []Judged
}

// laidOut is a table as the page shows it.
type laidOut struct {
	Head []cell
	Rows [][]cell
	// Class is "words" for columns that hold more than a few words each, else "".
	Class string
}

type cell struct {
	Text, Link string
	Left       bool
	Long       bool // more than a number and its range: may be broken into lines
}

// longNumber is how many characters a number has at most, its range included.
const longNumber = 28

// How many columns stand side by side, the first one counted: as many as fit a
// screen, and a printed page in letters that can be read.
const (
	mostNumbers = 8
	mostWords   = 6
)

// numbersTable lays out a table whose numbers all come from one folder: each
// leads there.
func numbersTable(t *plots.Table, link string) []laidOut {
	return apart(layOut(t, func(_ []string, column int) string {
		if t.IsLeft(column) {
			return ""
		}
		return link
	}), mostNumbers)
}

// attemptsTable lays out a table of attempts, whose IDs in the first column
// lead to their points.
func attemptsTable(t *plots.Table, p RunPart) []laidOut {
	return apart(layOut(t, func(row []string, column int) string {
		if name := "points/" + row[0] + ".csv"; column == 0 && p.hasFile(name) {
			return p.Link + name
		}
		return ""
	}), mostNumbers)
}

// wordsTable lays out a table of words.
func wordsTable(t *plots.Table) []laidOut {
	out := layOut(t, func([]string, int) string { return "" })
	out.Class = "words"
	return apart(out, mostWords)
}

// GoalsLaidOut lays out the table of goals: what was measured leads to the run that
// it is from.
func (r *Report) GoalsLaidOut() []laidOut {
	t := r.GoalsPart().Table
	out := layOut(t, func([]string, int) string { return "" })
	out.Class = "words"
	for i, row := range out.Rows {
		for column := range row {
			c := &row[column]
			c.Link = r.goalLink(t, i, column)
			c.Left = c.Left || c.Link == ""
		}
	}
	return apart(out, mostWords)
}

// apart makes several tables of one that is too wide, one below the other. Each
// begins with the first column, which says what a row is of. most is at least 2.
func apart(t laidOut, most int) []laidOut {
	columns := len(t.Head) - 1
	if columns < most {
		return []laidOut{t}
	}
	parts := (columns + most - 2) / (most - 1)
	out := make([]laidOut, parts)
	for i := range out {
		from, to := 1+i*columns/parts, 1+(i+1)*columns/parts
		some := func(row []cell) []cell { return append([]cell{row[0]}, row[from:to]...) }
		out[i] = laidOut{Head: some(t.Head), Class: t.Class}
		for _, row := range t.Rows {
			out[i].Rows = append(out[i].Rows, some(row))
		}
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
			cells[i] = cell{Text: text, Link: link(row, i), Left: t.IsLeft(i), Long: utf8.RuneCountInString(text) > longNumber}
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// Of returns the part of the run that a finding comes from.
func (r *Report) Of(f Finding) RunPart { return r.part(f.Run) }
