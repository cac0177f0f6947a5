package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// releaseOthers gives up the partitions owned that were not chosen, or that go to
// another stream of this consumer; those that are lost; and claims that may have been
// made though their making has failed.
func (g *Group) releaseOthers(ctx context.Context, s *coord.Session, want map[TopicPartition]string, last bool) error {
	var lost, others []*ownership
	for _, o := range g.ownerships() {
		switch {
		case o.lost.Load():
			lost = append(lost, o)
		case o.leaving || want[o.TopicPartition] != o.claim.Thread:
			others = append(others, o)
		}
	}
	g.forget(ctx, lost)
	uncommitted, err := g.release(ctx, others, last)
	if err != nil {
		return err
	}
	if uncommitted != nil {
		g.log.Warn("partitions released without a commit: their last messages come twice", "error", uncommitted)
	}
	return g.releaseDoubtful(ctx, s)
}

func (g *Group) releaseDoubtful(ctx context.Context, s *coord.Session) error {
	m := &g.member
	var claims []registry.Claim
	for tp, c := range m.doubtful {
		if g.owns(tp) {
			delete(m.doubtful, tp)
			continue
		}
		claims = append(claims, c)
	}
	if len(claims) == 0 {
		return nil
	}
	if err := g.registry.Release(ctx, s, g.cfg.Group, claims); err != nil {
		return fmt.Errorf("release what may have been claimed: %w", err)
	}
	clear(m.doubtful)
	return nil
}

func (g *Group) owns(tp TopicPartition) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned[tp] != nil
}

// release gives partitions up, in an order in which nothing is lost and, if all goes
// well, nothing comes twice: the streams stop handing out their messages; what the
// application has in hand is waited for; the application flushes; what it was done
// with before that is committed; then others may have them.
//
// A commit that fails because ZooKeeper does not answer is tried again with the whole
// release, unless this is the last try: then others need not wait for longer.
// uncommitted says what was released without its commit. After another error release
// may be called again for the same partitions.
func (g *Group) release(ctx context.Context, leaving []*ownership, last bool) (uncommitted, err error) {
	if len(leaving) == 0 {
		return nil, nil
	}
	g.stopHandingOut(leaving)
	g.settleAll(ctx, leaving)
	g.flush(ctx, leaving, false)
	if ctx.Err() == nil {
		uncommitted = g.commitLeaving(ctx, leaving)
	}
	switch {
	case ctx.Err() != nil:
		return uncommitted, fmt.Errorf("%d partitions were not released: %w", len(leaving), ctx.Err())
	case away(uncommitted) && !last:
		return uncommitted, fmt.Errorf("before the release of %d partitions: %w", len(leaving), uncommitted)
	}
	if err := g.releaseNodes(ctx, leaving); err != nil {
		return uncommitted, err
	}
	g.log.Info("released", "partitions", len(leaving))
	g.drop(leaving)
	return uncommitted, nil
}

// forget does what is left to do for partitions that are owned no longer. There is
// nothing to wait for: they may have another owner already.
func (g *Group) forget(ctx context.Context, lost []*ownership) {
	if len(lost) == 0 {
		return
	}
	g.stopHandingOut(lost)
	g.flush(ctx, lost, true)
	g.drop(lost)
}

// stopHandingOut takes partitions from their streams.
func (g *Group) stopHandingOut(leaving []*ownership) {
	g.mu.Lock()
	for _, o := range leaving {
		o.leaving = true
	}
	g.mu.Unlock()
	for _, o := range leaving {
		if o.feed != nil {
			o.feed.revoke()
		}
	}
}

// settleAll waits for the application to be done with what it has in hand.
func (g *Group) settleAll(ctx context.Context, leaving []*ownership) {
	ctx, cancel := context.WithTimeout(ctx, max(g.cfg.HandoverWait, 0))
	defer cancel()
	for _, o := range leaving {
		if o.feed != nil && !o.flushed && !o.feed.settle(ctx) {
			g.log.Warn("the application still has a message in hand of a partition that is given up: it may come twice", "partition", o.TopicPartition)
		}
	}
}

// flush takes note of what is consumed, and lets the application flush what it has
// made of it, once for each partition. If ctx ends before it has, it is to do so
// again.
func (g *Group) flush(ctx context.Context, leaving []*ownership, lost bool) {
	var unflushed []*ownership
	for _, o := range leaving {
		if !o.flushed && o.feed != nil { // else the application has not heard of it
			unflushed = append(unflushed, o)
			o.leaveAt, o.before = o.feed.consumed(), o.byHand.Load()
		}
	}
	if len(unflushed) == 0 {
		return
	}
	err := g.tellRelease(ctx, unflushed, lost)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		g.log.Error("the application could not flush: nothing is committed of the partitions it gives up", "partitions", len(unflushed), "error", err)
	}
	for _, o := range unflushed {
		o.flushed, o.failed = true, err != nil
	}
}

// commitLeaving commits what was consumed before the flush, unless the application
// has committed meanwhile.
func (g *Group) commitLeaving(ctx context.Context, leaving []*ownership) error {
	if !g.cfg.autoCommits() {
		return nil
	}
	var commits []pendingCommit
	for _, o := range leaving {
		if o.flushed && !o.failed && o.leaveAt >= 0 && !o.lost.Load() {
			commits = append(commits, pendingCommit{o, func() int64 {
				if o.byHand.Load() != o.before {
					return noOffset
				}
				return o.leaveAt
			}, false})
		}
	}
	return g.commitAll(ctx, commits)
}

// releaseNodes deletes owner nodes, each in the session that has made it.
func (g *Group) releaseNodes(ctx context.Context, leaving []*ownership) error {
	bySession := make(map[*coord.Session][]registry.Claim)
	for _, o := range leaving {
		bySession[o.session] = append(bySession[o.session], o.claim)
	}
	var errs []error
	for s, claims := range bySession {
		if s.Context().Err() != nil {
			continue // they ended with it
		}
		sortClaims(claims)
		errs = append(errs, g.registry.Release(ctx, s, g.cfg.Group, claims))
	}
	return errors.Join(errs...)
}

// stopTimeout bounds the wait for the connections of feeds to end. They hand out
// nothing any more.
const stopTimeout = 5 * time.Second

// drop takes partitions from the list of those owned, and ends their feeds, also
// while the group is being closed: no feed outlives it.
func (g *Group) drop(gone []*ownership) {
	g.mu.Lock()
	for _, o := range gone {
		delete(g.owned, o.TopicPartition)
	}
	none := len(g.owned) == 0
	g.mu.Unlock()
	if none {
		g.member.dropLease()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, o := range gone {
		if o.feed == nil {
			continue
		}
		wg.Go(func() {
			if err := o.feed.stop(ctx); err != nil {
				g.log.Warn("end of a feed", "error", err)
			}
			messages, bytes := o.feed.counts()
			g.count(func(st *GroupStats) {
				st.Messages += messages
				st.Bytes += bytes
			})
		})
	}
	wg.Wait()
}
