package runner

import (
	"context"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
)

// warmUpOn sends messages to the warm-up queue, waits until the server has
// them and consumes them all, so that the measured queue is the only one that
// holds anything. Sending may take its share of the cap.
func (c *client) warmUpOn(ctx context.Context, conn driver.Client) error {
	queue := c.spec.WarmUpQueue
	runID := c.spec.RunID + 1 // a message that strays into the other queue is found out
	sent, err := c.store(ctx, conn, queue, runID, c.spec.WarmUpMessages, c.spec.Cap/warmUpShare)
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
	return in.checker.Result(sent).Err()
}
