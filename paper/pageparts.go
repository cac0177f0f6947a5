package paper

import (
	"strings"

	"kafkalab/plots"
)

// views writes the table of the rivals that were measured in both views.
func (m *page) views() {
	if len(m.report.Views) == 0 {
		return
	}
	m.line("## Rivals in two views\n\n%s\n", plots.Escape(viewsNote))
	m.row("scenario", "as in the paper", "messages/s", "documented best", "messages/s", "best over paper", "run")
	m.line("|---|---|---:|---|---:|---:|---|")
	for _, v := range m.report.Views {
		link := v.Run.Link
		m.row(v.Scenario, plots.Escape(v.Paper), linked(v.PaperRate, link), plots.Escape(v.Best), linked(v.Rate, link), linked(v.Ratio, link), v.Run.named())
	}
	m.line("")
}

// arrays writes what the RAID 10 of the emulated bed costs.
func (m *page) arrays() {
	if len(m.report.Arrays) == 0 {
		return
	}
	m.line("## RAID 10 against the plain disk\n\n%s\n", plots.Escape(arrayNote))
	for _, a := range m.report.Arrays {
		m.line("RAID 10: run %s; plain disk: run %s.\n", a.RAID.named(), a.Plain.named())
		m.row("scenario", "system", "plain disk, messages/s", "RAID 10, messages/s", "RAID 10 over plain", "do they differ?")
		m.line("|---|---|---:|---:|---:|---|")
		for _, y := range a.Rows {
			m.row(y.Scenario, plots.Escape(y.System), linked(y.Plain, a.Plain.Link), linked(y.RAID, a.RAID.Link), linked(y.Ratio, a.RAID.Link), y.Verdict)
		}
		if len(a.Caveats) > 0 {
			m.line("\nThe two runs differ in more than the disk:\n")
		}
		for _, c := range a.Caveats {
			m.line("- %s", plots.Escape(c))
		}
		m.line("")
	}
}

// drawn shows the files of drawings.
func (m *page) drawn(d DrawnPart) {
	m.line("## Drawings of a live system: %s\n", plots.Escape(d.Name))
	m.line("%s All that is drawn stands in [the folder](%s).\n", plots.Escape(drawnNote), d.Link)
	for _, f := range d.Drawings {
		m.line("![%s](%s%s.png)\n", plots.Escape(f.Title), d.Link, f.Name)
		for _, paragraph := range f.Caption {
			m.line("%s\n", plots.Escape(paragraph))
		}
	}
}

// row writes a row of a table whose cells are Markdown already.
func (m *page) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

func linked(text, link string) string { return "[" + plots.Escape(text) + "](" + link + ")" }
