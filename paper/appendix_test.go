package paper

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var appendixRow = regexp.MustCompile(`(?m)^\| (C\d+) \| ([^|]*) \| ([^|]*) \| [^|]* \| ([^|]+) \|$`)

// The appendix has a row for each claim, which names the scenarios that
// claims.toml names and says which of them are to come.
func TestAppendix(t *testing.T) {
	text, err := os.ReadFile("appendix.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range appendixRow.FindAllStringSubmatch(string(text), -1) {
		if rows[m[1]] != nil {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2:]
	}
	for _, c := range loadClaims(t).Claims {
		row := rows[c.ID]
		if row == nil {
			t.Errorf("%s has no row", c.ID)
			continue
		}
		var want []string
		for _, k := range c.Checks {
			name := "`" + k.Scenario + "`"
			if k.NotBuilt {
				name += " (not built yet)"
			}
			if k.Scenario != "" && !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		if got := row[0]; got != strings.Join(want, ", ") {
			t.Errorf("%s: the scenarios are %s, the appendix says %s", c.ID, strings.Join(want, ", "), got)
		}
		for _, k := range c.Checks {
			command := "E3"
			if !strings.HasPrefix(k.Scenario, "fig") {
				command = k.Scenario
			}
			if k.measures() && !strings.Contains(row[1], command) {
				t.Errorf("%s: by the scenario %s, and the command is %q", c.ID, k.Scenario, row[1])
			}
		}
	}
}

var scenarioRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| [^|]+ \\| ([^|]*) \\| [^|]+ \\|$")

// Every scenario but the paper's two figures and the smoke tests has a row with
// its time, which names the claims that it decides, and no others.
func TestAppendixScenarios(t *testing.T) {
	text, err := os.ReadFile("appendix.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range scenarioRow.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	decided := map[string][]string{}
	for _, c := range loadClaims(t).Claims {
		for _, k := range c.Checks {
			if ids := decided[k.Scenario]; !k.NotBuilt && !slices.Contains(ids, c.ID) {
				decided[k.Scenario] = append(ids, c.ID)
			}
		}
	}
	for name, systems := range scenariosOf(t) {
		row, listed := rows[name]
		switch {
		case strings.HasPrefix(name, "fig") || strings.HasPrefix(name, "smoke"):
		case !listed:
			t.Errorf("%s has no row", name)
		case len(systems) > 0 && row != cmp.Or(strings.Join(decided[name], ", "), "–"):
			t.Errorf("%s decides %q, the appendix says %q", name, decided[name], row)
		}
		delete(rows, name)
	}
	if len(rows) > 0 {
		t.Errorf("there are no scenarios %v", rows)
	}
}
