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
	"golang.org/x/sys/unix"

	"kafkalab/harness/host"
	"kafkalab/harness/measure"
)

// holdMemoryLimit is how long the memory of a machine may take to be held, at 100
// MB/s or more.
var holdMemoryLimit = 20 * time.Minute

// holdMemoryGrace is how long the process that holds it may take to end.
const holdMemoryGrace = 5 * time.Second

// heldMemory is what "testbed hold-memory" says once it holds what it can, and after
// each touching.
type heldMemory struct {
	measure.Held
	Needed bool   `json:"needed"`            // the machine's own host takes back what is free
	WhyNot string `json:"why_not,omitempty"` // why it is not held although there is need
}

// touchAsk asks it to touch what is left free, and holdAsk only to say when it holds
// again what has come free.
const (
	touchAsk = "touch\n"
	holdAsk  = "hold\n"
)

// memoryHold keeps the broker host's own host, if that is a virtual machine, from
// taking back its free memory while a run measures. Its methods are for one
// goroutine at a time.
type memoryHold struct {
	bytes   int64 // held when it began; 0: there was no need, or it cannot be
	over    bool  // it has been ended
	lost    error // why it was not there to the end
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
	if ctx.Err() != nil {
		return nil, errors.Join(fmt.Errorf("interrupted while the free memory of %s was taken hold of", broker.Name()), h.end(ctx))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		got, err = heldMemory{WhyNot: fmt.Sprintf("it could not be taken within %v", holdMemoryLimit)}, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("holding the free memory of %s: %w: %s", broker.Name(), err, h.said), h.end(ctx))
	}
	if got.WhyNot != "" {
		fmt.Fprintf(std.Err, "Right before the run: the free memory of %s is not held, so that rates may spread: %s\n", broker.Name(), got.WhyNot)
	}
	if !got.Needed || got.WhyNot != "" {
		return h, h.end(ctx)
	}
	h.bytes = got.Bytes
	fmt.Fprintf(std.Err, "Right before the run: %s of free memory held on %s after %.0f s; given up as others want it\n", host.FormatSize(got.Bytes), broker.Name(), time.Since(began).Seconds())
	return h, nil
}

// hold waits until what has come free is held again.
func (h *memoryHold) hold(ctx context.Context) error {
	_, err := h.answerTo(ctx, holdAsk)
	return err
}

// touch has what is left free touched, since it is to count from now on.
func (h *memoryHold) touch(ctx context.Context) (measure.Held, error) {
	return h.answerTo(ctx, touchAsk)
}

// answerTo is what it says to a line. When it says nothing any more it is over, and
// the error of the first call tells; there is none after that.
func (h *memoryHold) answerTo(ctx context.Context, line string) (measure.Held, error) {
	if h.over {
		return measure.Held{}, nil
	}
	limit, cancel := context.WithTimeout(ctx, holdMemoryLimit)
	defer cancel()
	var got heldMemory
	err := h.ended(ctx) // nobody would take the line
	if err == nil {
		_, err = io.WriteString(h.ask, line)
	}
	if err == nil {
		err = h.answer.Next(limit, h.process, &got)
	}
	switch {
	case err == nil:
		return got.Held, nil
	case ctx.Err() != nil:
		return measure.Held{}, fmt.Errorf("holding the free memory of %s: %w", h.broker.Name(), err)
	}
	return measure.Held{}, h.lose(ctx, err)
}

// giveUp ends it, and says so if it was not there to the end.
func (h *memoryHold) giveUp(ctx context.Context) error {
	if !h.over {
		if err := h.ended(ctx); err != nil {
			return h.lose(ctx, err)
		}
	}
	return errors.Join(h.lost, h.end(ctx))
}

// ended says how the process has ended; nil: it has not.
func (h *memoryHold) ended(ctx context.Context) error {
	select {
	case <-h.process.Done():
		return cmp.Or(h.process.Wait(context.WithoutCancel(ctx)), errors.New("the process that held it ended by itself"))
	default:
		return nil
	}
}

func (h *memoryHold) lose(ctx context.Context, why error) error {
	h.lost = errors.Join(fmt.Errorf("the free memory of %s was not held to the end, so that rates may spread: %w: %s", h.broker.Name(), why, h.said), h.end(ctx))
	return h.lost
}

// end gives up what is held. It is idempotent.
func (h *memoryHold) end(ctx context.Context) error {
	if h.over {
		return nil
	}
	h.over = true
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
Meanwhile the kernel's limits of what waits to be written (vm.dirty_ratio,
vm.dirty_background_ratio) stand at the bytes that they were, which needs root.
A line of JSON says how much that is, once it is held, or that there is no need,
or why it cannot be. For each line of the input there is another one, once what has
come free is held again; for the line "touch" most of what is left free is touched
first. "testbed run" starts it on the broker host.

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
	out := json.NewEncoder(std.Out)
	if !measure.TakesMemoryBack() {
		return out.Encode(heldMemory{})
	}
	why, err := measure.WhyNotHold()
	if err != nil {
		return err
	}
	if why != "" {
		return out.Encode(heldMemory{Needed: true, WhyNot: why})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	touch := make(chan bool)
	// As with untilEOF, it ends with the input, or with the program.
	go func() {
		defer cancel(nil)
		for asked := bufio.NewScanner(std.In); asked.Scan(); {
			select {
			case touch <- asked.Text()+"\n" == touchAsk:
			case <-ctx.Done():
				return
			}
		}
	}()
	restored := make(chan error, 1)
	if *most == 0 {
		limits, err := measure.KeepDirtyLimits()
		if err != nil { // without it writers would be held back sooner than on a machine that holds nothing
			return out.Encode(heldMemory{Needed: true, WhyNot: err.Error()})
		}
		// At once: what is held takes a while to be given up.
		context.AfterFunc(ctx, func() { restored <- limits.Restore() })
	} else {
		restored <- nil
	}
	told := false
	var failed error
	err = measure.HoldMemory(ctx, *most, touch, func(held measure.Held) {
		told = true
		if err := out.Encode(heldMemory{Held: held, Needed: true}); err != nil {
			failed = err
			cancel(err)
		}
	})
	cancel(nil)
	failed = errors.Join(failed, <-restored)
	if !told && errors.Is(err, unix.ENOMEM) { // the kernel, or a limit of the process, is strict with what is mapped
		return errors.Join(out.Encode(heldMemory{Needed: true, WhyNot: err.Error()}), failed)
	}
	return errors.Join(err, failed)
}
