package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"kafkalab/harness/env"
	"kafkalab/harness/host"
	"kafkalab/harness/link"
	"kafkalab/harness/measure"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// How long each way of the link is looked at before a run; the disk gets half
// of it each way, and so do the clocks, and the harness a third for each work
// and size of payload. What was measured for less than shortLook is marked.
const (
	defaultLook = 3 * time.Second
	leastLook   = 100 * time.Millisecond
	shortLook   = time.Second
)

// lookAtTestbed measures what the hosts and the link give right before a run.
func lookAtTestbed(ctx context.Context, tb scenario.Testbed, plan runner.Plan, look time.Duration, run *resultfile.Run, std stdio) error {
	if err := describeDisk(ctx, plan.Broker, look/2, &run.Testbed.BrokerHost); err != nil {
		return err
	}
	if err := measureGoodput(ctx, tb, plan, look, &run.Testbed, std); err != nil {
		return err
	}
	if err := measureUnshaped(ctx, plan, look, &run.Testbed, std); err != nil {
		return err
	}
	if err := measureClocks(ctx, plan, look/2, &run.Testbed, std); err != nil {
		return err
	}
	if err := measureCeilings(ctx, plan, look/3, run, std); err != nil {
		return err
	}
	if look < shortLook {
		run.Testbed.BrokerHost.Facts = append(run.Testbed.BrokerHost.Facts, resultfile.Fact{
			Name: resultfile.ShortLook, Value: fmt.Sprintf("%v only: what is said of link, disk, clock and harness is no measurement", look),
		})
	}
	return nil
}

// describeDisk measures the disk below the broker's data. One that cannot be
// measured is no reason not to run, and is described as such.
func describeDisk(ctx context.Context, broker host.Host, each time.Duration, into *resultfile.Host) error {
	rate, err := env.AskDiskRate(ctx, broker, each)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	facts := rate.Facts()
	if err != nil {
		facts = env.NoDiskRate(err)
	}
	after := slices.IndexFunc(into.Facts, func(f resultfile.Fact) bool { return f.Name == "RAID" }) + 1
	into.Facts = slices.Insert(into.Facts, after, facts...)
	return nil
}

// measureGoodput measures what the link gives at this moment. "testbed up"
// refuses a link that is not what it should be; here that is a warning, since
// the run measures the physical limit by itself and is held against that.
func measureGoodput(ctx context.Context, tb scenario.Testbed, plan runner.Plan, look time.Duration, into *resultfile.Testbed, std stdio) error {
	warn := func(mbps float64) string {
		if want := link.GoodputMbps(tb.Link.RateMbps); want > 0 && math.Abs(mbps-want) > want/20 {
			return fmt.Sprintf(": a quiet link gives %.0f, so the machine is busy or the link is not what it should be, and the figures will show it", want)
		}
		return ""
	}
	var err error
	into.LinkGoodputMbps, into.LinkReverseGoodputMbps, err = bothWays(ctx, plan, look, warn, std)
	return err
}

// bothWays measures and tells what TCP gets of the link forth and back; say adds
// to a line what there is to say of a number.
func bothWays(ctx context.Context, plan runner.Plan, look time.Duration, say func(mbps float64) string, std stdio) (forth, back float64, err error) {
	for _, way := range []struct {
		from, to host.Host
		mbps     *float64
	}{{plan.Client, plan.Broker, &forth}, {plan.Broker, plan.Client, &back}} {
		if *way.mbps, err = link.Goodput(ctx, way.from, way.to, look); err != nil {
			return forth, back, err
		}
		fmt.Fprintf(std.Err, "Right before the run: TCP goodput from %s to %s: %.0f Mbit/s%s\n", way.from.Name(), way.to.Name(), *way.mbps, say(*way.mbps))
	}
	return forth, back, nil
}

