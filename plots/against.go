package plots

import (
	"fmt"

	"kafkalab/results/resultfile"
)

// comparison sets each system of a scenario beside another one of it.
type comparison struct {
	title string
	// base is the system beside which one is set; false: there is none, or it is
	// the base itself.
	base func(y resultfile.System) (resultfile.System, bool)
}

// comparisonNote says how such a table is to be read.
var comparisonNote = fmt.Sprintf("How many times the other's number each system's is: of the medians, with the 95 %% interval where both have %d repetitions and more, else with the lowest and the highest that any two repetitions give. "+
	"A word on which is faster, or has more, stands only where the whole interval lies on one side of 1.", intervalNeeds)

// comparisonsOf are the comparisons that a scenario's figure invites. Of a sweep
// each place with the first of its line, and each line with the first line at
// the same place; at planned rates each system with the first at the same rate;
// else each system with the first. What rates over data invite stands in the
// table of ratios.
func comparisonsOf(s resultfile.Scenario) []comparison {
	first := func(fits func(y, other resultfile.System) bool) func(resultfile.System) (resultfile.System, bool) {
		return func(y resultfile.System) (resultfile.System, bool) {
			for _, other := range s.Systems {
				if other.Role != resultfile.RoleLimit && fits(y, other) {
					return other, other.ID != y.ID
				}
			}
			return resultfile.System{}, false
		}
	}
	switch s.Chart {
	case resultfile.Sweep:
		along := comparison{"Along each line", first(func(y, other resultfile.System) bool { return onAxis(y) && other.Series == y.Series && onAxis(other) })}
		if len(groupsOf(s)) < 2 {
			return []comparison{along}
		}
		return []comparison{along, {"Between the lines", first(func(y, other resultfile.System) bool { return onAxis(y) && onAxis(other) && other.X == y.X })}}
	case resultfile.OverTiers:
		return []comparison{{"Between the systems", first(func(_, _ resultfile.System) bool { return true })}}
	case resultfile.Latencies, resultfile.OverTime:
		return []comparison{{"Between the systems", first(func(y, other resultfile.System) bool { return other.Rate == y.Rate })}}
	case resultfile.Bars:
		return []comparison{{"Between the systems", first(func(_, _ resultfile.System) bool { return true })}}
	}
	return nil
}

// table sets the systems beside their bases in each quantity of the figure; nil
// if no two can be.
func (c comparison) table(r *resultfile.Result, s resultfile.Scenario) *Table {
	shows := quantitiesOf(s)
	t := &Table{Head: []string{"system", "beside"}, left: map[int]bool{1: true}}
	for _, q := range shows {
		t.Head = append(t.Head, string(q))
	}
	any := false
	for _, y := range s.Systems {
		base, ok := c.base(y)
		if !ok || y.Role == resultfile.RoleLimit {
			continue
		}
		cells := []string{named(y), named(base)}
		for _, q := range shows {
			cell := against(q, q.valuesIn(r, s, y), q.valuesIn(r, s, base))
			any = any || cell != unknown
			cells = append(cells, cell)
		}
		t.add(cells...)
	}
	if !any {
		return nil
	}
	return t
}

// against is a cell that sets the values of one system beside those of another.
// Where one of them is not above 0 there is no ratio, and the test alone speaks.
func against(q Quantity, values, others []float64) string {
	if len(values) == 0 || len(others) == 0 {
		return unknown
	}
	ratio := RatioOf(values, others)
	if ratio == nil {
		_, text := verdict(values, others)
		return fmt.Sprintf("%s and %s: %s", q.cell(Summarise(values).Median), q.cell(Summarise(others).Median), text)
	}
	if !ratio.hasInterval() {
		return times(ratio) + ", " + tooFew
	}
	return timesIn(ratio, q)
}
