package producer

import (
	"context"
	"fmt"
	"time"
)

// change returns a channel that is closed at the next broadcast.
func (c *Cluster) change() <-chan struct{} {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	return c.changed
}

// broadcast lets all who wait look again.
func (c *Cluster) broadcast() {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitAtMost bounds a wait of a caller that has no deadline.
func (c *Cluster) waitAtMost(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.DialTimeout)
}

// awaitRoutes waits for a change of the routes that has begun.
func (c *Cluster) awaitRoutes() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

// obstacle tells why a message cannot be sent now, or nil.
func (c *Cluster) obstacle(r *room, t *topicRoute, rt *route) error {
	switch {
	case rt.total == 0:
		return errNoBrokers
	case r.keyed && !r.moved && t.moving.Load() > 0:
		return errOvertake
	case !r.keyed && c.cfg.writesInSend() && rt.count((*span).registered) > 0 && !rt.anyUp():
		return c.whyDown(rt)
	}
	return nil
}

// whyDown tells why no broker of a topic can be reached.
func (c *Cluster) whyDown(rt *route) error {
	for k := range rt.spans {
		if m := rt.spans[k].member; m != nil {
			if err := m.dialError(); err != nil {
				return err
			}
		}
	}
	return errNoneUp
}

// await waits, as the policy has it, until the obstacle may have gone.
func (c *Cluster) await(r *room, t *topicRoute, why error) error {
	policy := c.policy(r)
	switch policy {
	case QueueError:
		return fmt.Errorf("%w: %w", ErrQueueFull, why)
	case QueueDrop:
		return errDrop
	}
	for {
		change := c.change()
		switch {
		case c.closing.Load() && !r.moved:
			return ErrClosed
		case c.obstacle(r, t, t.route.Load()) == nil:
			return nil
		}
		if r.limited == nil {
			switch {
			case policy == QueueWaitAtMost:
				r.limited, r.cancel = context.WithTimeout(r.ctx, c.cfg.QueueTimeout)
			case r.moved:
				r.limited = r.ctx
			default:
				r.limited, r.cancel = c.waitAtMost(r.ctx)
			}
		}
		select {
		case <-change:
		case <-r.limited.Done():
			if r.ctx.Err() == nil && policy == QueueWaitAtMost {
				return fmt.Errorf("%w: %w", ErrQueueFull, why)
			}
			return fmt.Errorf("send: %w: %w", r.limited.Err(), why)
		}
	}
}

// awaitRoom waits, as the policy has it, until there may be room at a broker of the
// topic. The first time it only makes sure that no change is missed from then on.
func (c *Cluster) awaitRoom(r *room, t *topicRoute) error {
	policy := c.policy(r)
	switch policy {
	case QueueError:
		return c.noRoom(t, ErrQueueFull)
	case QueueDrop:
		return errDrop
	}
	if r.change == nil {
		c.roomWaiters.Add(1)
		r.change = c.change()
		return nil
	}
	if policy == QueueWaitAtMost && r.limited == nil {
		r.limited, r.cancel = context.WithTimeout(r.ctx, c.cfg.QueueTimeout)
	}
	ctx := r.ctx
	if r.limited != nil {
		ctx = r.limited
	}
	select {
	case <-r.change:
	case <-time.After(c.cfg.DialTimeout):
		// As for one broker: without a deadline it is pointless to wait for long
		// where none can be reached.
		if _, ok := ctx.Deadline(); !ok && !r.moved && !t.route.Load().anyUp() {
			return c.noRoom(t, context.DeadlineExceeded)
		}
	case <-ctx.Done():
		if r.ctx.Err() == nil {
			return c.noRoom(t, ErrQueueFull)
		}
		return c.noRoom(t, ctx.Err())
	}
	if c.closing.Load() && !r.moved {
		return ErrClosed
	}
	r.change = c.change()
	return nil
}

// policy is what to do when there is no room.
func (c *Cluster) policy(r *room) QueuePolicy {
	if r.moved {
		return QueueWait
	}
	return c.cfg.QueueFull
}

// doneWaiting ends the waiting of a Send.
func (c *Cluster) doneWaiting(r *room) {
	if r.change != nil {
		c.roomWaiters.Add(-1)
	}
	r.close()
}

// noRoom is the error of a wait, with what keeps the queues from emptying.
func (c *Cluster) noRoom(t *topicRoute, err error) error {
	if rt := t.route.Load(); !rt.anyUp() {
		err = fmt.Errorf("%w: %w", err, c.whyDown(rt))
	}
	return fmt.Errorf("send to %s: no broker has room: %w", t.name, err)
}
