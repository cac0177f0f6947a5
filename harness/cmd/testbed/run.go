package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/plots"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

func runCommand() command {
	return command{name: "run", summary: "measure: scenarios, systems, repetitions", run: runRun}
}

// runFlags are what a user can say of a run.
type runFlags struct {
	set       *pflag.FlagSet
	testbed   *string
	scenarios []string
	systems   []string
	messages  int64
	repeat    int
	cap       string
	seed      int64
	out       string
	resume    string
	figures   bool
	planOnly  bool
	raid10    *bool
	look      time.Duration
}

func newRunFlags(std stdio) *runFlags {
	f := &runFlags{set: pflag.NewFlagSet("run", pflag.ContinueOnError)}
	flags := f.set
	flags.SetOutput(std.Out)
	f.testbed = testbedFlag(flags)
	flags.StringArrayVar(&f.scenarios, "scenario", nil, "scenario by `name` (\"testbed list\") or path; may be given several times (default fig4-producer and fig5-consumer)")
	flags.StringArrayVar(&f.systems, "system", nil, "only the system of this `name`, or all of the driver of this name; may be given several times (default all)")
	flags.Int64Var(&f.messages, "messages", 0, "messages of one attempt, to which the numbers of a scenario's systems are brought in proportion (default what the scenario says, or 1000000)")
	flags.IntVar(&f.repeat, "repeat", 0, "repetitions (default what the scenario says, or 3)")
	flags.StringVar(&f.cap, "cap", "", "longest `time` that one attempt is measured, or none (default what the scenario says, or 45s)")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the order of the systems (default drawn, and printed)")
	flags.StringVar(&f.out, "out", "results/local", "`folder` in which the run gets a folder of its own")
	flags.StringVar(&f.resume, "resume", "", "go on with the run in this `folder`: make what is not valid yet")
	flags.DurationVar(&f.look, "look-time", defaultLook, "how long each way of the link is measured before the run; the disk, the clocks and the harness's own rate take their share of it. At least 100ms; less than 1s is for a look at the path, no measurement: free memory is not held for it, and it decides no claim")
	f.raid10 = raidFlag(flags, "keep the broker's data on the RAID 10 that \"testbed up --raid10\" made")
	flags.BoolVar(&f.planOnly, "plan", false, "only say what would be done and how long it takes")
	flags.BoolVar(&f.figures, "figures", false, "draw the figures into the run's folder at the end")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed run [--scenario NAME...] [--system NAME...] [--messages N]
                   [--repeat N] [--cap TIME|none] [--testbed FILE] [--resume DIR]

Measures every system of the scenarios, in shuffled order, and keeps everything
in a folder of its own: points, samples, logs, settings, hosts, outcomes. What
goes wrong with one system is recorded, and the others still run. The exit
status is 0 only if every attempt is valid.

`, flags.FlagUsagesWrapped(helpWidth), `
Examples:
  testbed run --scenario fig4-producer --scenario fig5-consumer --figures
  testbed run --scenario fig5-consumer --system kafka --messages 10000000 --cap none --repeat 1
  testbed run --testbed my-testbed.toml --scenario fig4-producer --figures
  testbed run --resume results/local/20261130T120000Z-fig4-producer
  testbed run --scenario latency --repeat 6 --plan
`)
	}
	return f
}

// check refuses values that mean nothing.
func (f *runFlags) check() error {
	given := f.set.Changed
	switch {
	case given("messages") && (f.messages <= 0 || f.messages > scenario.MaxMessages):
		return usagef("--messages %d: more than 0 is wanted, up to %d", f.messages, int64(scenario.MaxMessages))
	case given("repeat") && (f.repeat <= 0 || f.repeat > scenario.MaxRepeat):
		return usagef("--repeat %d: more than 0 is wanted, up to %d", f.repeat, scenario.MaxRepeat)
	case f.look < leastLook:
		return usagef("--look-time %v: at least %v is wanted", f.look, leastLook)
	case given("resume") && given("out"):
		return usagef("--out and --resume exclude each other: a run stays where it is")
	}
	if given("cap") {
		if _, err := scenario.ParseCap(f.cap); err != nil {
			return usageError{fmt.Errorf("--%w", err)}
		}
	}
	return nil
}

// selection reads the scenarios and applies the flags.
func (f *runFlags) selection() (scenario.Selection, error) {
	names := f.scenarios
	if len(names) == 0 {
		names = []string{"fig4-producer", "fig5-consumer"}
	}
	sel, err := scenario.NewLibrary(scenarios.Files).Select(names, f.systems)
	if err != nil {
		return sel, err
	}
	if err := checkShows(sel); err != nil {
		return sel, err
	}
	if f.set.Changed("messages") {
		sel.Messages = f.messages
	}
	if f.set.Changed("repeat") {
		sel.Repeat = f.repeat
	}
	if f.set.Changed("cap") {
		sel.Cap, _ = scenario.ParseCap(f.cap) // checked
	}
	return sel, nil
}

// checkShows refuses a scenario whose figure is to show what is not measured,
// which would be found only when it is drawn.
func checkShows(sel scenario.Selection) error {
	for _, s := range sel.Scenarios {
		for _, name := range s.Shows {
			if !plots.Quantity(name).Known() {
				return fmt.Errorf("%s.toml: shows %q, which is no quantity of a figure: plots/quantity.go lists them", s.Name, name)
			}
		}
	}
	return nil
}

func runRun(ctx context.Context, args []string, std stdio) error {
	f := newRunFlags(std)
	if err := parseFlags(f.set, args); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	tb, err := scenario.LoadTestbed(*f.testbed)
	if err != nil {
		return err
	}
	var earlier *resultfile.Run
	if f.resume != "" {
		if earlier, err = f.takeFrom(f.resume); err != nil {
			return err
		}
	}
	sel, err := f.selection()
	if err != nil {
		return err
	}
	if earlier != nil && complete(*earlier, sel) {
		fmt.Fprintf(std.Err, "Every attempt of %s is valid: nothing is left to be measured.\n", f.resume)
		return f.conclude(f.resume, std)
	}
	if earlier != nil {
		if err := sameTestbed(f.resume, *earlier, tb); err != nil {
			return err
		}
	}
	if earlier == nil && !f.planOnly {
		if err := takesFiles(f.out); err != nil {
			return err
		}
	}
	if *f.raid10 && !f.planOnly {
		if err := onRAID(&tb, upWith(*f.testbed, true)); err != nil {
			return err
		}
	}
	plan := runner.Plan{Selection: sel, Seed: f.seed, Drivers: drivers(), Before: earlier, StartStop: startStop, Remote: tb.Kind == host.SSH}
	if !f.set.Changed("seed") {
		plan.Seed = rand.Int64N(1_000_000) // short enough to be typed again
	}
	if f.planOnly {
		std.Err = std.Out // the plan is what was asked for
	}
	if err := plan.CheckOptions(ctx); err != nil {
		return err
	}
	if err := tellPlan(plan, std); err != nil || f.planOnly {
		return err
	}
	return f.carryOut(ctx, tb, plan, std)
}

// carryOut locks and opens the testbed, writes down what is known of it, and
// measures there.
func (f *runFlags) carryOut(ctx context.Context, tb scenario.Testbed, plan runner.Plan, std stdio) (err error) {
	release, err := holdHere(tb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	client, broker, closeHosts, err := openHosts(ctx, tb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHosts()) }()
	releaseThere, err := holdThere(ctx, tb, broker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, releaseThere()) }()
	plan.Client, plan.Broker = client, broker
	if plan.Unshape, err = switchLink(ctx, tb); err != nil {
		return err
	}
	held, err := limitBrokers(ctx, tb, &plan, std)
	if err != nil {
		return err
	}
	if err := plan.Check(ctx); err != nil {
		return err
	}
	run, err := describeRun(ctx, tb, plan, f.look, std)
	if err != nil {
		return err
	}
	run.Testbed.RAID10, run.Testbed.BrokerLimits = *f.raid10, held
	memory := &memoryHold{over: true}
	if f.look >= shortLook { // else it is not to be measured, but to be tried
		if memory, err = holdMemory(ctx, broker, std); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, memory.end(ctx)) }()
		if run.Testbed.HeldMemoryBytes = memory.bytes; memory.bytes > 0 {
			plan.Ready, plan.TouchMemory = memory.hold, memory.touch
		}
	}
	if plan.Results, err = f.results(plan, run); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plan.Results.Close()) }()
	return f.measure(ctx, plan, memory, std)
}

// switchLink returns what takes the rate off an emulated link and puts it back;
// nil where there is none to take off. It puts it back at once: a run that was
// killed may have left the link without.
func switchLink(ctx context.Context, tb scenario.Testbed) (func(context.Context, bool) error, error) {
	if tb.Kind != host.Namespace {
		return nil, nil
	}
	set := func(ctx context.Context, lifted bool) error {
		if lifted {
			return link.Lift(ctx, tb.Link, io.Discard) // a command for each attempt would hide the rest
		}
		return link.Hold(ctx, tb.Link, io.Discard)
	}
	if err := set(ctx, false); err != nil {
		return nil, err
	}
	return set, nil
}

// measure runs the plan and shows what came out, also of a run that was
// interrupted.
func (f *runFlags) measure(ctx context.Context, plan runner.Plan, memory *memoryHold, std stdio) error {
	dir := plan.Results.Dir()
	fmt.Fprintf(std.Err, "Results go to %s\n", dir)
	show := newProgress(std.Err)
	plan.Progress = show.update
	runErr := runner.Run(ctx, plan)
	show.close()
	lost := memory.giveUp(ctx)
	if lost != nil {
		now := plan.Results.Run()
		now.Testbed.HeldMemoryBytes, now.Testbed.HeldInPart = 0, true
		lost = errors.Join(lost, plan.Results.Update(now))
	}
	if errors.Is(runErr, runner.ErrInterrupted) {
		return errors.Join(fmt.Errorf("interrupted; what was measured is kept. Go on with:\n  %s", f.goOn(plan.Client.Kind(), dir)), lost)
	}
	if runErr != nil {
		return errors.Join(runErr, lost)
	}
	return errors.Join(f.conclude(dir, std), lost)
}

// goOn is the command that goes on with the run in dir. "make bench" removes
// the emulated hosts at its end, so they are made again; where they are there,
// that changes nothing.
func (f *runFlags) goOn(kind host.Kind, dir string) string {
	where := ""
	if *f.testbed != "" {
		where = " --testbed " + *f.testbed
	}
	line := calledAs() + " run" + where + " --resume " + dir
	if kind == host.Namespace {
		line = upWith(*f.testbed, *f.raid10) + " && " + line
	}
	if f.figures {
		line += " --figures"
	}
	if f.look != 0 && f.look != defaultLook {
		line += " --look-time " + f.look.String()
	}
	return line
}

// complete says whether a run has everything that was selected.
func complete(run resultfile.Run, sel scenario.Selection) bool {
	for _, s := range sel.Scenarios {
		for _, sys := range s.Systems {
			for r := 1; r <= sel.Repeat; r++ {
				if _, ok := run.ValidAttempt(s.Name, sys.ID, r); !ok {
					return false
				}
			}
		}
	}
	return true
}
