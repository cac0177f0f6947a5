package plots

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kafkalab/results/resultfile"
)

// NamedTable is a table that a scenario has beside those of rates and costs.
type NamedTable struct {
	Title string
	Table *Table
	Note  string // how it is to be read; "": it speaks for itself
	Words bool   // its cells are words, and no numbers from the run
}

// Text writes the table under its title, for a terminal.
func (m NamedTable) Text(w io.Writer) error { return m.write(w, asText) }

func (m NamedTable) write(w io.Writer, as format) error {
	if m.Words && !as.wide {
		return nil // as wide as the settings, which a terminal does not show either
	}
	if _, err := fmt.Fprintf(w, as.part, as.words(m.Title)); err != nil {
		return err
	}
	if err := as.table(m.Table, w); err != nil || m.Note == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", as.paragraph(m.Note))
	return err
}

// moreTables are the tables of a scenario that says how it is to be shown.
func moreTables(r *resultfile.Result, s resultfile.Scenario) []NamedTable {
	var out []NamedTable
	add := func(m NamedTable) {
		if m.Table != nil {
			out = append(out, m)
		}
	}
	if s.Chart == "" {
		return nil
	}
	if len(s.Shows) > 0 || s.Chart != resultfile.OverData {
		add(NamedTable{Title: "What the figure shows", Table: shownTable(r, s), Note: shownNote(r, s)})
	}
	for _, c := range comparisonsOf(s) {
		add(NamedTable{Title: c.title, Table: c.table(r, s), Note: comparisonNote})
	}
	add(NamedTable{Title: "Latency", Table: latencyTable(r, s), Note: "From the planned send time, but for the last column of times; medians over the repetitions. " + percentilesNote})
	add(NamedTable{Title: "Tiers of the pipeline", Table: tiersTable(r, s), Note: tiersNote})
	add(NamedTable{Title: "What became of the messages", Table: countsTable(r, s),
		Note: "Over all attempts, valid or not. Gap: what the client handed over beyond what the broker holds by its own count. Lost, doubled, damaged and reordered by the contents."})
	add(NamedTable{Title: "What was used", Table: usedTable(r, s), Note: boundsNote})
	add(NamedTable{Title: "Settings contract", Table: contractTable(s), Note: contractNote(s), Words: true})
	return out
}

// contractNote says how the contract is to be read, and where it is not the same
// for all systems.
func contractNote(s resultfile.Scenario) string {
	differences := contractDifferences(s)
	if len(differences) == 0 {
		return contractLegend + " Nothing that is compared differs."
	}
	return contractLegend + " What differs: " + strings.Join(differences, " ")
}

// shownTable holds the quantities of the figure: medians, with the interval or
// the range behind each.
func shownTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	t := &Table{Head: []string{"system"}}
	shows := quantitiesOf(s)
	for _, q := range shows {
		t.Head = append(t.Head, q.head(), "95 % interval, or lowest .. highest")
	}
	t.Head = append(t.Head, "valid")
	for _, y := range s.Systems {
		cells := []string{named(y)}
		for _, q := range shows {
			sum := Summarise(q.valuesIn(r, s, y))
			if sum.N == 0 {
				cells = append(cells, unknown, unknown)
				continue
			}
			cells = append(cells, q.cell(sum.Median), q.spreadCell(sum))
		}
		valid := fmt.Sprintf("%d of %d", len(validAttempts(r, s, y)), len(attempts(r, s, y)))
		if len(validAttempts(r, s, y)) == 0 {
			valid = firstOf(whyAbsent(r, s, y))
		}
		t.add(append(cells, valid)...)
	}
	return t
}

// spreadCell is the interval of a summary, or its range where there is none; the
// range says that it is one.
func (q Quantity) spreadCell(sum Summary) string {
	low, high := sum.bounds()
	switch {
	case sum.N == 1:
		return "1 repetition"
	case sum.Low == nil:
		return fmt.Sprintf("%s .. %s (range of %d)", q.cell(low), q.cell(high), sum.N)
	}
	return q.cell(low) + " .. " + q.cell(high)
}

func shownNote(r *resultfile.Result, s resultfile.Scenario) string {
	note := "Medians over the valid attempts; behind each the " + spreadText(r, s) + "."
	if i := slices.IndexFunc(s.Shows, func(q string) bool { return !Quantity(q).Known() }); i >= 0 {
		note += fmt.Sprintf(" %q is no quantity that is known here.", s.Shows[i])
	}
	return note
}

// usedTable is how far each resource was used.
func usedTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	names := []string{resourceLink, resourceBroker, resourceClient, resourceMachine, resourceWrites, resourceReads, resourceOtherWrites, resourceOtherReads, resourcePlan}
	bounds := make([]*Bound, len(s.Systems))
	for i, y := range s.Systems {
		bounds[i] = boundOf(r, s, y)
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		others := n == resourceOtherWrites || n == resourceOtherReads
		return !slices.ContainsFunc(bounds, func(b *Bound) bool { return b.share(n) != unknown && (!others || b.has(n)) })
	})
	if len(names) == 0 {
		return nil
	}
	t := &Table{Head: []string{"system"}, left: map[int]bool{len(names) + 1: true}}
	for _, n := range names {
		t.Head = append(t.Head, n+", %")
	}
	t.Head = append(t.Head, "what was the limit")
	for i, y := range s.Systems {
		cells := []string{named(y)}
		for _, n := range names {
			cells = append(cells, bounds[i].share(n))
		}
		t.add(append(cells, bounds[i].text())...)
	}
	return t
}

// share is how far a resource was used, in per cent.
func (b *Bound) share(name string) string {
	if b != nil {
		for _, u := range b.Used {
			if u.Name == name {
				return short(min(100*u.Share, 100))
			}
		}
	}
	return unknown
}

// has says whether a resource was used by half a per cent and more.
func (b *Bound) has(name string) bool {
	return b != nil && slices.ContainsFunc(b.Used, func(u Resource) bool { return u.Name == name && u.Share >= 0.005 })
}
