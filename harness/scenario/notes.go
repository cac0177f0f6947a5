package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// noteOn says what a name that the user gave stands for in a scenario: all
// systems of a driver, or none while the driver has others there, none of
// which is measured. "" if it stands for itself.
func (sel *Selection) noteOn(s Scenario, name string, measured map[string]bool) string {
	switch named := s.named(name); {
	case len(named) > 1 || len(named) == 1 && named[0] != name:
		return fmt.Sprintf("%s: %q stands for all systems of that driver: %s", s.Name, name, strings.Join(named, ", "))
	case len(named) == 1:
		return ""
	}
	for _, other := range sel.Scenarios {
		sys, ok := other.System(name)
		if !ok {
			continue
		}
		var there []string
		for _, sibling := range s.Systems {
			if sibling.Driver == sys.Driver {
				there = append(there, sibling.ID)
			}
		}
		if len(there) == 0 || slices.ContainsFunc(there, func(id string) bool { return measured[id] }) {
			return ""
		}
		return fmt.Sprintf("%s has no system %q, and nothing of that driver is measured there; it has %s", s.Name, name, strings.Join(there, ", "))
	}
	return ""
}
