package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"kafkalab/results/resultfile"
)

// boundsLine says of the systems in a figure what held them; "" if nothing is
// known of any.
func boundsLine(r *resultfile.Result, s resultfile.Scenario, shown func(resultfile.System) bool) string {
	const waiting = "none of those sampled, so waiting"
	const mostExplained = 4 // waiting systems; of more the table says what they used
	held := make(map[string][]resultfile.System)
	share := make(map[string]float64) // by system: of the resource that held it
	var order []string
	for _, y := range s.Systems {
		if !shown(y) || y.Role == resultfile.RoleLimit {
			continue
		}
		b := boundOf(r, s, y)
		if b == nil {
			continue
		}
		by := waiting
		if b.By != nil {
			by, share[y.ID] = b.By.Name, b.By.Share
		}
		if held[by] == nil {
			order = append(order, by)
		}
		held[by] = append(held[by], y)
	}
	if len(order) == 0 {
		return ""
	}
	slices.SortStableFunc(order, func(a, b string) int { // resources first, and what is as it should be last
		return cmp.Compare(btoi(a == waiting)+2*btoi(a == resourcePlan), btoi(b == waiting)+2*btoi(b == resourcePlan))
	})
	var parts []string
	for i, by := range order {
		if by == resourcePlan {
			who := "for all"
			if i > 0 {
				who = "For the others"
			}
			parts = append(parts, who+" the rate that was planned")
			continue
		}
		head := by
		if i > 0 { // it begins a sentence
			head = strings.ToUpper(by[:1]) + by[1:]
		}
		parts = append(parts, fmt.Sprintf("%s: %s", head, listed(s, held[by], func(ys []resultfile.System) string {
			if by == waiting {
				if len(ys) == 1 && len(held[waiting]) <= mostExplained {
					return fmt.Sprintf(" (at most: %s)", boundOf(r, s, ys[0]).Used[0].text())
				}
				return ""
			}
			shares := make([]float64, len(ys))
			for i, y := range ys {
				shares[i] = min(100*share[y.ID], 100)
			}
			lo, hi := rangeOf(shares)
			if math.Round(lo) == math.Round(hi) {
				return fmt.Sprintf(" (%.0f %%)", lo)
			}
			return fmt.Sprintf(" (%.0f to %.0f %%)", lo, hi)
		})))
	}
	return "What was the limit, by the samples of both hosts: " + strings.Join(parts, ". ") + "."
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// listed names systems in a sentence; of those that are one line of a figure the
// line is named once, with how many of its places are meant. remark stands
// behind each name.
func listed(s resultfile.Scenario, systems []resultfile.System, remark func([]resultfile.System) string) string {
	of := func(systems []resultfile.System, label string) (found []resultfile.System) {
		for _, y := range systems {
			if lineLabel(y) == label {
				found = append(found, y)
			}
		}
		return found
	}
	var parts, done []string
	for _, y := range systems {
		label := lineLabel(y)
		if slices.Contains(done, label) {
			continue
		}
		done = append(done, label)
		here, all := of(systems, label), of(s.Systems, label)
		switch {
		case len(all) == 1:
			label = y.Label
		case len(here) == len(all):
			label += fmt.Sprintf(", all %d", len(all))
		case len(here) == 1:
			label = y.Label
		default:
			label += fmt.Sprintf(", %d of %d", len(here), len(all))
		}
		parts = append(parts, label+remark(here))
	}
	return strings.Join(parts, "; ")
}

// lineLabel is the line of a figure to which a system belongs.
func lineLabel(y resultfile.System) string {
	if y.Series != "" {
		return y.Series
	}
	return y.Label
}
