package plots

import (
	"fmt"
	"slices"
	"strings"
)

// Which of two runs have a system.
const (
	inBoth = iota
	inFirst
	inSecond
)

// onesOnly says what only one of the runs has, scenario by scenario, and so is
// in no table.
func (c Comparison) onesOnly(shared bool) (lines []string) {
	for _, side := range []struct {
		in   int
		name string
	}{{inFirst, "first"}, {inSecond, "second"}} {
		var scenarios []string
		labels := make(map[string][]string)
		for _, y := range c.Systems {
			if y.in != side.in {
				continue
			}
			if labels[y.Scenario] == nil {
				scenarios = append(scenarios, y.Scenario)
			}
			if !slices.Contains(labels[y.Scenario], y.Label) {
				labels[y.Scenario] = append(labels[y.Scenario], y.Label)
			}
		}
		var parts []string
		for _, s := range scenarios {
			parts = append(parts, fmt.Sprintf("%s (%s)", s, shortList(labels[s])))
		}
		if len(parts) > 0 {
			lines = append(lines, fmt.Sprintf("In the %s run alone: %s.", side.name, strings.Join(parts, "; ")))
		}
	}
	if !shared {
		lines = append([]string{"The runs share nothing: no system of a scenario is in both, so there is nothing to compare."}, lines...)
	}
	return lines
}
