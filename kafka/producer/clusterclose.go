package producer

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Close refuses further calls, sends what has gathered, waits until the brokers have
// confirmed it, and closes the connections, as [Producer.Close] does for one broker:
// it gives up when ctx ends or, if that has no deadline, when for DialTimeout no
// broker could be reached that something waits for. What was not sent, or not
// confirmed, is counted in a [*NotSentError]. A second Close returns what the first
// did.
func (c *Cluster) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { c.closeErr = c.close(ctx) })
	return c.closeErr
}

func (c *Cluster) close(ctx context.Context) error {
	c.closing.Store(true)
	c.broadcast()
	cause := c.settle(ctx)
	if cause == nil {
		cause = errClosing
	}
	// From here on no broker comes or goes, and no producer is made.
	dirErr := c.dir.close()
	c.cancel()
	c.wg.Wait()
	c.mu.Lock()
	producers := c.producers()
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range producers {
		wg.Go(func() {
			// Its losses are in the cluster's report.
			if err := p.Close(ctx); err != nil {
				c.cfg.Logger.Debug("close of a producer", "broker", p.owner.addr, "error", err)
			}
		})
	}
	wg.Wait()
	c.endAll(producers, cause)
	return errors.Join(c.takeLoss(), dirErr)
}

// endAll takes over from the producers and gives up what has no place.
func (c *Cluster) endAll(producers []*Producer, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range producers {
		c.end(p)
		p.owner.p.Store(nil)
	}
	for kind, parcels := range c.parcels {
		for i := range parcels {
			c.giveUp(&parcels[i], cause)
		}
		c.parcels[kind] = nil
	}
	c.moveBytes = 0
	c.broadcast()
}

// Flush sends all that was taken before and waits until the brokers have confirmed
// it, as [Producer.Flush] does for one. What is on its way from a broker that has
// gone is waited for, too.
func (c *Cluster) Flush(ctx context.Context) error {
	if c.closing.Load() {
		return ErrClosed
	}
	err := c.settle(ctx)
	if loss := c.takeLoss(); loss != nil {
		return loss
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("flush: %d messages are still to be confirmed: %w", c.Stats().Pending, err)
	}
	return err
}

// settle waits until everything taken before it is confirmed or lost.
func (c *Cluster) settle(ctx context.Context) error {
	for {
		moves, producers, err := c.awaitMoved(ctx)
		if err != nil {
			return err
		}
		err = settleAll(ctx, producers)
		if c.settledAt(moves) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// awaitMoved waits until nothing is on its way from one producer to another.
func (c *Cluster) awaitMoved(ctx context.Context) (moves int64, producers []*Producer, err error) {
	limited, cancel := c.waitAtMost(ctx)
	defer cancel()
	for {
		change := c.change()
		c.mu.Lock()
		still := c.still()
		moves, producers = c.moves, c.producers()
		c.mu.Unlock()
		if still {
			return moves, producers, nil
		}
		select {
		case <-change:
		case <-c.ctx.Done():
			return 0, nil, ErrClosed
		case <-limited.Done():
			return 0, nil, limited.Err()
		}
	}
}

// still reports whether no messages are on their way. mu is held.
func (c *Cluster) still() bool {
	return len(c.retiring) == 0 && len(c.parcels[0]) == 0 && len(c.parcels[1]) == 0
}

// settledAt reports whether no messages have moved since so many moves.
func (c *Cluster) settledAt(moves int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moves == moves && c.still()
}

// producers lists those that take messages. mu is held.
func (c *Cluster) producers() (list []*Producer) {
	for _, m := range c.members {
		if p := m.p.Load(); p != nil {
			list = append(list, p)
		}
	}
	return list
}

// settleAll settles producers at the same time, and returns the first error. One that
// is closed meanwhile has its messages counted, or moved.
func settleAll(ctx context.Context, producers []*Producer) error {
	errs := make([]error, len(producers))
	var wg sync.WaitGroup
	for i, p := range producers {
		wg.Go(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if errs[i] = p.settle(ctx); errors.Is(errs[i], ErrClosed) {
				errs[i] = nil
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
