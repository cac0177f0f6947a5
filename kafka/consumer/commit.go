package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// PartitionOffset is an offset in a partition.
type PartitionOffset struct {
	TopicPartition
	Offset int64 // of the next message to consume
}

// Consumed returns the offset behind what the application is done with, for each
// partition that this consumer owns and where that is known. An application that
// handles messages in the background takes it, flushes, and then commits it with
// [Group.CommitOffsets]: what it was done with meanwhile is not committed so.
func (g *Group) Consumed() []PartitionOffset {
	var offsets []PartitionOffset
	for _, o := range g.ownerships() {
		if at := g.consumed(o); at >= 0 {
			offsets = append(offsets, PartitionOffset{o.TopicPartition, at})
		}
	}
	return offsets
}

// Commit writes what the application is done with to ZooKeeper, for all partitions
// that this consumer owns. What it has in hand counts when it asks for more, or says
// so by [GroupStream.Done].
func (g *Group) Commit(ctx context.Context) error {
	var commits []pendingCommit
	for _, o := range g.ownerships() {
		commits = append(commits, pendingCommit{o, func() int64 { return g.consumed(o) }, true})
	}
	if err := g.commitAll(ctx, commits); err != nil {
		return fmt.Errorf("group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// CommitOffsets writes offsets, 0 or more, to ZooKeeper, also ones before those that
// stand there. Each is written only if this consumer owns the partition; where it
// does not, or no longer, the error is [registry.ErrNotOwner], and the others are
// written all the same. Offsets that stand there already cause no request. ctx
// bounds the call.
func (g *Group) CommitOffsets(ctx context.Context, offsets []PartitionOffset) error {
	var failed []error
	var commits []pendingCommit
	for _, at := range offsets {
		g.mu.Lock()
		o := g.owned[at.TopicPartition]
		g.mu.Unlock()
		switch {
		case at.Offset < 0:
			failed = append(failed, fmt.Errorf("commit %v: offset %d: give one from 0 on", at.TopicPartition, at.Offset))
		case o == nil:
			failed = append(failed, fmt.Errorf("commit %v: %w", at.TopicPartition, registry.ErrNotOwner))
		default:
			commits = append(commits, pendingCommit{o, func() int64 { return at.Offset }, true})
		}
	}
	if err := errors.Join(append(failed, g.commitAll(ctx, commits))...); err != nil {
		return fmt.Errorf("group %s: %w", g.cfg.Group, err)
	}
	return nil
}

// pendingCommit is an offset to be written.
type pendingCommit struct {
	*ownership
	// at returns it, or noOffset for none. It is asked when it is the partition's turn:
	// of two commits the later one is so never behind the earlier.
	at     func() int64
	byHand bool // the application asks for it
}

// commitsAtOnce is how many commits are on their way together: as many as make one
// wait for the network of many.
const commitsAtOnce = 16

// commitAll writes offsets. It goes on after what concerns one partition, and gives
// up when ZooKeeper is away, as each further one would wait as long.
func (g *Group) commitAll(ctx context.Context, commits []pendingCommit) error {
	var mu sync.Mutex
	var failed []error
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(commitsAtOnce)
	for _, c := range commits {
		work.Go(func() error {
			err := ctx.Err()
			if err == nil {
				err = g.commit(ctx, c)
			}
			if err == nil {
				return nil
			}
			mu.Lock()
			failed = append(failed, err)
			mu.Unlock()
			if away(err) {
				return err // ends the others
			}
			return nil
		})
	}
	_ = work.Wait() // it is among failed
	return joinSome(failed)
}

// maxErrors is how many errors of partitions are told at once.
const maxErrors = 5

// joinSome joins errors of partitions, and counts those that are too many to be told.
func joinSome(failed []error) error {
	if len(failed) > maxErrors {
		failed = append(failed[:maxErrors:maxErrors], fmt.Errorf("and %d more partitions", len(failed)-maxErrors))
	}
	return errors.Join(failed...)
}

// away says whether an error is one of the session or of ZooKeeper, and not of one
// partition.
func away(err error) bool {
	return errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrExpired) || errors.Is(err, coord.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// moves bounds how often a commit is repeated because somebody else has written the
// offset.
const moves = 3

// commit writes the offset of one partition, if it is another than the one that is
// there (Kafka 0.7 writes it again each time; so consuming needs no coordination
// while nothing comes, NetDB'11 §3.2).
//
// If somebody else has written the offset meanwhile, a tool or the last word of a
// consumer of 0.7, which is not fenced, this consumer's own is written over it: the
// owner alone knows what has been consumed, and all before its offset has been.
func (g *Group) commit(ctx context.Context, c pendingCommit) (err error) {
	o := c.ownership
	select {
	case o.committing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("commit %v: %w", o.TopicPartition, ctx.Err())
	}
	defer func() { <-o.committing }()
	reset := o.reset.Load()
	offset := c.at()
	if offset == noOffset {
		return nil
	}
	defer func() {
		if err == nil {
			o.reset.CompareAndSwap(reset, noOffset) // this is it, or has overtaken it
			if c.byHand {
				o.byHand.Add(1)
			}
		}
	}()
	if offset == o.committed.Load() && o.doubtful == noOffset {
		return nil // after a commit without an answer another one may stand there
	}
	for range moves {
		var version int32
		version, err = g.registry.Commit(ctx, o.session, g.cfg.Group, o.claim, offset, o.version)
		if err == nil {
			o.version, o.doubtful = version, noOffset
			o.committed.Store(offset)
			g.count(func(st *GroupStats) { st.Commits++ })
			return nil
		}
		var moved *registry.MovedError
		var bad *registry.BadNodesError
		switch {
		case errors.As(err, &moved):
			o.version = moved.Version
			if moved.Offset == o.doubtful {
				continue // it was our own
			}
		case errors.As(err, &bad):
			if _, o.version, _, err = g.registry.Offset(ctx, g.cfg.Group, o.Topic, o.Partition); err != nil && !errors.As(err, &bad) {
				return g.commitFailed(o, err)
			}
		default:
			if errors.Is(err, coord.ErrInDoubt) {
				o.doubtful = offset
			}
			return g.commitFailed(o, err)
		}
		g.log.Warn("offset written by somebody else", "partition", o.TopicPartition, "ours", offset, "theirs", err)
	}
	return g.commitFailed(o, err)
}

func (g *Group) commitFailed(o *ownership, err error) error {
	g.count(func(st *GroupStats) { st.CommitFailures++ })
	if errors.Is(err, registry.ErrNotOwner) {
		g.lose(o)
	}
	return err // it names the partition
}

// lose gives a partition up whose owner node was found not to be ours any more.
func (g *Group) lose(o *ownership) {
	if o.lost.Swap(true) {
		return
	}
	if f := g.feedOf(o); f != nil {
		f.revoke()
	}
	g.log.Warn("partition lost: its owner node is not this consumer's any more", "partition", o.TopicPartition)
	g.triggers.pull()
}

// commitRetry is the pause after which the offset of a reset is written again when
// that has failed.
const commitRetry = time.Second

// runCommits commits every interval, and offsets of resets at once.
func (g *Group) runCommits() {
	var tick, again <-chan time.Time
	if g.cfg.autoCommits() {
		ticker := time.NewTicker(g.cfg.AutoCommit)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-g.life.Done():
			return
		case <-tick:
			if err := g.commitAll(g.life, g.unreleased()); err != nil && g.life.Err() == nil {
				g.log.Warn("commit failed", "error", err)
			}
			continue
		case <-g.resets:
		case <-again:
		}
		again = nil
		if err := g.commitResets(g.life); err != nil && g.life.Err() == nil {
			g.log.Warn("offset of a reset not written yet", "error", err)
			again = time.After(commitRetry)
		}
	}
}

// unreleased returns what is to be committed of the partitions that are not being
// given up: those have their own commit, after the application has flushed.
func (g *Group) unreleased() []pendingCommit {
	var commits []pendingCommit
	for _, o := range g.ownerships() {
		if o.lost.Load() {
			continue
		}
		commits = append(commits, pendingCommit{o, func() int64 {
			g.mu.Lock()
			f, leaving := o.feed, o.leaving
			g.mu.Unlock()
			if f == nil || leaving {
				return noOffset
			}
			return f.consumed()
		}, false})
	}
	return commits
}

// noteReset has the offset that a reset has led to written at once. It is called by
// the feed and does not wait.
func (g *Group) noteReset(o *ownership, from, to int64) {
	if from >= 0 { // else it is where a new group begins
		g.log.Warn("offset reset", "partition", o.TopicPartition, "from", from, "to", to)
		g.count(func(st *GroupStats) { st.Resets++ })
	}
	o.reset.Store(to)
	select {
	case g.resets <- struct{}{}:
	default:
	}
}

// commitResets writes the offsets of resets. What lies before such an offset can be
// fetched no more, so it may be ahead of the application.
func (g *Group) commitResets(ctx context.Context) error {
	var commits []pendingCommit
	for _, o := range g.ownerships() {
		if o.reset.Load() != noOffset && !o.lost.Load() {
			commits = append(commits, pendingCommit{o, o.reset.Load, false})
		}
	}
	return g.commitAll(ctx, commits)
}
