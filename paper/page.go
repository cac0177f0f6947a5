package paper

import (
	"bytes"
	"fmt"
	"strings"

	"kafkalab/plots"
)

// Markdown makes the report a page of the repository. Its figures are the
// files that "testbed plot" writes beside the results.
func (r *Report) Markdown() ([]byte, error) {
	m := &page{report: r}
	order := []func() error{m.claimsFirst, m.goals, m.beside, m.runs}
	if r.Alone() {
		order = []func() error{m.aloneHead, m.goals, m.runs, m.beside, m.aloneClaims}
	}
	for _, part := range order {
		if err := part(); err != nil {
			return nil, err
		}
	}
	if len(r.Broken) > 0 {
		m.line("## Folders that could not be read\n")
		for _, b := range r.Broken {
			m.line("- [%s](%s): %s", plots.Escape(b.Link), b.Link, plots.Escape(b.Why))
		}
		m.line("")
	}
	m.line("## How to read the tables\n")
	for _, paragraph := range plots.Legend() {
		m.line("%s\n", plots.Escape(paragraph))
	}
	m.line("## Deviations from 2011\n")
	m.b.WriteString(sunk(withoutTitle(deviations)))
	return m.b.Bytes(), nil
}

type page struct {
	report *Report
	b      bytes.Buffer
}

func (m *page) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// claimsFirst writes the head of a report of several runs, and all claims.
func (m *page) claimsFirst() error {
	m.line("# The claims of the paper, and what was measured\n")
	m.line("Kreps, Narkhede, Rao: *Kafka: a Distributed Messaging System for Log Processing* (NetDB'11, June 2011), repeated with kafkalab. Of %d claims: %s.\n", len(m.report.Claims), m.report.Counts())
	if len(m.report.Goals) > 0 {
		m.line("How near our own system comes to the limits of the machine is in the table of [goals](#goals). %s\n", m.report.GoalCounts())
	}
	m.line("%s\n", plots.Escape(readingNote))
	m.line("## Claims\n")
	m.claimTable(m.report.Claims)
	m.line("%s\n\n%s\n", plots.Escape(method), plots.Escape(emulatedNote))
	if len(m.report.Unmeasured) > 0 {
		m.line("Scenarios of which there is no run here: %s.\n", strings.Join(m.report.Unmeasured, ", "))
	}
	m.line("## Numbers\n")
	m.claims(m.report.Claims)
	return nil
}

// claimTable is a row for each claim, with its verdict.
func (m *page) claimTable(claims []Judged) {
	m.line("| claim | statement, in our words | measured | verdict |\n|---|---|---|---|")
	for _, c := range claims {
		remark := ""
		if c.Remark() != "" {
			remark = ", " + c.Remark()
		}
		m.line("| [%s](#%s) | %s (%s) | %s | **%s**%s |", c.ID, strings.ToLower(c.ID), plots.Escape(c.Statement), c.where(), m.numbers(c), c.Verdict, remark)
	}
	m.line("")
}

func (m *page) claims(claims []Judged) {
	for _, c := range claims {
		m.claim(c)
	}
}

// beside writes what stands beside claims and runs.
func (m *page) beside() error {
	m.views()
	m.arrays()
	for _, d := range m.report.Drawn {
		m.drawn(d)
	}
	return nil
}

