package plots

import (
	"fmt"

	"kafkalab/results/resultfile"
)

// runLine names a run and says what must be known to compare it.
func runLine(run resultfile.Run) string {
	return fmt.Sprintf("Run %s: %s, %s, %s, commit %s",
		run.Name, askedFor(run), plural(run.Repeat, "repetition"), capText(run), shortCommit(run.Commit))
}

// askedFor says how many messages an attempt is of.
func askedFor(run resultfile.Run) string {
	text := plural(int(run.Messages), "message") + " asked for in each attempt"
	for _, s := range run.Scenarios {
		for _, y := range s.Systems {
			if y.Messages > 0 && y.Messages != run.Messages {
				return text + " (numbers that a scenario states itself are scaled with it: its figure has them)"
			}
		}
	}
	return text
}

// capText says how long an attempt could take.
func capText(run resultfile.Run) string {
	if run.CapSeconds == 0 {
		held := make(map[string]bool)
		for _, s := range run.Scenarios {
			for _, y := range s.Systems {
				if y.Capped {
					held[y.ID] = true
				}
			}
		}
		if len(held) == 0 {
			return "no cap"
		}
		return "no cap but for the " + plural(len(held), "system") + " held to a time of their own"
	}
	return fmt.Sprintf("none longer than %s s", number(run.CapSeconds))
}
