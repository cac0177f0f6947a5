package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
	"kafkalab/harness/raid"
	"kafkalab/harness/scenario"
)

func upCommand() command {
	return command{name: "up", summary: "make the two emulated hosts and their link, or reach the real ones, and measure the link", run: runUp}
}

func downCommand() command {
	return command{name: "down", summary: "remove the emulated hosts, with everything that runs in them, and their RAID 10", run: runDown}
}

// cleanUpWait bounds what is done after an interruption.
const cleanUpWait = 8 * time.Second

func runUp(ctx context.Context, args []string, std stdio) (err error) {
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	file := testbedFlag(flags)
	raid10 := raidFlag(flags, "make a RAID 10 of six files, in btrfs, for the broker's data too: \"testbed run --raid10\" uses it")
	look := flags.Duration("look-time", defaultLook, "how long each way of the link is measured. At least 100ms; less than 1s is for a look at the path, no measurement")
	diskSize := flags.String("disk-size", "", "`size` of each of the six files, such as 2GiB; the RAID holds three times that (default 6GiB)")
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed up [--testbed FILE] [--raid10 [--disk-size SIZE]]

Makes two network namespaces and a link between them that is held to what a
1 Gb/s wire gives, printing each command. With a testbed file of real hosts it
makes nothing, and sees whether they can be reached. Then it measures the link
both ways, and fails if that is not within 5 % of the declared rate.

With --raid10 it also makes six files beside the broker host's dir, in
DIR-raid10, each behind a loop device, and on them a btrfs file system that
keeps data and metadata in RAID 10. They are on one disk all the same: a RAID
in its structure and in what it writes, not in its speed.

`, flags.FlagUsagesWrapped(helpWidth), `
Examples:
  sudo testbed up
  sudo testbed up --raid10 && sudo testbed run --raid10
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *look < leastLook {
		return usagef("--look-time %v: at least %v is wanted", *look, leastLook)
	}
	tb, err := scenario.LoadTestbed(*file)
	if err != nil {
		return err
	}
	array := raidOf(tb)
	if *diskSize != "" {
		if !*raid10 {
			return usagef("--disk-size is of the files that --raid10 makes")
		}
		if array.DiskBytes, err = parseSize(*diskSize); err != nil {
			return usagef("--disk-size %s: %w", *diskSize, err)
		}
	}
	if *raid10 {
		if err := errors.Join(needsEmulated(tb), array.Validate()); err != nil {
			return usageError{err}
		}
	}
	release, err := holdHere(tb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if tb.Kind != host.Namespace {
		return measureLink(ctx, tb, *look, std)
	}
	made, err := makeBed(ctx, tb.Link, array, *raid10, std)
	if err == nil {
		err = measureLink(ctx, tb, *look, std)
	}
	if err == nil {
		return nil
	}
	// What this call has made is of no use, nor to be left behind.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	return errors.Join(err, made.remove(dctx, tb.Link, array, std))
}

// made says what a call has made that was not there before.
type made struct{ link, array bool }

func (m made) remove(ctx context.Context, l link.Config, array raid.Config, std stdio) error {
	var errs []error
	if m.link {
		errs = append(errs, link.Down(ctx, l, std.Err))
	}
	if m.array {
		errs = append(errs, raid.Down(ctx, array, std.Err))
	}
	return errors.Join(errs...)
}

// makeBed makes the emulated hosts and, if it is wanted, the RAID 10.
func makeBed(ctx context.Context, l link.Config, array raid.Config, raid10 bool, std stdio) (m made, err error) {
	there, err := link.Exists(ctx, l)
	if err != nil {
		return m, err
	}
	if err := link.Up(ctx, l, std.Err); err != nil {
		return m, err
	}
	m.link = !there
	if there {
		fmt.Fprintln(std.Err, "the namespaces were there already")
	}
	if !raid10 {
		return m, nil
	}
	if there, err = raid.Exists(array); err != nil {
		return m, err
	}
	if err := raid.Up(ctx, array, std.Err); err != nil {
		return m, err
	}
	m.array = !there
	if there {
		fmt.Fprintln(std.Err, "the RAID 10 was there already")
	}
	return m, nil
}

// measureLink opens both hosts and measures the link between them, for look each
// way.
func measureLink(ctx context.Context, tb scenario.Testbed, look time.Duration, std stdio) (err error) {
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
	release, err := holdThere(ctx, tb, broker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return link.Measure(ctx, client, broker, tb.Link.RateMbps, look, std.Out)
}

func closeHost(ctx context.Context, h host.Host) error {
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	return h.Close(cctx)
}

func runDown(ctx context.Context, args []string, std stdio) (err error) {
	flags := pflag.NewFlagSet("down", pflag.ContinueOnError)
	flags.SetOutput(std.Out)
	file := testbedFlag(flags)
	flags.Usage = func() {
		fmt.Fprint(std.Out, `Usage: testbed down [--testbed FILE]

Removes the two network namespaces that "testbed up" made, and ends everything
that runs in them, and the RAID 10. What is not there is no fault. Of real hosts there is nothing
to remove: each run removes its own.

`, flags.FlagUsagesWrapped(helpWidth), `
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
	release, err := holdHere(tb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	// Often called after Ctrl-C, and a second one must not leave half of it.
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
	defer cancel()
	err = link.Down(dctx, tb.Link, std.Err)
	// The processes that used it are gone now. It has a bound of its own: a
	// guard that removes a run's files may hold it for a while.
	return errors.Join(err, raid.Down(context.WithoutCancel(ctx), raidOf(tb), std.Err))
}
