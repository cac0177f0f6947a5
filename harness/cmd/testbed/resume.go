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
	was.Testbed.HeldMemoryBytes = min(was.Testbed.HeldMemoryBytes, now.Testbed.HeldMemoryBytes)
	if len(was.Ceilings) == 0 {
		was.Ceilings = now.Ceilings
	}
	if !strings.HasSuffix(was.Commit, now.Commit) {
		// Both stand there, so that nobody takes the figures for those of one.
		was.Commit += ", then " + now.Commit
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
	for name, text := range sel.Files {
		before, err := os.ReadFile(w.Path("scenarios", name+".toml"))
		if err != nil {
			return err
		}
		if !bytes.Equal(before, text) {
			return fmt.Errorf("the scenario %s was changed since the run began", name)
		}
	}
	if !maps.Equal(systemsOf(was), systemsOf(now)) {
		return errors.New("the systems of the scenarios are not those that the run began with")
	}
	return nil
}

func systemsOf(run resultfile.Run) map[string]bool {
	all := map[string]bool{}
	for _, s := range run.Scenarios {
		for _, sys := range s.Systems {
			all[s.Name+"/"+sys.ID] = true
		}
	}
	return all
}