// measureUnshaped measures the link without a rate, if one can be taken off and
// a scenario asks for that.
func measureUnshaped(ctx context.Context, plan runner.Plan, look time.Duration, into *resultfile.Testbed, std stdio) (err error) {
	asked := slices.ContainsFunc(plan.Selection.Scenarios, func(s scenario.Scenario) bool { return s.Unshaped })
	if !asked || plan.Unshape == nil {
		return nil
	}
	defer func() {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpWait)
		defer cancel()
		err = errors.Join(err, plan.Unshape(back, false))
	}()
	if err := plan.Unshape(ctx, true); err != nil {
		return err
	}
	into.UnshapedGoodputMbps, into.UnshapedReverseGoodputMbps, err = bothWays(ctx, plan, look, func(float64) string { return " (not held to a rate)" }, std)
	return err
}

// clockFact is the name of the broker host's fact that says how its clock
// stands to the client host's.
const clockFact = "time of day"

// measureClocks finds how the hosts' clocks stand to each other. Where that
// cannot be found, nothing that needs both is said of the run.
func measureClocks(ctx context.Context, plan runner.Plan, limit time.Duration, into *resultfile.Testbed, std stdio) error {
	clock, err := measure.Clocks(ctx, plan.Client, plan.Broker, limit)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := "not known to the client host's: latencies between the hosts are withheld, and each host's samples are on its own clock"
	if err != nil {
		fmt.Fprintf(std.Err, "The hosts' clocks could not be compared: %v\n", err)
	} else {
		into.Clock = &clock
		// Two hosts behind ssh may be containers, say, of one machine.
		into.Emulated = into.Emulated || clock.Same
		text = clockText(clock, plan.Client.Name())
	}
	into.BrokerHost.Facts = append(into.BrokerHost.Facts, resultfile.Fact{Name: clockFact, Value: text})
	if into.Clock != nil && !clock.Same {
		fmt.Fprintf(std.Err, "Right before the run: clock of %s: %s\n", plan.Broker.Name(), text)
	}
	return nil
}

func clockText(c resultfile.Clock, client string) string {
	if c.Same {
		return "one machine with " + client + ", one clock"
	}
	way := "ahead of"
	if c.OffsetSeconds < 0 {
		way = "behind"
	}
	return fmt.Sprintf("%.3f ms %s that of %s, within %.3f ms; samples are shifted to the client host's clock",
		math.Abs(c.OffsetSeconds)*1e3, way, client, c.ErrorSeconds*1e3)
}

// measureCeilings measures on the client host what the harness itself can do
// with each size of payload of the run.
func measureCeilings(ctx context.Context, plan runner.Plan, each time.Duration, run *resultfile.Run, std stdio) error {
	sizes := payloadSizes(plan.Selection)
	if len(sizes) == 0 {
		return nil
	}
	program, err := plan.Client.Binary(ctx, "testbed")
	if err != nil {
		return err
	}
	if err := plan.Client.MkdirAll(ctx, plan.Client.Dir()); err != nil {
		return err
	}
	out, err := plan.Client.Run(ctx, program, "ceiling", "--dir", plan.Client.Dir(), "--time", each.String(), "--payload-bytes", sizes)
	if err == nil {
		err = json.Unmarshal(out, &run.Ceilings)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("measuring the harness's own rate on %s: %w", plan.Client.Name(), err)
	}
	lowest := slices.MinFunc(run.Ceilings, func(a, b resultfile.Ceiling) int { return cmp.Compare(a.MessagesPerSecond, b.MessagesPerSecond) })
	fmt.Fprintf(std.Err, "Right before the run: without a system the harness does at least %s messages/s (%s, payloads of %d bytes)\n",
		thousands(int64(lowest.MessagesPerSecond)), lowest.Work, lowest.PayloadBytes)
	return nil
}

// payloadSizes lists the sizes of payload in a selection, with commas between.
// What has no payloads of the workload has none.
func payloadSizes(sel scenario.Selection) string {
	var sizes []int
	for _, s := range sel.Scenarios {
		if s.Work == resultfile.Rebalance || s.Work == resultfile.Pipeline {
			continue
		}
		for _, sys := range s.Systems {
			sizes = append(sizes, s.PayloadOf(sys))
		}
	}
	slices.Sort(sizes)
	var words []string
	for _, n := range slices.Compact(sizes) {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, ",")
}
