package plots

import (
	"fmt"
	"strings"

	"kafkalab/results/resultfile"
)

// Counts are what went wrong with the messages of a system, over all attempts
// that were made of it, valid or not.
type Counts struct {
	Attempts  int   `json:"attempts"`
	Gap       int64 `json:"gap"` // handed over by the client and not at the broker
	Lost      int64 `json:"lost"`
	Doubled   int64 `json:"doubled"`
	Damaged   int64 `json:"damaged"`
	Reordered int64 `json:"reordered"`
	Verified  int   `json:"verified"` // attempts whose contents were checked one by one
}

func countsOf(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) Counts {
	var c Counts
	for _, a := range attempts(r, s, y) {
		if a.Outcome == resultfile.NotInstalled {
			continue
		}
		c.Attempts++
		c.Gap += gapOf(s, a)
		c.Lost += a.Lost
		c.Doubled += a.Doubled
		c.Damaged += a.Damaged
		c.Reordered += a.Reordered
		if a.Verified {
			c.Verified++
		}
	}
	return c
}

// gapOf is what the client believes to have sent beyond what the broker has. A
// consumer has no such gap, and in a crash it is what is measured.
func gapOf(s resultfile.Scenario, a resultfile.Attempt) int64 {
	if s.Work != resultfile.Produce && s.Work != resultfile.Stream {
		return 0
	}
	return max(a.ClientMessages-a.Messages, 0)
}

func (c Counts) clean() bool {
	return c.Gap == 0 && c.Lost == 0 && c.Doubled == 0 && c.Damaged == 0 && c.Reordered == 0
}

func (c Counts) text() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{c.Gap, "gap"}, {c.Lost, "lost"}, {c.Doubled, "doubled"}, {c.Damaged, "damaged"}, {c.Reordered, "reordered"}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%s %s", p.what, number(float64(p.n))))
		}
	}
	return strings.Join(parts, ", ")
}

// countsLine says under a figure what became of the messages of the systems in
// it; "" if nothing was tried.
func countsLine(r *resultfile.Result, s resultfile.Scenario, shown func(resultfile.System) bool) string {
	var wrong []string
	tried, verified := 0, 0
	for _, y := range s.Systems {
		if !shown(y) || y.Role == resultfile.RoleLimit {
			continue
		}
		c := countsOf(r, s, y)
		tried, verified = tried+c.Attempts, verified+c.Verified
		if !c.clean() {
			wrong = append(wrong, y.Label+": "+c.text())
		}
	}
	if tried == 0 {
		return ""
	}
	line := "Gap between what clients sent and brokers hold, lost, doubled, damaged and reordered messages: "
	if len(wrong) == 0 {
		line += "none of any system"
	} else {
		line += strings.Join(wrong, "; ") + "; none of the others"
	}
	return fmt.Sprintf("%s (in %s, the contents checked one by one in %s).", line, plural(tried, "attempt"), number(float64(verified)))
}

// countsTable is the same as a table.
func countsTable(r *resultfile.Result, s resultfile.Scenario) *Table {
	t := &Table{Head: []string{"system", "attempts", "contents checked", "gap", "lost", "doubled", "damaged", "reordered"}}
	whole := func(n int64) string { return number(float64(n)) }
	for _, y := range s.Systems {
		c := countsOf(r, s, y)
		if c.Attempts == 0 {
			t.add(named(y), "0", unknown, unknown, unknown, unknown, unknown, unknown)
			continue
		}
		t.add(named(y), whole(int64(c.Attempts)), fmt.Sprintf("%d of %d", c.Verified, c.Attempts),
			whole(c.Gap), whole(c.Lost), whole(c.Doubled), whole(c.Damaged), whole(c.Reordered))
	}
	return t
}
