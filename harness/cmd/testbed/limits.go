package main

import (
	"context"
	"errors"
	"fmt"

	"kafkalab/harness/host"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// limitBrokers fills in what every broker of the plan is held to, tries it, and
// says how it is held, or that it is not.
func limitBrokers(ctx context.Context, tb scenario.Testbed, plan *runner.Plan, std stdio) (*resultfile.Limits, error) {
	limits, err := tb.BrokerLimits.WithDefaults(ctx, plan.Broker)
	if err != nil {
		return nil, err
	}
	c, err := host.Confine(ctx, plan.Broker, limits)
	if err != nil {
		return nil, fmt.Errorf("%w (the keys cores and memory of the testbed file)", err)
	}
	held := c.Limits()
	if err := errors.Join(ctx.Err(), c.Release(ctx)); err != nil {
		return nil, err
	}
	fmt.Fprintf(std.Err, "Each broker: %s (%s)\n", limitsText(&held), held.Note)
	plan.Limits = limits
	told := len(plan.Selection.Notes)
	plan.Selection = plan.Selection.WithinCores(host.CountCores(held.Cores))
	for _, note := range plan.Selection.Notes[told:] {
		fmt.Fprintln(std.Err, note)
	}
	if len(plan.Selection.Scenarios) == 0 {
		return nil, fmt.Errorf("nothing is left to be measured: the broker may use the cores %s alone", held.Cores)
	}
	return &held, nil
}

// limitsText says what a broker may use.
func limitsText(l *resultfile.Limits) string {
	if l == nil {
		return "nothing held"
	}
	cores, memory := "cores not held", "memory not held"
	if l.Cores != "" {
		cores = "cores " + l.Cores
	}
	if l.MemoryBytes > 0 {
		memory = host.FormatSize(l.MemoryBytes) + " of memory"
	}
	return cores + ", " + memory
}
