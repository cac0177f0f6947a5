package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/env"
	"kafkalab/harness/host"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// describeRun writes down everything that is known of a run before it starts:
// hosts, link, settings of every system, version of the project. It looks at
// each way of the link for that long, and at the rest for less.
func describeRun(ctx context.Context, tb scenario.Testbed, plan runner.Plan, look time.Duration, std stdio) (resultfile.Run, error) {
	sel := plan.Selection
	run := resultfile.Run{
		Started: time.Now().UTC().Truncate(time.Second), Commit: commit(ctx), Command: commandLine(),
		Seed: plan.Seed, Messages: sel.Messages, Repeat: sel.Repeat, CapSeconds: sel.Cap.Seconds(),
		AskedScenarios: sel.Names, AskedSystems: sel.Systems,
		Testbed: resultfile.Testbed{Kind: string(tb.Kind), Emulated: tb.Emulated(), LinkNote: tb.LinkNote()},
	}
	var err error
	if run.Testbed.ClientHost, err = env.Describe(ctx, plan.Client); err != nil {
		return run, err
	}
	if run.Testbed.BrokerHost, err = env.Describe(ctx, plan.Broker); err != nil {
		return run, err
	}
	if err := lookAtTestbed(ctx, tb, plan, look, &run, std); err != nil {
		return run, err
	}
	for _, s := range sel.Scenarios {
		described := s.Result()
		described.Link = linkOf(tb, s)
		for i, sys := range s.Systems {
			inSize(&described.Systems[i], sel, s, sys)
			if described.Systems[i].Settings, err = settings(ctx, plan, sys); err != nil {
				return run, fmt.Errorf("%s, system %s: %w", s.Name, sys.ID, err)
			}
		}
		run.Scenarios = append(run.Scenarios, described)
	}
	return run, nil
}

// linkOf is what the link is for a scenario that asks for one without a rate; ""
// for one that does not.
func linkOf(tb scenario.Testbed, s scenario.Scenario) string {
	switch {
	case !s.Unshaped:
		return ""
	case tb.Kind == host.Namespace:
		return resultfile.LinkUnshaped
	}
	return resultfile.LinkAsItIs
}

// inSize brings what a system sends and is filled with to the size of the run.
func inSize(described *resultfile.System, sel scenario.Selection, s scenario.Scenario, sys scenario.System) {
	if sys.Messages > 0 {
		described.Messages = sel.MessagesOf(s, sys)
	}
	described.FillMessages = sel.FillOf(s, sys)
}

// notInstalled stands in the settings of a system whose packages are missing.
const notInstalled = "not installed"

// settings asks the driver for its rows of the table that makes the comparison
// fair, and refuses a system that leaves one out.
func settings(ctx context.Context, plan runner.Plan, sys scenario.System) ([]resultfile.Setting, error) {
	d, err := plan.Drivers.Find(sys.Driver)
	if err != nil {
		return nil, err
	}
	var given []driver.Setting
	if err = d.Check(ctx, plan.Broker, sys.Options); err == nil {
		given, err = d.Settings(ctx, plan.Broker, sys.Options)
	}
	missing := ""
	if errors.Is(err, driver.ErrNotInstalled) {
		missing, err = notInstalled, nil
	}
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, s := range given {
		values[s.Row] = s.Value
	}
	var rows []resultfile.Setting
	for _, row := range driver.SettingRows {
		value := values[row]
		if value == "" {
			value = missing
		}
		if value == "" {
			return nil, fmt.Errorf("the driver %s leaves out the row %q of the settings table, without which systems cannot be compared", sys.Driver, row)
		}
		rows = append(rows, resultfile.Setting{Row: row, Value: value})
	}
	return rows, nil
}

// commit is the version of the project that this program was built from, with
// "+changes" if the tree was not clean: as the compiler noted it, or, of a
// program that was not built in the repository, as git says now.
func commit(ctx context.Context) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		var revision, changes string
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changes = "+changes"
			}
		}
		if revision != "" {
			return revision + changes
		}
	}
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--dirty=+changes").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
