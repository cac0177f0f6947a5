package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// takeFrom fills in what was not said on the command line from the run to go
// on with, and refuses what was said otherwise: figures from two different
// runs do not belong in one.
func (f *runFlags) takeFrom(dir string) (*resultfile.Run, error) {
	r, err := resultfile.Read(dir)
	if err != nil {
		return nil, err
	}
	run := &r.Run
	given := f.set.Changed
	if given("seed") && f.seed != run.Seed {
		return nil, differs("seed", f.seed, run.Seed)
	}
	if given("messages") && f.messages != run.Messages {
		return nil, differs("messages", f.messages, run.Messages)
	}
	if given("repeat") && f.repeat < run.Repeat {
		return nil, fmt.Errorf("--repeat %d: the run has %d repetitions already; more can be added, none taken away", f.repeat, run.Repeat)
	}
	limit := time.Duration(run.CapSeconds * float64(time.Second))
	if given("cap") {
		if asked, _ := scenario.ParseCap(f.cap); asked != limit {
			return nil, differs("cap", asked, limit)
		}
	}
	if given("scenario") && !slices.Equal(f.scenarios, run.AskedScenarios) {
		return nil, differs("scenario", f.scenarios, run.AskedScenarios)
	}
	if given("system") && !slices.Equal(f.systems, run.AskedSystems) {
		return nil, differs("system", f.systems, run.AskedSystems)
	}
	if given("raid10") && *f.raid10 != run.Testbed.RAID10 {
		return nil, differs("raid10", *f.raid10, run.Testbed.RAID10)
	}
	*f.raid10 = run.Testbed.RAID10
	f.scenarios, f.systems = run.AskedScenarios, run.AskedSystems
	text := limit.String()
	if limit == 0 {
		text = "none"
	}
	values := map[string]string{"seed": fmt.Sprint(run.Seed), "messages": fmt.Sprint(run.Messages), "cap": text}
	if !given("repeat") {
		values["repeat"] = fmt.Sprint(run.Repeat)
	}
	for name, value := range values {
		if err := f.set.Set(name, value); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// sameTestbed refuses a testbed that cannot be the one of the run to go on
// with, as far as its file says so. The hosts themselves are looked at later.
func sameTestbed(dir string, was resultfile.Run, tb scenario.Testbed) error {
	if was.Testbed.Kind != string(tb.Kind) {
		return fmt.Errorf("%s cannot be gone on with: its testbed was of kind %q, and this one is of kind %q: name the file of its testbed with --testbed", dir, was.Testbed.Kind, tb.Kind)
	}
	for _, pair := range []struct{ what, was, now string }{
		{"client host", was.Testbed.ClientHost.Name, tb.ClientHost.Name},
		{"broker host", was.Testbed.BrokerHost.Name, tb.BrokerHost.Name},
		{"link", was.Testbed.LinkNote, tb.LinkNote()},
	} {
		if pair.was != pair.now {
			return fmt.Errorf("%s cannot be gone on with: the %s was %q and is %q: name the file of its testbed with --testbed", dir, pair.what, pair.was, pair.now)
		}
	}
	return nil
}

func differs(name string, asked, was any) error {
	return fmt.Errorf("--%s %v: the run to go on with has %v; leave the flag out, or start a new run", name, asked, was)
}

// reopen opens the folder of a run to go on with it, if scenarios and testbed
// are still those that it began with.
func reopen(dir string, now resultfile.Run, sel scenario.Selection) (*resultfile.Writer, error) {
	w, err := resultfile.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := sameRun(w, now, sel); err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be gone on with: %w", dir, err), w.Close())
	}
	was := w.Run()
	was.Repeat = now.Repeat
	was.Ended, was.Interrupted = time.Time{}, false
	was.Testbed.Clock = now.Testbed.Clock // what comes next rests on it
	was.Scenarios = installed(was, now)
	was.Testbed.HeldInPart = was.Testbed.HeldInPart || (was.Testbed.HeldMemoryBytes > 0) != (now.Testbed.HeldMemoryBytes > 0)
	was.Testbed.HeldMemoryBytes = min(was.Testbed.HeldMemoryBytes, now.Testbed.HeldMemoryBytes)
	if len(was.Ceilings) == 0 {
		was.Ceilings = now.Ceilings
	}
	if !strings.HasSuffix(was.Commit, now.Commit) {
		// Both stand there, so that nobody takes the figures for those of one.
		was.Commit += resultfile.ThenCommit + now.Commit
	}
	if err := w.Update(was); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func sameRun(w *resultfile.Writer, now resultfile.Run, sel scenario.Selection) error {
	was := w.Run()
	for _, pair := range []struct{ what, was, now string }{
		{"kind of testbed", was.Testbed.Kind, now.Testbed.Kind},
		{"client host", was.Testbed.ClientHost.Name, now.Testbed.ClientHost.Name},
		{"broker host", was.Testbed.BrokerHost.Name, now.Testbed.BrokerHost.Name},
		{"processor of the client host", was.Testbed.ClientHost.Fact("processor"), now.Testbed.ClientHost.Fact("processor")},
		{"processor of the broker host", was.Testbed.BrokerHost.Fact("processor"), now.Testbed.BrokerHost.Fact("processor")},
		{"RAID below the broker host's data", was.Testbed.BrokerHost.Fact("RAID"), now.Testbed.BrokerHost.Fact("RAID")},
		{"link", was.Testbed.LinkNote, now.Testbed.LinkNote},
		{"limit of each broker", limitsText(was.Testbed.BrokerLimits), limitsText(now.Testbed.BrokerLimits)},
	} {
		if pair.was != pair.now {
			return fmt.Errorf("the %s was %q and is %q", pair.what, pair.was, pair.now)
		}
	}
	if err := errors.Join(sameHost(was.Testbed.ClientHost, now.Testbed.ClientHost), sameHost(was.Testbed.BrokerHost, now.Testbed.BrokerHost)); err != nil {
		return err
	}
	for name, text := range sel.Files {
		before, err := os.ReadFile(w.Path("scenarios", name+".toml"))
		if err != nil {
			return err
		}
		if !bytes.Equal(before, text) {
			return fmt.Errorf("the scenario %s was changed since the run began", name)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(systemsOf(was))), slices.Sorted(maps.Keys(systemsOf(now)))) {
		return errors.New("the systems of the scenarios are not those that the run began with")
	}
	return sameVersions(was, now)
}

// hostFacts are those on which the rates of any system rest, beside the processor. A
// run of before may not have them all.
var hostFacts = []string{"cores", "memory", "kernel", "disk"}

func sameHost(was, now resultfile.Host) error {
	for _, name := range hostFacts {
		if before, after := was.Fact(name), now.Fact(name); before != "" && before != after {
			return fmt.Errorf("of %s the %s was %q and is %q", was.Name, name, before, after)
		}
	}
	return nil
}

// versionOf is the version in a system's settings; "": it was not installed.
func versionOf(sys resultfile.System) string {
	for _, s := range sys.Settings {
		if s.Row == driver.RowVersion && s.Value != notInstalled {
			return s.Value
		}
	}
	return ""
}

// sameVersions refuses systems that are of another version than when the run began.
// One that was not installed then may be so now, and the reverse.
func sameVersions(was, now resultfile.Run) error {
	before := map[string]string{}
	for name, sys := range systemsOf(was) {
		before[name] = versionOf(sys)
	}
	for name, sys := range systemsOf(now) {
		if b, a := before[name], versionOf(sys); b != "" && a != "" && b != a {
			return fmt.Errorf("the version of %s was %q and is %q", name, b, a)
		}
	}
	return nil
}

// installed describes the systems that were not installed when the run began as they
// are now.
func installed(was, now resultfile.Run) []resultfile.Scenario {
	described := systemsOf(now)
	scenarios := slices.Clone(was.Scenarios)
	for i := range scenarios {
		s := &scenarios[i]
		s.Systems = slices.Clone(s.Systems)
		for j := range s.Systems {
			if sys := &s.Systems[j]; versionOf(*sys) == "" {
				sys.Settings = described[s.Name+"/"+sys.ID].Settings
			}
		}
	}
	return scenarios
}

// systemsOf are the systems of a run by "SCENARIO/SYSTEM".
func systemsOf(run resultfile.Run) map[string]resultfile.System {
	all := map[string]resultfile.System{}
	for _, s := range run.Scenarios {
		for _, sys := range s.Systems {
			all[s.Name+"/"+sys.ID] = sys
		}
	}
	return all
}
