package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/harness/measure"
)

// How long the memory of a machine may take to be held, at 100 MB/s or more, and
// how long the process that holds it may take to end.
const (
	holdMemoryLimit = 20 * time.Minute
	holdMemoryGrace = 5 * time.Second
)

// heldMemory is what "testbed hold-memory" says once it holds what it can.
type heldMemory struct {
	Bytes  int64 `json:"bytes"`
	Needed bool  `json:"needed"` // the machine's own host may take back what is free
}

// holdMemory keeps the broker host's own host, if that is a virtual machine, from
// taking back its free memory while a run measures. bytes is what is held when it
// begins; 0: there was no need. giveUp ends that, and says so if it was not held to the end.
func holdMemory(ctx context.Context, broker host.Host, std stdio) (bytes int64, giveUp func() error, err error) {
	program, err := broker.Binary(ctx, "testbed")
	if err != nil {
		return 0, nil, err
	}
	in, keep := io.Pipe()
	answer := host.NewAnswers(1, 1<<10)
	said := host.NewTail(1 << 10)
	p, err := broker.Start(ctx, host.Command{
		Name: "testbed hold-memory", Args: []string{program, "hold-memory"}, In: in, Out: answer, Err: said,
	})
	if err != nil {
		return 0, nil, errors.Join(err, keep.Close())
	}
	end := func() error {
		return errors.Join(keep.Close(), p.Stop(context.WithoutCancel(ctx), holdMemoryGrace))
	}
	began := time.Now()
	note := time.AfterFunc(2*time.Second, func() {
		fmt.Fprintln(std.Err, "Right before the run: taking hold of the broker host's free memory, which its own host would take back. Up to some minutes")
	})
	limit, cancel := context.WithTimeout(ctx, holdMemoryLimit)
	defer cancel()
	var got heldMemory
	err = answer.Next(limit, p, &got)
	note.Stop()
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("holding the free memory of %s: %w: %s", broker.Name(), err, said), end())
	}
	if !got.Needed {
		return 0, func() error { return nil }, end()
	}
	fmt.Fprintf(std.Err, "Right before the run: %s of free memory held on %s after %.0f s; given up as others want it\n", host.FormatSize(got.Bytes), broker.Name(), time.Since(began).Seconds())
	return got.Bytes, func() error {
		select {
		case <-p.Done():
			why := cmp.Or(p.Wait(context.WithoutCancel(ctx)), errors.New("the process that held it ended by itself"))
			return errors.Join(fmt.Errorf("the free memory of %s was not held to the end, so that rates may spread: %w: %s", broker.Name(), why, said), end())
		default:
			return end()
		}
	}, nil
}

// holdMemoryCommand is what the testbed runs on the broker host during a run.
func holdMemoryCommand() command {
	return command{name: "hold-memory", summary: "hold free memory until the end of standard input", hidden: true, run: runHoldMemory}
}

func runHoldMemory(ctx context.Context, args []string, std stdio) error {
	flags := pflag.NewFlagSet("hold-memory", pflag.ContinueOnError)
	flags.SetOutput(std.Err)
	most := flags.Int64("most", 0, "`bytes` to hold at most; 0: as much as there is")
	flags.Usage = func() {
		fmt.Fprint(std.Err, `Usage: testbed hold-memory [--most BYTES] < SOMETHING-THAT-STAYS-OPEN

Where this is a virtual machine whose host takes back memory that is free, and
gives it again only slowly, holds all but 1 GB of what is free, gives it up as
others want it, and takes what they give up, until the end of standard input.
A line of JSON says how much that is, once it is held, or that there is no need.
"testbed run" starts it on the broker host.

`, flags.FlagUsagesWrapped(helpWidth), `
Example:
  sleep 60 | testbed hold-memory
`)
	}
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *most < 0 {
		return usagef("--most %d: 0 or more is wanted", *most)
	}
	if !measure.TakesMemoryBack() {
		return json.NewEncoder(std.Out).Encode(heldMemory{})
	}
	var failed error
	err := measure.HoldMemory(untilEOF(ctx, std.In), *most, func(held int64) {
		failed = json.NewEncoder(std.Out).Encode(heldMemory{Bytes: held, Needed: true})
	})
	return errors.Join(err, failed)
}
