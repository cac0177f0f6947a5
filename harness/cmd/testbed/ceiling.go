package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/measure"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// ceilingCommand is what the testbed starts on the client host to learn what
// it can do itself: JSON of [resultfile.Ceiling], a list, on standard output.
func ceilingCommand() command {
	return command{name: "ceiling", summary: "the harness's own rate", hidden: true, run: runCeiling}
}

func runCeiling(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("ceiling", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	sizes := flags.IntSlice("payload-bytes", []int{scenario.DefaultPayloadBytes}, "`sizes` of payload, with commas between")
	each := flags.Duration("time", time.Second, "how long to send, and how long to receive, for each size")
	dir := flags.String("dir", "", "`folder` for a file of one page (default that of the system for such files)")
	flags.Usage = func() {
		fmt.Fprintf(std.Out, "testbed ceiling prints how many messages a second this machine makes, sends to a\ndriver that throws them away, gets back and checks.\n\n%s\n"+
			"Example:\n  testbed ceiling --payload-bytes 200,1000 --time 1s\n", flags.FlagUsagesWrapped(helpWidth))
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *each <= 0 || *each > time.Minute {
		return usagef("--time %v: more than 0 and at most a minute is wanted", *each)
	}
	var all []resultfile.Ceiling
	for _, size := range *sizes {
		if size < scenario.MinPayloadBytes || size > scenario.MaxPayloadBytes {
			return usagef("--payload-bytes %d: from %d to %d is wanted", size, scenario.MinPayloadBytes, scenario.MaxPayloadBytes)
		}
		of, err := runner.Ceilings(ctx, *dir, size, *each)
		if err != nil {
			return err
		}
		all = append(all, of...)
	}
	return json.NewEncoder(std.Out).Encode(all)
}

// clockCommand is the helper with which the testbed compares hosts' clocks.
func clockCommand() command {
	return command{name: "clock", summary: "tell this host's time", hidden: true, run: runClock}
}

func runClock(_ context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("clock", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	flags.Usage = func() {
		fmt.Fprintf(std.Out, "testbed clock answers each line of its standard input with this host's time, in nanoseconds since 1970, until that ends.\n\n"+
			"Example:\n  echo | testbed clock\n")
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	return measure.AnswerClock(std.In, std.Out)
}
