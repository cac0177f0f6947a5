package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/harness/workload"
)

// consume receives the backlog: the measured phase, if there is one, until all
// is there or the cap is reached; then the phase verify, which receives what
// is left. Every message is checked in both.
//
// The clock runs from the first Receive, which asks the server for messages, so
// that what the first answer takes is part of the time.
func (c *client) consume(ctx context.Context, conn driver.Client) error {
	in, err := c.newIntake(ctx, conn, c.spec.Queue, c.newChecker())
	if err != nil {
		return err
	}
	if c.spec.Measured {
		if err := c.phase(ctx, Measure); err != nil {
			return err
		}
		if err := c.measureConsume(ctx, in); err != nil {
			return c.conclude(ctx, err, in)
		}
	}
	if err := c.phase(ctx, Verify); err != nil {
		return c.conclude(ctx, err, in)
	}
	return c.conclude(ctx, in.verify(ctx, c.spec.VerifyLimit), in)
}

func (c *client) measureConsume(ctx context.Context, in *intake) error {
	recorder, err := c.newRecorder()
	if err != nil {
		return err
	}
	over, stop := afterCap(c.spec.Cap)
	defer stop()
	processor := processorSeconds()
	recorder.Start()
	in.recorder = recorder
	for err == nil && in.received < c.spec.Messages && !over.Load() {
		err = in.consumer.Receive(ctx, in.handle)
	}
	end := recorder.Stop()
	in.recorder = nil
	c.result.CPUSeconds = processorSeconds() - processor
	c.result.Messages, c.result.Seconds = end.Messages, end.Seconds
	c.result.Sent, c.result.ClientSeconds = end.Messages, end.Seconds
	c.result.Cut = err == nil && in.received < c.spec.Messages
	return err
}

// checker looks at every message of a queue: [workload.Checker], or shares.
type checker interface {
	Check(payload []byte) error
	Result(expected int64) workload.Result
}

// newChecker returns the checker of what one producer has sent, or several.
func (c *client) newChecker() checker {
	if len(c.spec.Shares) == 0 {
		return workload.NewChecker(c.spec.RunID)
	}
	return newShares(c.spec.RunID, c.spec.Shares)
}

// intake receives messages and checks them.
type intake struct {
	client   *client
	consumer driver.Consumer
	checker  checker
	recorder *measure.Recorder // nil outside the measured phase
	received int64
	partly   bool // the time was over before all was there
}

func (c *client) newIntake(ctx context.Context, conn driver.Client, queue string, checker checker) (*intake, error) {
	consumer, err := conn.Consumer(ctx, queue)
	if err != nil {
		return nil, fmt.Errorf("consumer of %s: %w", queue, err)
	}
	return &intake{client: c, consumer: consumer, checker: checker}, nil
}

// receive receives until so many have come.
func (in *intake) receive(ctx context.Context, wanted int64) error {
	for in.received < wanted {
		if err := in.consumer.Receive(ctx, in.handle); err != nil {
			return fmt.Errorf("receiving message %d of %d: %w", in.received, wanted, err)
		}
	}
	return nil
}

// handle takes one message. It ends the measured time with the last message
// of the backlog, not with the end of the pull that held it.
func (in *intake) handle(payload []byte) error {
	in.received++
	if in.recorder == nil {
		in.client.moved.Add(1)
		return in.checker.Check(payload)
	}
	err := in.checker.Check(payload)
	if in.received <= in.client.spec.Messages {
		in.recorder.Add(1)
	}
	if in.received == in.client.spec.Messages {
		in.recorder.Stop()
	}
	return err
}

// verify receives what is left, within limit (0: without), and then looks
// whether more comes than was sent.
func (in *intake) verify(ctx context.Context, limit time.Duration) error {
	over, stop := afterCap(limit)
	defer stop()
	expected := in.client.spec.backlog()
	// Of a queue that delivers messages twice, more must be received than were
	// sent until all have come.
	for in.received < expected || in.checker.Result(expected).Lost > 0 {
		if over.Load() {
			in.partly = true
			return nil
		}
		if err := in.consumer.Receive(ctx, in.handle); err != nil {
			return err
		}
	}
	return surplus(ctx, in.consumer, in.handle)
}

// surplus looks for a while whether more comes than was sent.
func surplus(ctx context.Context, consumer driver.Consumer, handle func([]byte) error) error {
	waiting, cancel := context.WithTimeout(ctx, surplusWait)
	defer cancel()
	for waiting.Err() == nil {
		if err := consumer.Receive(waiting, handle); err != nil && waiting.Err() == nil {
			return fmt.Errorf("looking for messages that were not sent: %w", err)
		}
	}
	return nil
}

// conclude writes down what the contents were. A stall is the end of what
// comes: what is missing then is lost.
func (c *client) conclude(ctx context.Context, err error, all ...*intake) error {
	stalled := errors.Is(context.Cause(ctx), errStalled)
	r := &c.result
	r.Checked = true
	for i, in := range all {
		checked := err == nil && !in.partly || stalled
		r.Checked = r.Checked && checked
		contents := in.checker.Result(c.spec.backlog())
		if !checked {
			contents.Lost = 0 // what has not come yet is not lost
		}
		r.Contents = sum(r.Contents, contents)
		if fault := c.faultOf(contents); fault != nil && r.Fault == "" {
			r.Fault = fault.Error()
			if len(all) > 1 {
				r.Fault = fmt.Sprintf("consumer %d of %d: %s", i+1, len(all), r.Fault)
			}
			if stalled {
				r.Fault = fmt.Sprintf("%s; nothing more came for %v", r.Fault, c.spec.Stall)
			}
		}
	}
	r.Partly = !r.Checked
	return err
}

// faultOf says what is wrong with contents that came; messages out of order are
// only where order was promised.
func (c *client) faultOf(contents workload.Result) error {
	if c.spec.MayReorder {
		contents.Reordered = 0
	}
	return contents.Err()
}

// sum adds up what two consumers found.
func sum(a, b workload.Result) workload.Result {
	return workload.Result{
		Received: a.Received + b.Received, Lost: a.Lost + b.Lost, Doubled: a.Doubled + b.Doubled,
		Damaged: a.Damaged + b.Damaged, Foreign: a.Foreign + b.Foreign,
		Reordered: a.Reordered + b.Reordered, Unexpected: a.Unexpected + b.Unexpected,
	}
}
