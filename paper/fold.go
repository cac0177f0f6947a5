package paper

import (
	"slices"
	"strings"

	"kafkalab/plots"
)

// mostColumns is how many systems a table of settings has side by side. A sweep
// has dozens, which differ in one row.
const mostColumns = 8

// folded is a table of settings, a column for each system, as it is to be
// shown: with many columns, each row becomes one for every value that it has,
// with the systems that have it.
func folded(t *plots.Table) *plots.Table {
	if t == nil || len(t.Head) <= 1+mostColumns {
		return t
	}
	out := plots.NewWordsTable(t.Head[0], "value", "systems")
	for _, row := range t.Rows {
		var values []string
		systems := map[string][]string{}
		for i, value := range row[1:] {
			if systems[value] == nil {
				values = append(values, value)
			}
			systems[value] = append(systems[value], t.Head[1+i])
		}
		name := row[0]
		for _, value := range values {
			who := strings.Join(systems[value], "; ")
			if len(values) == 1 {
				who = "all"
			} else if rest := len(t.Head) - 1 - len(systems[value]); rest < len(systems[value]) && rest <= mostColumns {
				who = "all but " + strings.Join(others(t.Head[1:], systems[value]), "; ")
			}
			out.Rows = append(out.Rows, []string{name, value, who})
			name = ""
		}
	}
	return out
}

func others(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
