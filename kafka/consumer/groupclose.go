package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// closeLimit bounds a Close, beside its context, the waits for the application that
// are configured, and the time that a session takes to be given up.
const closeLimit = 20 * time.Second

// Close leaves the group: the streams return [ErrClosed], offsets are committed (if
// the group does so by itself), partitions are released and the consumer is taken
// from the registry. It says in its error what of that was not done; others get the
// partitions then when the session ends. What a stream has in hand counts as done
// with if Next is called, or [GroupStream.Done], within HandoverWait.
//
// Close waits for ZooKeeper and the application until ctx ends, and for no longer than
// 20 s, HookTimeout and HandoverWait together. To end connections and the session takes
// up to 10 s more; what has not ended then ends by itself. A further Close waits for
// the first and returns the same error.
func (g *Group) Close(ctx context.Context) error {
	if !g.closing.CompareAndSwap(false, true) {
		select {
		case <-g.closed:
			return g.closeErr
		case <-ctx.Done():
			return fmt.Errorf("close group %s: %w", g.cfg.Group, ctx.Err())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit+g.cfg.HookTimeout+max(g.cfg.HandoverWait, 0))
	defer cancel()
	if err := errors.Join(g.leave(ctx)...); err != nil {
		g.closeErr = fmt.Errorf("close group %s, consumer %s: %w", g.cfg.Group, g.id, err)
	}
	close(g.closed)
	return g.closeErr
}

// leave does what Close says and returns what failed.
func (g *Group) leave(ctx context.Context) (failed []error) {
	fail := func(err error) {
		if err != nil {
			failed = append(failed, err)
		}
	}
	g.endLife()
	for _, streams := range g.streams {
		for _, s := range streams {
			s.close()
		}
	}
	if g.awaitWorkers(ctx) {
		fail(g.resign(ctx))
		g.member.unwatch()
	} else {
		failed = append(failed, errors.New("a rebalance or commit has not ended: nothing was released"))
		go g.endLate()
	}
	if g.ownsClient {
		// This ends the session, and with it whatever is left of the nodes.
		fail(g.registry.Client().Close())
	}
	select {
	case g.hooks <- struct{}{}:
		<-g.hooks
	case <-ctx.Done():
		failed = append(failed, errors.New("a hook of the application has not returned"))
	}
	return failed
}

// endLate ends what is left running by a Close that had no time to wait, once the
// rebalance or commit has ended, which it does soon after the group's life. Nodes stay
// as they are, and the application is told nothing more.
func (g *Group) endLate() {
	for _, done := range g.workers {
		<-done
	}
	g.drop(g.ownerships())
	g.member.unwatch()
	g.member.resign()
}

func (g *Group) awaitWorkers(ctx context.Context) bool {
	for _, done := range g.workers {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// resign releases all partitions and takes the consumer from the registry. The
// owners go first: others who see the consumer gone find its partitions free.
func (g *Group) resign(ctx context.Context) error {
	m := &g.member
	err := errors.Join(g.release(ctx, g.ownerships(), true))
	g.drop(g.ownerships()) // those that could not be released
	if s := m.entered; s != nil && s.Context().Err() == nil {
		err = errors.Join(err, g.releaseDoubtful(ctx, s), g.registry.UnregisterConsumer(ctx, s, g.cfg.Group, g.id))
	}
	m.resign()
	return err
}
