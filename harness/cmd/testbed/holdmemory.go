package main

import (
	"bufio"
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

// heldMemory is what "testbed hold-memory" says once it holds what it can, and after
// each touching.
type heldMemory struct {
	measure.Held
	Needed bool `json:"needed"` // the machine's own host may take back what is free
}

// touchAsk is what asks it to touch what is left free.
const touchAsk = "touch\n"

// memoryHold keeps the broker host's own host, if that is a virtual machine, from
// taking back its free memory while a run measures.
type memoryHold struct {
	bytes   int64 // held when it began; 0: there was no need, and nothing runs
	broker  host.Host
	process host.Process
	ask     *io.PipeWriter
	answer  *host.Answers
	said    *host.Tail
}

func holdMemory(ctx context.Context, broker host.Host, std stdio) (*memoryHold, error) {
	program, err := broker.Binary(ctx, "testbed")
	if err != nil {
		return nil, err
	}
	in, ask := io.Pipe()
	h := &memoryHold{broker: broker, ask: ask, answer: host.NewAnswers(1, 1<<10), said: host.NewTail(1 << 10)}
	h.process, err = broker.Start(ctx, host.Command{
		Name: "testbed hold-memory", Args: []string{program, "hold-memory"}, In: in, Out: h.answer, Err: h.said,
	})
	if err != nil {
		return nil, errors.Join(err, ask.Close())
	}
	began := time.Now()
	note := time.AfterFunc(2*time.Second, func() {
		fmt.Fprintln(std.Err, "Right before the run: taking hold of the broker host's free memory, which its own host would take back. Up to some minutes")
	})
	limit, cancel := context.WithTimeout(ctx, holdMemoryLimit)
	defer cancel()
	var got heldMemory
	err = h.answer.Next(limit, h.process, &got)
	note.Stop()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holding the free memory of %s: %w: %s", broker.Name(), err, h.said), h.end(ctx))
	}
	if !got.Needed {
		return h, h.end(ctx)
	}
	h.bytes = got.Bytes
	fmt.Fprintf(std.Err, "Right before the run: %s of free memory held on %s after %.0f s; given up as others want it\n", host.FormatSize(got.Bytes), broker.Name(), time.Since(began).Seconds())
	return h, nil
}

// touch has what is left free touched, since it is to count from now on.
func (h *memoryHold) touch(ctx context.Context) (measure.Held, error) {
	limit, cancel := context.WithTimeout(ctx, holdMemoryLimit)
	defer cancel()
	var got heldMemory
	_, err := io.WriteString(h.ask, touchAsk)
	if err == nil {
		err = h.answer.Next(limit, h.process, &got)
	}
	if err != nil {
		return got.Held, fmt.Errorf("touching the free memory of %s: %w: %s", h.broker.Name(), err, h.said)
	}
	return got.Held, nil
}

// giveUp ends it, and says so if it was not there to the end.
func (h *memoryHold) giveUp(ctx context.Context) error {
	if h.bytes == 0 {
		return nil
	}
	select {
	case <-h.process.Done():
		why := cmp.Or(h.process.Wait(context.WithoutCancel(ctx)), errors.New("the process that held it ended by itself"))
		return errors.Join(fmt.Errorf("the free memory of %s was not held to the end, so that rates may spread: %w: %s", h.broker.Name(), why, h.said), h.end(ctx))
	default:
		return h.end(ctx)
	}
}

func (h *memoryHold) end(ctx context.Context) error {
	return errors.Join(h.ask.Close(), h.process.Stop(context.WithoutCancel(ctx), holdMemoryGrace))
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
For each line of the input, most of what is left free is touched, which another line
of JSON tells. "testbed run" starts it on the broker host.

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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan struct{})
	// As with untilEOF, it ends with the input, or with the program.
	go func() {
		defer cancel(nil)
		for asked := bufio.NewScanner(std.In); asked.Scan(); {
			select {
			case lines <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	out := json.NewEncoder(std.Out)
	var failed error
	err := measure.HoldMemory(ctx, *most, lines, func(held measure.Held) {
		if err := out.Encode(heldMemory{held, true}); err != nil {
			failed = err
			cancel(err)
		}
	})
	return errors.Join(err, failed)
}