func (m *page) runs() error {
	for _, p := range m.report.Runs {
		if err := m.run(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *page) numbers(c Judged) string {
	var parts []string
	for _, n := range c.Numbers() {
		of := ""
		if n.Of != "" {
			of = plots.Escape(n.Of) + ": "
		}
		parts = append(parts, fmt.Sprintf("%s[%s](%s)", of, plots.Escape(n.Text), m.report.part(n.Run).Link))
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, "<br>")
}

// where is the place in the paper.
func (c Claim) where() string {
	if c.Figure == "" {
		return "§" + c.Section
	}
	return fmt.Sprintf("§%s, Figure %s", c.Section, c.Figure)
}

func (m *page) claim(c Judged) {
	m.line("### %s\n", c.ID)
	m.line("**%s.** %s (%s)\n", c.Verdict, plots.Escape(c.Statement), c.where())
	judged := "Judged by: " + c.Judged + "."
	if c.Arithmetic != "" {
		judged += " Arithmetic: " + c.Arithmetic
	}
	m.line("%s\n", plots.Escape(judged))
	for _, k := range c.Checks {
		m.check(k)
	}
	m.line("")
}

func (m *page) check(k JudgedCheck) {
	verdict := string(k.Verdict)
	if k.Why != "" {
		verdict += " (" + k.Why + ")"
	}
	beside := ""
	if k.Beside {
		beside = "Beside it: "
	}
	m.line("- %s**%s**: %s.", beside, plots.Escape(k.Says), plots.Escape(verdict))
	if f := k.First(); f != nil {
		p := m.report.part(f.Run)
		s := fmt.Sprintf("  [%s](%s)", plots.Escape(k.Measured(*f)), p.Link)
		if share := f.Share(); share != "" {
			s += fmt.Sprintf(", [%s](%s)", share, p.Link)
		}
		s += " (" + plots.Escape(k.Spread(*f)) + ")."
		if k.HoldsIf() != "" {
			s += " Holds if " + plots.Escape(k.HoldsIf()) + "."
		}
		m.line("%s Run %s.", s, p.named())
	}
	for i, f := range k.Others() {
		p := m.report.part(f.Run)
		s := fmt.Sprintf("[%s](%s) (%s)", plots.Escape(k.Measured(f)), p.Link, k.Aside(f))
		start, end := "  Other runs: ", ";"
		if i > 0 {
			start = "  "
		}
		if i == len(k.Others())-1 {
			end = "."
		}
		m.line("%s%s in %s%s", start, s, p.named(), end)
	}
	for _, p := range k.Passed {
		m.line("  Passed over: %s, since %s.", plots.Escape(p.Run.Run.Name), p.Why)
	}
}

// named is the run's name, with its label.
func (p RunPart) named() string {
	if p.Label == "" {
		return plots.Escape(p.Run.Name)
	}
	return fmt.Sprintf("%s (%s)", plots.Escape(p.Run.Name), p.Label)
}

func (m *page) run(p RunPart) error {
	label := ""
	if p.Label != "" {
		label = " (" + p.Label + ")"
	}
	m.line("## Run %s%s\n", plots.Escape(p.Run.Name), label)
	m.line("%s. All numbers of this part come from [its result folder](%s). %s\n\n%s\n", plots.Escape(p.Line), p.Link, plots.Escape(p.State()), plots.Escape(p.Hosts))
	if len(p.Faults) > 0 {
		m.line("Files that could not be read; an attempt without its points does not count, others do without what the file says:\n")
		for _, fault := range p.Faults {
			m.line("- %s", plots.Escape(fault))
		}
		m.line("")
	}
	for _, s := range p.Sections {
		m.line("### %s\n", plots.Escape(s.Title))
		if s.Scenario.Purpose != "" {
			m.line("%s\n", plots.Escape(s.Scenario.Purpose))
		}
		for _, f := range s.Figures {
			m.figure(p, f, label)
		}
		expected := ""
		if s.Scenario.Limit != "" {
			expected = "Expected limit: " + s.Scenario.Limit
		}
		parts := []plots.NamedTable{{Title: "Rates", Table: s.Rates, Note: s.Notes}, {Title: "Ratios", Table: s.Ratios}, {Title: "Costs", Table: s.Costs, Note: expected}}
		for _, more := range s.More {
			if more.Words {
				more.Table = folded(more.Table)
			}
			parts = append(parts, more)
		}
		parts = append(parts, plots.NamedTable{Title: "Settings", Table: folded(s.Settings)}, plots.NamedTable{Title: "Every attempt", Table: s.Attempts})
		for _, part := range parts {
			if part.Table == nil {
				continue
			}
			if err := m.table("#### "+plots.Escape(part.Title), part.Table, part.Note); err != nil {
				return err
			}
		}
	}
	m.line("### Hosts and conditions\n\n%s\n", plots.Escape(p.Origin()))
	return m.table(plots.Escape(p.Around), p.HostFact, linkNote(p))
}

// figure shows the file of a figure, if there is one.
func (m *page) figure(p RunPart, f plots.Drawing, label string) {
	if name := f.Name + ".png"; p.hasFile(name) {
		m.line("![%s%s](%s%s)\n", plots.Escape(f.Title), label, p.Link, name)
		return
	}
	m.line("*%s*%s: %s has it, and `testbed plot` draws it.\n", plots.Escape(f.Title), label, HTMLName)
}

func (m *page) table(heading string, t *plots.Table, below string) error {
	return m.linkedTable(heading, t, below, func(int, int) string { return "" })
}

func (m *page) linkedTable(heading string, t *plots.Table, below string, link func(row, column int) string) error {
	m.line("%s\n", heading)
	if err := t.MarkdownLinked(&m.b, link); err != nil {
		return err
	}
	m.line("")
	if below != "" {
		m.line("%s\n", plots.Escape(below))
	}
	return nil
}

func linkNote(p RunPart) string {
	if p.Run.Testbed.LinkNote == "" {
		return ""
	}
	return "Link: " + p.Run.Testbed.LinkNote
}

// sunk is a Markdown page whose headings stand one level lower.
func sunk(page string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimLeft(page, "\n")) {
		if headingLine.MatchString(strings.TrimRight(line, "\n")) {
			b.WriteByte('#')
		}
		b.WriteString(line)
	}
	return b.String()
}
