package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"kafkalab/harness/measure"
)

// dropCacheCommand is what the testbed runs on the broker host before a consume
// that is to come from the disk.
func dropCacheCommand() command {
	return command{name: "drop-cache", summary: "make the files of a folder leave the page cache", hidden: true, run: runDropCache}
}

func runDropCache(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("drop-cache", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	flags.Usage = func() {
		fmt.Fprint(std.Out, `testbed drop-cache DIR makes the files below a folder leave the page cache, after
what was written to them is on the disk, and prints as JSON how many there are,
their size, and how many bytes of them are in the page cache all the same.

Example:
  testbed drop-cache /var/lib/kafkalab/data
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() != 1 || !filepath.IsAbs(flags.Arg(0)) {
		return usagef("%q: one folder is wanted, by its absolute path", flags.Args())
	}
	left, err := measure.DropCache(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	return json.NewEncoder(std.Out).Encode(left)
}
