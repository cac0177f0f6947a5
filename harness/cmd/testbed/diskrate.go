package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"kafkalab/harness/env"
)

func diskRateCommand() command {
	return command{name: "disk-rate", hidden: true, run: runDiskRate}
}

// runDiskRate measures the disk below a folder of the host that it runs on.
func runDiskRate(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("disk-rate", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	dir := flags.String("dir", "", "`folder` on the disk")
	each := flags.Duration("time", env.DiskRateTime, "how long each of writing and reading may take")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed disk-rate --dir DIR [--time TIME]

Writes and reads a file without a name on the disk of a folder, past the page
cache, for a second or so each way, and prints the rates as JSON. "testbed run"
and "testbed doctor" call it on both hosts.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  testbed disk-rate --dir /var/tmp
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *dir == "" {
		return usagef("--dir is missing")
	}
	if *each <= 0 {
		return usagef("--time %v: more than 0 is wanted", *each)
	}
	rate, err := env.MeasureDisk(ctx, *dir, *each)
	if err != nil {
		return err
	}
	return json.NewEncoder(std.Out).Encode(rate)
}
