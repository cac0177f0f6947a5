package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"kafkalab/plots"
)

func plotCommand() command {
	return command{name: "plot", summary: "draw the figures and tables of runs", run: runPlot}
}

func runPlot(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("plot", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	out := flags.String("out", "", "folder to write to; of several runs each gets a folder in it (default: beside each run's results)")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed plot DIR... [--out DIR]

Draws the figures of each run as PNG, SVG and PDF and writes its tables
(tables.md), from the result folder alone. The same folder gives the same files.
The names of the files written go to standard output.

`, flags.FlagUsages(), `
Example:
  testbed plot results/local/20261130T120000Z-fig4-producer
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() == 0 {
		return usagef("name the folder of a run, such as one in results/local or results/reference")
	}
	for _, dir := range flags.Args() {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := dir
		switch {
		case *out != "" && flags.NArg() > 1:
			to = filepath.Join(*out, filepath.Base(filepath.Clean(dir)))
		case *out != "":
			to = *out
		}
		written, err := plots.Draw(dir, to)
		for _, path := range written {
			fmt.Fprintln(std.Out, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseFailure makes a usage error of what is wrong with flags; a call for
// help is none.
func parseFailure(err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return usageError{err}
}
