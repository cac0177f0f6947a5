package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
	"kafkalab/harness/scenario"
)

func upCommand() command {
	return command{name: "up", summary: "make the two emulated hosts and their link, or reach the real ones, and measure the link", run: runUp}
}

func downCommand() command {
	return command{name: "down", summary: "remove the emulated hosts, with everything that runs in them", run: runDown}
}

// cleanUpWait bounds what is done after an interruption.
const cleanUpWait = 8 * time.Second

func runUp(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	file := testbedFlag(flags)
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed up [--testbed FILE]

Makes two network namespaces and a link between them that is held to what a
1 Gb/s wire gives, printing each command. With a testbed file of real hosts it
makes nothing, and sees whether they can be reached. Then it measures the link
both ways, and fails if that is not within 5 % of the declared rate.

`, flags.FlagUsages(), `
Example:
  sudo testbed up
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	tb, err := scenario.LoadTestbed(*file)
	if err != nil {
		return err
	}
	if tb.Kind != host.Namespace {
		return measureLink(ctx, tb, std)
	}
	there, err := link.Exists(ctx, tb.Link)
	if err != nil {
		return err
	}
	if err := link.Up(ctx, tb.Link, std.Err); err != nil {
		return err
	}
	if there {
		fmt.Fprintln(std.Err, "the namespaces were there already")
	}
	err = measureLink(ctx, tb, std)
	if err == nil || there {
		return err
	}
	// What this call has made is of no use, nor to be left behind.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	return errors.Join(err, link.Down(dctx, tb.Link, std.Err))
}

// measureLink opens both hosts and measures the link between them.
func measureLink(ctx context.Context, tb scenario.Testbed, std stdio) (err error) {
	client, err := host.Open(ctx, tb.ClientHost)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHost(ctx, client)) }()
	broker, err := host.Open(ctx, tb.BrokerHost)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHost(ctx, broker)) }()
	return link.Measure(ctx, client, broker, tb.Link.RateMbps, std.Out)
}

func closeHost(ctx context.Context, h host.Host) error {
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	return h.Close(cctx)
}

func runDown(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("down", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	file := testbedFlag(flags)
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed down [--testbed FILE]

Removes the two network namespaces that "testbed up" made, and ends everything
that runs in them. What is not there is no fault. Of real hosts there is nothing
to remove: each run removes its own.

`, flags.FlagUsages(), `
Example:
  sudo testbed down
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	tb, err := scenario.LoadTestbed(*file)
	if err != nil {
		return err
	}
	if tb.Kind != host.Namespace {
		return nil
	}
	// Often called after Ctrl-C, and a second one must not leave half of it.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	return link.Down(dctx, tb.Link, std.Err)
}
