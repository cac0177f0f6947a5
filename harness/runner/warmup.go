package runner

import (
	"context"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
)

// warmUpOn sends messages to the warm-up queue, waits until the server has
// them and consumes them all, so that the measured queue is the only one that
// holds anything. Sending may take its share of the cap.
func (c *client) warmUpOn(ctx context.Context, conn driver.Client) error {
	queue := c.spec.WarmUpQueue
	runID := c.spec.RunID + 1 // a message that strays into the other queue is found out
	producer, err := conn.Producer(ctx, queue)
	if err != nil {
		return fmt.Errorf("producer for %s: %w", queue, err)
	}
	generator, err := workload.NewGenerator(runID, c.spec.PayloadBytes)
	if err != nil {
		return err
	}
	over, stop := afterCap(c.spec.Cap / warmUpShare)
	defer stop()
	var sent int64
	for sent < c.spec.WarmUpMessages && !over.Load() {
		if err := producer.Send(ctx, generator.Next()); err != nil {
			return fmt.Errorf("sending message %d: %w", sent, err)
		}
		sent++
		c.moved.Add(1)
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("flushing after %d messages: %w", sent, err)
	}
	if err := c.awaitWarmUp(ctx, conn, sent); err != nil {
		return err
	}
	return c.emptyWarmUp(ctx, conn, runID, sent)
}

func (c *client) awaitWarmUp(ctx context.Context, conn driver.Client, sent int64) error {
	t := time.NewTicker(arrivedInterval)
	defer t.Stop()
	for last := int64(-1); ; {
		n, err := conn.Arrived(ctx, c.spec.WarmUpQueue)
		if err != nil {
			return fmt.Errorf("asking the server for its count: %w", err)
		}
		if n >= sent {
			return nil
		}
		if n != last {
			last = n
			c.moved.Add(1)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("of %d messages sent, %d had arrived: %w", sent, n, context.Cause(ctx))
		}
	}
}

func (c *client) emptyWarmUp(ctx context.Context, conn driver.Client, runID uint64, sent int64) error {
	consumer, err := conn.Consumer(ctx, c.spec.WarmUpQueue)
	if err != nil {
		return fmt.Errorf("consumer of %s: %w", c.spec.WarmUpQueue, err)
	}
	checker := workload.NewChecker(runID)
	take := func(payload []byte) error {
		c.moved.Add(1)
		return checker.Check(payload)
	}
	for checker.Received() < sent {
		if err := consumer.Receive(ctx, take); err != nil {
			return fmt.Errorf("receiving message %d of %d: %w", checker.Received(), sent, err)
		}
	}
	return checker.Result(sent).Err()
}
