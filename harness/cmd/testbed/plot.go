package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
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
A folder that "testbed draw" has made of a live cluster is drawn anew as well.
An attempt whose file is damaged is named and left out; of several runs, one
that cannot be read does not keep the others from being drawn. The names of the
files written go to standard output.

`, flags.FlagUsagesWrapped(helpWidth), `
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
	var errs []error
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
		errs = append(errs, plotRun(dir, to, std))
	}
	return errors.Join(errs...)
}

// plotRun draws one run. One that cannot be read, or drawn, is no reason not
// to draw the next.
func plotRun(dir, to string, std stdio) error {
	if plots.HoldsDrawings(dir) {
		written, err := plots.DrawLive(dir, to)
		return errors.Join(printLines(std, written), err)
	}
	r, err := salvage("plot", dir, std)
	if err != nil {
		return err
	}
	goals, err := goalsOf(r)
	if err != nil {
		return err
	}
	written, err := plots.Draw(r, to, goals...)
	return errors.Join(printLines(std, written), err)
}

func printLines(std stdio, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(std.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// salvage reads a run's folder and says which files of it are damaged.
func salvage(command, dir string, std stdio) (*resultfile.Result, error) {
	r, err := resultfile.Salvage(dir)
	if err != nil {
		return nil, err
	}
	for _, fault := range r.Faults() {
		fmt.Fprintf(std.Err, "testbed %s: damaged, and so left out: %v\n", command, fault)
	}
	return r, nil
}

// parseFailure makes a usage error of what is wrong with flags; a call for
// help is none.
func parseFailure(err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return usageError{err}
}
