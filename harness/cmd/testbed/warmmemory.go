package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"kafkalab/harness/measure"
)

// warmMemoryCommand is what the testbed runs on the broker host before a produce
// that the machine's memory may hold up.
func warmMemoryCommand() command {
	return command{name: "warm-memory", summary: "touch free memory and give it back", hidden: true, run: runWarmMemory}
}

func runWarmMemory(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("warm-memory", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	flags.Usage = func() {
		fmt.Fprint(std.Out, `testbed warm-memory BYTES touches so much of the memory that is free, at most three
quarters of it, gives it back, and prints as JSON how much it was and how long that
took. A virtual machine's host may have taken free memory back, and lets it be had
again only slowly.

Example:
  testbed warm-memory 1500000000
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() != 1 {
		return usagef("%q: one number of bytes is wanted", flags.Args())
	}
	bytes, err := strconv.ParseInt(flags.Arg(0), 10, 64)
	if err != nil || bytes < 0 {
		return usagef("%q: a number of bytes is wanted, 0 or more", flags.Arg(0))
	}
	warmed, err := measure.WarmMemory(ctx, bytes)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.Out).Encode(warmed)
}
