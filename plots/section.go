package plots

import (
	"fmt"
	"time"

	"kafkalab/results/resultfile"
)

// Section is everything that a run says of one scenario, for those who lay it
// out themselves.
type Section struct {
	Scenario resultfile.Scenario
	Title    string // with the number of the paper's figure
	Figures  []Drawing
	Rates    *Table
	Notes    string // how the rates are to be read
	Ratios   *Table // nil: there is no system to compare with
	Costs    *Table
	More     []NamedTable // in the order in which they are to be shown
	Settings *Table
	Attempts *Table // all, in the order in which they ran; the first column holds their IDs
}

// Drawing is a figure. Its caption stands beside it, to be set as text.
type Drawing struct {
	Name    string // that of the files that Draw writes, without an extension
	Title   string
	Caption []string // paragraphs
	SVG     []byte
}

// Sections returns what a run says, scenario by scenario. The same run gives
// the same sections.
func Sections(r *resultfile.Result) ([]Section, error) {
	var out []Section
	for i, t := range RatesOf(r) {
		s := r.Run.Scenarios[i]
		section := Section{
			Scenario: s, Title: t.Title,
			Rates: t.rates(), Notes: t.notes(), Costs: t.costs(), More: t.more, Settings: settings(s), Attempts: attemptsTable(r, s),
		}
		if len(t.peers()) > 0 {
			section.Ratios = t.ratios()
		}
		for _, n := range figuresOf(r, s) {
			svg, err := render(n.chart.withoutWords(), "svg", time.Time{}) // the date stands in PDFs alone
			if err != nil {
				return nil, fmt.Errorf("figure %s of run %s: %w", n.name, r.Run.Name, err)
			}
			section.Figures = append(section.Figures, Drawing{Name: n.name, Title: n.chart.name(), Caption: n.chart.words(), SVG: svg})
		}
		out = append(out, section)
	}
	return out, nil
}

// Hosts is the table of what the two hosts of a testbed are.
func Hosts(t resultfile.Testbed) *Table { return hosts(t) }

// HostsLine says in one sentence where a run took place, and says plainly when
// the two hosts are one machine.
func HostsLine(t resultfile.Testbed) string { return hostsLine(t) }

// Mark labels what was not measured on two machines: "emulated", or that there
// was no link; "" for two machines.
func Mark(t resultfile.Testbed) string { return emulatedMark(t) }

// RunLine names a run and says what must be known to compare it.
func RunLine(run resultfile.Run) string { return runLine(run) }

// Legend says how the tables are to be read, in two paragraphs: of rates and
// costs, and of the attempts.
func Legend() []string { return []string{legendOfTables, legendOfAttempts} }

// Rounded writes a number to three digits, as the tables do.
func Rounded(v float64) string { return number(roundTo3(v)) }

// Whole writes a whole number.
func Whole(n int64) string { return number(float64(n)) }

// Times writes a ratio with its interval, or its range where that is known; a
// dash for none.
func Times(r *Ratio) string { return times(r) }

// Factor writes how many times one number is another one.
func Factor(v float64) string { return factor(v) }

// Escape makes a text plain text in Markdown, also in a cell of a table.
func Escape(s string) string { return escape(s) }
