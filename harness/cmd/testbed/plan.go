package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
)

// startStop is about what starting and stopping each system's server took on a
// quiet machine with two cores, with the pauses between phases and half as much
// again, since what is told of it is "at most".
var startStop = map[string]time.Duration{
	"rawlimit": 3 * time.Second,
	"kafka":    5 * time.Second,
	"pipeline": 9 * time.Second,
	"nats":     5 * time.Second,
	"activemq": 14 * time.Second,
	"rabbitmq": 14 * time.Second,
}

// tellPlan shows what is going to be done and how long it takes, before
// anything is done.
func tellPlan(plan runner.Plan, std stdio) error {
	estimate, err := plan.Estimate()
	if err != nil {
		return err
	}
	sel := plan.Selection
	limit := "no cap"
	if sel.Cap > 0 {
		limit = fmt.Sprintf("at most %v each", sel.Cap)
	}
	fmt.Fprintf(std.Err, "%s: %s an attempt%s, %s, %s, seed %d\n", strings.Join(baseNames(sel.Names), ", "),
		counted(sel.Messages, "message"), ownAmounts(sel), counted(int64(sel.Repeat), "repetition"), limit, plan.Seed)
	for _, note := range sel.Notes {
		fmt.Fprintln(std.Err, note)
	}
	for _, s := range sel.Scenarios {
		fmt.Fprintf(std.Err, "%s, systems in shuffled order: %s\n", s.Name, strings.Join(labels(s.Systems), "; "))
	}
	for _, s := range sel.Scenarios {
		if s.Unshaped {
			fmt.Fprintf(std.Err, "%s: the emulated link is held to no rate meanwhile; a real one is what it is\n", s.Name)
		}
		tellCaps(std.Err, sel, s)
		for _, sys := range s.Systems {
			if own := amounts(sel, s, sys); own != "" {
				fmt.Fprintf(std.Err, "%s, %s: %s\n", s.Name, sys.Label, own)
			}
		}
	}
	what := "This"
	if plan.Before != nil {
		what = "What is not valid yet"
	}
	fmt.Fprintf(std.Err, "%s takes at most about %s on a quiet machine, and the look at the hosts before it half a minute, or up to four on a virtual machine whose free memory is held.\n", what, minutes(estimate))
	return nil
}

// ownAmounts points to the systems, told further down, that have a number of
// messages of their own.
func ownAmounts(sel scenario.Selection) string {
	for _, s := range sel.Scenarios {
		for _, sys := range s.Systems {
			if sys.Messages > 0 {
				return " where no other number is named below"
			}
		}
	}
	return ""
}

func labels(systems []scenario.System) []string {
	var all []string
	for _, sys := range systems {
		all = append(all, sys.Label)
	}
	return all
}

// tellCaps says which systems of a scenario are held to a shorter time than the
// run says, each time once.
func tellCaps(out io.Writer, sel scenario.Selection, s scenario.Scenario) {
	held := map[time.Duration][]scenario.System{}
	var times []time.Duration
	for _, sys := range s.Systems {
		d := sys.LongestRun(sel.Cap)
		if d == 0 || sel.Cap > 0 && d >= sel.Cap {
			continue
		}
		if held[d] == nil {
			times = append(times, d)
		}
		held[d] = append(held[d], sys)
	}
	for _, d := range times {
		who := strings.Join(labels(held[d]), "; ")
		others := slices.DeleteFunc(slices.Clone(s.Systems), func(sys scenario.System) bool { return sys.LongestRun(sel.Cap) == d })
		switch {
		case len(others) == 0:
			who = "every system"
		case len(others) < len(held[d]):
			who = "every system but " + strings.Join(labels(others), "; ")
		}
		fmt.Fprintf(out, "%s, held to %v: %s\n", s.Name, d, who)
	}
}
