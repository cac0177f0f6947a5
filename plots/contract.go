package plots

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kafkalab/results/resultfile"
)

// contractLegend says how the table of the contract is to be read.
const contractLegend = "Settings on which the comparison rests. " + readBackMark + ": said by the running broker or by its kernel; without it, what the driver was told. " +
	"Rows of threads, versions and queue types are shown and not compared."

const (
	readBackMark = "✓"
	notRead      = "not read"
)

// contractTable is the contract of each system side by side, nil if none has
// been read. Systems of one driver whose contracts are the same but for their
// threads share a column.
func contractTable(s resultfile.Scenario) *Table {
	type column struct {
		driver string
		labels []string
		rows   []resultfile.ContractRow
	}
	var columns []*column
	var rows []string
	for _, y := range s.Systems {
		for _, r := range y.Contract {
			if !slices.Contains(rows, r.Row) {
				rows = append(rows, r.Row)
			}
		}
		i := slices.IndexFunc(columns, func(c *column) bool { return c.driver == y.Driver && sameContract(c.rows, y.Contract) })
		if i < 0 {
			columns = append(columns, &column{driver: y.Driver, rows: y.Contract})
			i = len(columns) - 1
		}
		columns[i].labels = append(columns[i].labels, y.Label)
	}
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Head: []string{"setting"}, left: map[int]bool{}}
	for i, c := range columns {
		t.Head = append(t.Head, shortList(c.labels))
		t.left[i+1] = true
	}
	for _, name := range rows {
		cells := []string{name}
		for _, c := range columns {
			cell := notRead
			if r, ok := contractRow(c.rows, name); ok {
				if cell = r.Value; r.ReadBack {
					cell += " " + readBackMark
				}
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
	}
	return t
}

// shortList joins labels, the first four and how many more there are.
func shortList(labels []string) string {
	const most = 4
	if len(labels) > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(labels[:most], "; "), len(labels)-most)
	}
	return strings.Join(labels, "; ")
}

func sameContract(a, b []resultfile.ContractRow) bool {
	return slices.EqualFunc(a, b, func(x, y resultfile.ContractRow) bool {
		return x == y || x.Row == y.Row && x.Row == "threads"
	})
}

func contractRow(rows []resultfile.ContractRow, name string) (resultfile.ContractRow, bool) {
	for _, r := range rows {
		if r.Row == name {
			return r, true
		}
	}
	return resultfile.ContractRow{}, false
}

// faction are the systems of one class.
type faction struct {
	class   string
	systems []resultfile.System
}

// manyFactions is from how many classes on a row is what the figure is about,
// and not a difference to be told system by system.
const manyFactions = 4

// contractDifferences says in words where the systems of a figure differ in
// what the comparison rests on, a sentence for each row and class; nil if they
// do not, or nothing was read. Rows that do not matter for the scenario's work
// are passed over.
func contractDifferences(s resultfile.Scenario) []string {
	var out []string
	for _, row := range comparedRows {
		if row.asked != nil && !row.asked(s.Work) {
			continue
		}
		factions := factionsOf(s, row)
		switch {
		case len(factions) < 2:
		case len(factions) >= manyFactions:
			out = append(out, manyWays(s, row, factions))
		default:
			out = append(out, differences(s, row, factions)...)
		}
	}
	return out
}

func differences(s resultfile.Scenario, row comparedRow, factions []faction) (out []string) {
	most := 0
	for i, f := range factions {
		if weight(f) > weight(factions[most]) {
			most = i
		}
	}
	usual := factions[most]
	names := namesOf(s, usual)
	those := joinNames(names)
	if len(names) > 2 {
		those, names = "the others", nil
	}
	for i, f := range factions {
		if i == most {
			continue
		}
		subject := namesOf(s, f)
		out = append(out, fmt.Sprintf("%s %s where %s %s.", joinNames(subject), row.words(f.class).of(len(subject)), those, row.words(usual.class).of(len(names))))
	}
	return out
}

// manyWays names the first classes of a row that differs from system to system;
// the table of the contract has them all.
func manyWays(s resultfile.Scenario, row comparedRow, factions []faction) string {
	const most = 4
	var parts []string
	for _, f := range factions[:min(most, len(factions))] {
		names := namesOf(s, f)
		parts = append(parts, joinNames(names)+" "+row.words(f.class).of(len(names)))
	}
	if more := len(factions) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %s that the table of settings names", plural(more, "other setting")))
	}
	return fmt.Sprintf("%s, in %d ways: %s.", capital(row.name), len(factions), strings.Join(parts, "; "))
}

// weight is how many drivers have a class among the paper's systems, and then
// among all: the variants of one system are not several.
func weight(f faction) int {
	var main, all []string
	for _, y := range f.systems {
		if y.Role == resultfile.RoleSystem && !slices.Contains(main, y.Driver) {
			main = append(main, y.Driver)
		}
		if !slices.Contains(all, y.Driver) {
			all = append(all, y.Driver)
		}
	}
	return 1000*len(main) + len(all)
}

// factionsOf groups the systems of a scenario by their class of a row, in the
// order in which the classes come.
func factionsOf(s resultfile.Scenario, row comparedRow) (all []faction) {
	for _, y := range s.Systems {
		if y.Role == resultfile.RoleLimit && !row.limits {
			continue
		}
		r, ok := contractRow(y.Contract, row.name)
		if !ok || r.Class == "" {
			continue
		}
		i := slices.IndexFunc(all, func(f faction) bool { return f.class == r.Class })
		if i < 0 {
			all = append(all, faction{class: r.Class})
			i = len(all) - 1
		}
		all[i].systems = append(all[i].systems, y)
	}
	return all
}

// namesOf names the systems of a faction: those of one short name together
// under it if no other faction has any of them, else those of one line of a
// figure under the line's name, else each by its own.
func namesOf(s resultfile.Scenario, f faction) (names []string) {
	whole := func(label string, of func(resultfile.System) string) bool {
		return !slices.ContainsFunc(s.Systems, func(o resultfile.System) bool {
			in := slices.ContainsFunc(f.systems, func(z resultfile.System) bool { return z.ID == o.ID })
			return of(o) == label && !in && len(o.Contract) > 0
		})
	}
	short := func(y resultfile.System) string { return shortLabel(lineLabel(y)) }
	for _, y := range f.systems {
		name := y.Label
		switch {
		case whole(short(y), short):
			name = short(y)
		case whole(lineLabel(y), lineLabel):
			name = lineLabel(y)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// shortLabel is a label without what it says of settings: behind the first
// comma, or in parentheses.
func shortLabel(label string) string {
	short, _, _ := strings.Cut(label, ",")
	short, _, _ = strings.Cut(short, " (")
	return short
}

// joinNames writes names as a sentence has them. A name may hold a comma.
func joinNames(names []string) string {
	separator := ", "
	if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, ",") }) {
		separator = "; "
	}
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], separator), len(names)-most)
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], separator) + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// ContractDifferences writes, for the scenarios of a run, where their systems
// differ in what the comparison rests on; nothing where they do not.
func ContractDifferences(w io.Writer, r *resultfile.Result) error {
	for _, s := range r.Run.Scenarios {
		words := contractDifferences(s)
		if len(words) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s: the systems differ in their settings:\n", s.Name); err != nil {
			return err
		}
		for _, sentence := range words {
			if _, err := fmt.Fprintf(w, "  %s\n", visible(sentence)); err != nil {
				return err
			}
		}
	}
	return nil
}
