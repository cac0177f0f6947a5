package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// sampleCommand is what the testbed starts on each host to sample it: JSON
// lines of [measure.Stamped] on standard output, the first at once.
func sampleCommand() command {
	return command{name: "sample", summary: "sample this host's resources", hidden: true, run: runSample}
}

func runSample(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	var cfg measure.SamplerConfig
	flags.IntSliceVar(&cfg.PIDs, "pids", nil, "`processes` whose use of the machine is added up, by number, with commas between")
	flags.StringVar(&cfg.Device, "device", "", "network `device` to count; none: no network")
	flags.StringVar(&cfg.DiskPath, "disk-path", "", "`folder` on the disk to count; none: no disk")
	flags.StringVar(&cfg.MetricsURL, "metrics-url", "", "`page` of metrics for Prometheus of a Go program, for the time of its garbage collection; asked once a second at most; none: not known")
	interval := flags.Duration("interval", 500*time.Millisecond, "time between two samples")
	flags.Usage = func() {
		fmt.Fprintf(std.Out, "testbed sample prints this host's resources as JSON lines until its standard input ends.\n\n%s\n"+
			"Example:\n  testbed sample --device eth0 --disk-path /var/lib --interval 1s\n", flags.FlagUsagesWrapped(helpWidth))
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *interval <= 0 {
		return usagef("--interval %v: more than 0 is wanted", *interval)
	}
	sampler, err := measure.NewSampler(cfg)
	if err != nil {
		return err
	}
	out := json.NewEncoder(std.Out)
	return sampler.Run(untilEOF(ctx, std.In), *interval, func(s resultfile.Sample) error { return out.Encode(sampler.Stamp(s)) })
}

// parseFlags parses the flags of a command that takes no arguments.
func parseFlags(flags *pflag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return parseFailure(err)
	}
	if flags.NArg() > 0 {
		return usagef("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// untilEOF returns a context that ends with ctx, and when in ends: a hidden
// command does not outlive whoever started it, even if that was killed.
// The goroutine that reads cannot be interrupted; it ends with in, or with the
// program.
func untilEOF(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// What is read has no meaning, and a failure is an end as well.
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx
}
