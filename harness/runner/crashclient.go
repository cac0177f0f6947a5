package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
)

// StockSpec is what a client is told that counts what is there after a crash.
type StockSpec struct {
	// Promised is how many messages, from the first on, the server had confirmed.
	Promised int64 `json:"promised"`
}

// settleAnswers is how long a producer has, once it is told that the server
// has gone, to hear what the server had said before.
const settleAnswers = time.Second

var errToldToStop = errors.New("told that the broker is gone")

// crash sends until the server goes: at the first error, or when it is told.
// How far the server had confirmed is asked for after that.
func (c *client) crash(ctx context.Context, conn driver.Client) error {
	producer, generator, recorder, err := c.prepare(ctx, conn)
	if err != nil {
		return err
	}
	if err := c.phase(ctx, Measure); err != nil {
		return err
	}

	// A Send that blocks is broken off when the runner says so.
	sending, stop := context.WithCancelCause(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		select {
		case <-c.proceed:
			stop(errToldToStop)
		case <-sending.Done():
		}
	}()
	processor := processorSeconds()
	recorder.Start()
	var sent int64
	for sent < c.spec.Messages {
		if err = producer.Send(sending, generator.Next()); err != nil {
			break
		}
		sent++
		recorder.Add(1)
	}
	end := recorder.Stop()
	c.link.send(Event{Phase: Drain})
	told := errors.Is(context.Cause(sending), errToldToStop)
	stop(nil)
	<-listening
	c.result.CPUSeconds = processorSeconds() - processor
	c.result.Sent, c.result.Messages = sent, sent
	c.result.Seconds, c.result.ClientSeconds = end.Seconds, end.Seconds
	c.result.Cut = err == nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.result.Ended = err.Error()
	}
	if told {
		c.result.Ended = reason(sending, err)
		settling, cancel := context.WithTimeout(ctx, settleAnswers)
		defer cancel()
		_ = producer.Flush(settling) // that it fails is known
	}
	if p, ok := producer.(driver.Promiser); ok {
		c.result.Promised = min(p.Promised(), sent)
	}
	return nil
}

// stockQuiet is how long nothing more may come until all that is there is
// thought to have come.
const stockQuiet = 500 * time.Millisecond

// takeStock consumes everything that the server holds after it has come back,
// and counts what is missing of what was sent and of what was promised.
func (c *client) takeStock(ctx context.Context, conn driver.Client) error {
	arrived, err := conn.Arrived(ctx, c.spec.Queue)
	if err != nil {
		return fmt.Errorf("asking the server for its count: %w", err)
	}
	if err := c.phase(ctx, Verify); err != nil {
		return err
	}
	checker := workload.NewChecker(c.spec.RunID)
	err = c.receiveAll(ctx, conn, checker, arrived)
	r := &c.result
	r.Sent = c.spec.Messages
	r.Contents = checker.Result(r.Sent)
	if r.Contents.Unexpected == 1 && checker.Result(r.Sent+1).Unexpected == 0 {
		// The message whose Send failed had been handed over all the same.
		r.Sent++
		r.Contents = checker.Result(r.Sent)
	}
	r.LostPromised = checker.Result(c.spec.Stock.Promised).Lost
	r.Messages = checker.Received()
	if errors.Is(context.Cause(ctx), errStalled) {
		r.Checked = true
		r.Fault = fmt.Sprintf("after the crash the server counts %d messages, but after %d no more came for %v", arrived, checker.Received(), c.spec.Stall)
		return context.Cause(ctx)
	}
	r.Checked = err == nil
	return err
}

// receiveAll receives so many messages, and what comes behind them.
func (c *client) receiveAll(ctx context.Context, conn driver.Client, checker *workload.Checker, arrived int64) error {
	in, err := c.newIntake(ctx, conn, c.spec.Queue, checker)
	if err != nil {
		return err
	}
	if err := in.receive(ctx, arrived); err != nil {
		return err
	}
	for {
		before := in.received
		quiet, cancel := context.WithTimeout(ctx, stockQuiet)
		err := in.consumer.Receive(quiet, in.handle)
		over := quiet.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !over:
			return fmt.Errorf("looking for more than the %d messages that the server counts: %w", arrived, err)
		case over && in.received == before:
			return nil
		}
	}
}
