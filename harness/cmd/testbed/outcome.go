package main

import (
	"fmt"
	"strings"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// conclude prints the tables, draws the figures if that was asked for, and
// fails if an attempt is not valid.
func (f *runFlags) conclude(dir string, std stdio) error {
	r, err := resultfile.Read(dir)
	if err != nil {
		return err
	}
	if err := plots.RatesTable(std.Out, r); err != nil {
		return err
	}
	if err := plots.ContractDifferences(std.Out, r); err != nil {
		return err
	}
	goals, err := goalsOf(r)
	if err != nil {
		return err
	}
	for _, t := range goals {
		if err := t.Text(std.Out); err != nil {
			return err
		}
	}
	if f.figures {
		if _, err := plots.Draw(r, dir, goals...); err != nil {
			return err
		}
		fmt.Fprintf(std.Err, "\n%s Results, figures and tables: %s\n", tally(r.Run), dir)
		if err := judgeRun(dir, std); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(std.Err, "\n%s Results: %s. Draw the figures with: %s plot %s\n", tally(r.Run), dir, calledAs(), dir)
	}
	return verdictOf(r.Run)
}

// verdictOf is an error if a system lacks a valid attempt of a repetition. An
// attempt that failed and was made again is no fault.
func verdictOf(run resultfile.Run) error {
	var bad []string
	for _, a := range run.Attempts {
		if _, ok := run.ValidAttempt(a.Scenario, a.System, a.Repetition); !ok {
			bad = append(bad, fmt.Sprintf("  %s: %s: %s", a.ID, a.Outcome, a.Reason))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%d attempts are not valid and count for nothing:\n%s", len(bad), strings.Join(bad, "\n"))
}

// tally says how many of the attempts are valid. A repetition counts once,
// however often it was tried.
func tally(run resultfile.Run) string {
	type repetition struct {
		scenario, system string
		number           int
	}
	valid := map[repetition]bool{}
	good := 0
	for _, a := range run.Attempts {
		k := repetition{a.Scenario, a.System, a.Repetition}
		if _, seen := valid[k]; seen {
			continue
		}
		if _, valid[k] = run.ValidAttempt(a.Scenario, a.System, a.Repetition); valid[k] {
			good++
		}
	}
	return fmt.Sprintf("%d of %d attempts valid.", good, len(valid))
}
