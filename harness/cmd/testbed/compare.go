package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

func compareCommand() command {
	return command{name: "compare", summary: "print rates and ratios of a run, or two runs side by side", prints: true, run: runCompare}
}

func runCompare(_ context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("compare", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	asJSON := flags.Bool("json", false, "print the numbers as JSON")
	asMarkdown := flags.Bool("markdown", false, "print the tables as Markdown")
	ratios := flags.Bool("ratios", false, "of one run, print rates and ratios alone, and neither costs nor anything else")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed compare DIR [DIR] [--ratios] [--json | --markdown]

With one run: its rates, how many times as fast each system is as RabbitMQ and
ActiveMQ, what it cost, and whatever else its figures show, with intervals. With
two: each system's rate in the first and in the second run, every other quantity
of their figures, and whether they differ beyond noise. An attempt whose file is
damaged is named and left out.

`, flags.FlagUsagesWrapped(helpWidth), `
Examples:
  testbed compare --ratios results/local/20261130T120000Z-fig4-producer
  testbed compare results/local/20261130T120000Z-fig4-producer results/local/20261201T120000Z-fig4-producer
`)
	}
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() < 1 || flags.NArg() > 2 {
		return usagef("one or two folders of runs are wanted, not %d", flags.NArg())
	}
	if *asJSON && *asMarkdown {
		return usagef("--json and --markdown exclude each other")
	}
	if *ratios && (*asJSON || flags.NArg() == 2) {
		return usagef("--ratios is for the tables of one run")
	}
	var runs []*resultfile.Result
	for _, dir := range flags.Args() {
		r, err := salvage("compare", dir, std)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	if len(runs) == 2 {
		c := plots.Compare(runs[0], runs[1])
		return printAs(std.Out, *asJSON, *asMarkdown, c, c.Text, c.Markdown)
	}
	r, text, markdown := runs[0], plots.RatesTable, plots.RatesMarkdown
	if *ratios {
		text, markdown = plots.RatiosTable, plots.RatiosMarkdown
	}
	return printAs(std.Out, *asJSON, *asMarkdown, plots.RatesOf(r),
		func(w io.Writer) error { return text(w, r) },
		func(w io.Writer) error { return markdown(w, r) })
}

func printAs(w io.Writer, asJSON, asMarkdown bool, numbers any, text, markdown func(io.Writer) error) error {
	switch {
	case asJSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(numbers)
	case asMarkdown:
		return markdown(w)
	}
	return text(w)
}
