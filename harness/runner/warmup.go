package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/harness/workload"
)

// warmUp says how the client warms its system up, through a queue of that name.
func (s *Spec) warmUp(queue string, sys scenario.System) {
	s.WarmUpQueue, s.WarmUpMessages, s.WarmUpBytes = queue, sys.WarmUp, sys.WarmUpBytes
	if len(sys.WarmUpOptions) > 0 {
		s.WarmUpOptions = withOptions(sys.Options, sys.WarmUpOptions)
	}
}

// withOptions returns options with others in place of those of their names.
func withOptions(options, others driver.Options) driver.Options {
	o := driver.Options{}
	maps.Copy(o, options)
	maps.Copy(o, others)
	return o
}

// warmUp warms the system up, over a connection that is closed afterwards.
func (c *client) warmUp(ctx context.Context) error {
	if c.spec.WarmUpMessages == 0 {
		return nil
	}
	if err := c.phase(ctx, WarmUp); err != nil {
		return err
	}
	options := c.spec.Options
	if c.spec.WarmUpOptions != nil {
		options = c.spec.WarmUpOptions
	}
	err := c.connectedWith(ctx, options, func(conn driver.Client) error { return c.warmUpOn(ctx, conn) })
	if err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	return nil
}

// warmUpOn sends messages to the warm-up queue, waits until the server has
// them and consumes them all, so that the measured queue is the only one that
// holds anything.
func (c *client) warmUpOn(ctx context.Context, conn driver.Client) error {
	queue := c.spec.WarmUpQueue
	runID := c.spec.RunID + 1 // a message that strays into the other queue is found out
	sent, err := c.store(ctx, conn, queue, batch{runID, c.spec.WarmUpMessages, cmp.Or(c.spec.WarmUpBytes, c.spec.PayloadBytes)}, 0)
	if err != nil {
		return err
	}
	if err := c.awaitStored(ctx, conn, queue, sent); err != nil {
		return err
	}
	return c.emptyWarmUp(ctx, conn, runID, sent)
}

func (c *client) emptyWarmUp(ctx context.Context, conn driver.Client, runID uint64, sent int64) error {
	in, err := c.newIntake(ctx, conn, c.spec.WarmUpQueue, workload.NewChecker(runID))
	if err != nil {
		return err
	}
	if err := in.receive(ctx, sent); err != nil {
		return err
	}
	return c.faultOf(in.checker.Result(sent))
}
