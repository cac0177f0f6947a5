package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
)

// batch is a number of messages of one run and size.
type batch struct {
	runID        uint64
	messages     int64
	payloadBytes int
}

// store sends messages from sequence number 0 unmeasured, for no longer than
// limit (0: without), and returns how many were sent.
func (c *client) store(ctx context.Context, conn driver.Client, queue string, b batch, limit time.Duration) (sent int64, err error) {
	producer, err := conn.Producer(ctx, queue)
	if err != nil {
		return 0, fmt.Errorf("producer for %s: %w", queue, err)
	}
	generator, err := workload.NewGenerator(b.runID, b.payloadBytes)
	if err != nil {
		return 0, err
	}
	over, stop := afterCap(limit)
	defer stop()
	for sent < b.messages && !over.Load() {
		if err := producer.Send(ctx, generator.Next()); err != nil {
			return sent, fmt.Errorf("sending message %d: %w", sent, err)
		}
		sent++
		c.moved.Add(1)
	}
	if err := producer.Flush(ctx); err != nil {
		return sent, fmt.Errorf("flushing after %d messages: %w", sent, err)
	}
	return sent, nil
}

// awaitStored waits until the server counts in a queue what was sent there.
func (c *client) awaitStored(ctx context.Context, conn driver.Client, queue string, sent int64) error {
	t := time.NewTicker(arrivedInterval)
	defer t.Stop()
	for last := int64(-1); ; {
		n, err := conn.Arrived(ctx, queue)
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
			return fmt.Errorf("of %d messages sent, %d had arrived in %s: %w", sent, n, queue, context.Cause(ctx))
		}
	}
}

// fill stores what is to be there when the measuring begins, for each of the
// consumers, and returns when the server has it all.
func (c *client) fill(ctx context.Context, conn driver.Client) error {
	queues, err := c.fanOut(ctx, conn)
	if err != nil {
		return err
	}
	if err := c.phase(ctx, Fill); err != nil {
		return err
	}
	c.result.Sent, err = c.store(ctx, conn, c.spec.Queue, batch{c.spec.RunID, c.spec.Messages, c.spec.PayloadBytes}, c.spec.Cap)
	if err != nil {
		return err
	}
	c.result.Cut = c.result.Sent < c.spec.Messages
	c.result.Queues = queues
	for _, queue := range slices.Compact(slices.Sorted(slices.Values(queues))) {
		if err := c.awaitStored(ctx, conn, queue, c.result.Sent); err != nil {
			return err
		}
		if n, err := conn.Arrived(ctx, queue); err != nil {
			return fmt.Errorf("asking the server for its count: %w", err)
		} else if n > c.result.Sent {
			return fmt.Errorf("the server counts %d messages in %s, but %d were sent", n, queue, c.result.Sent)
		}
	}
	return nil
}

// fanOut finds a queue for each consumer of what is going to be sent.
func (c *client) fanOut(ctx context.Context, conn driver.Client) ([]string, error) {
	if c.spec.Consumers <= 1 {
		return []string{c.spec.Queue}, nil
	}
	f, ok := conn.(driver.FanOut)
	if !ok {
		return nil, fmt.Errorf("%s has no way for one message to reach %d consumers", c.spec.Driver, c.spec.Consumers)
	}
	queues, err := f.FanOut(ctx, c.spec.Queue, c.spec.Consumers)
	if err != nil {
		return nil, fmt.Errorf("queues for %d consumers: %w", c.spec.Consumers, err)
	}
	if len(queues) != c.spec.Consumers {
		return nil, fmt.Errorf("queues for %d consumers: %d were made", c.spec.Consumers, len(queues))
	}
	return queues, nil
}
