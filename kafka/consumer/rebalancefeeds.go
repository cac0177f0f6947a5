package consumer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/registry"
)

// startFeeds starts pulling from the partitions owned that are not pulled from yet,
// and tells feeds of brokers that have moved. A broker that is not registered is
// waited for: a watch tells of it.
func (g *Group) startFeeds(ctx context.Context, v view) error {
	var fresh []*ownership
	for _, o := range g.ownerships() {
		broker, known := v.brokers[o.Partition.Broker]
		switch {
		case o.leaving || o.lost.Load():
		case o.feed == nil && known:
			g.setAddr(o, broker.Addr())
			fresh = append(fresh, o)
		case o.feed == nil:
			g.log.Warn("broker of a partition is not registered: waiting for it", "partition", o.TopicPartition)
		case known && o.addr != broker.Addr():
			g.log.Info("broker has moved", "partition", o.TopicPartition, "from", o.addr, "to", broker.Addr())
			g.setAddr(o, broker.Addr())
			o.feed.move(o.addr)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	starts, err := g.startOffsets(ctx, fresh)
	if err != nil {
		return fmt.Errorf("start to read partitions: %w", err)
	}
	if err := g.tellAssigned(ctx, fresh); err != nil {
		g.log.Warn("partitions are read without the application's word", "error", err)
	}
	for i, o := range fresh {
		f := newFeed(g.feedConfig(o, starts[i]), o.stream)
		g.mu.Lock()
		o.feed = f
		g.mu.Unlock()
		if o.lost.Load() { // found by a commit of the application meanwhile
			f.revoke()
		}
	}
	return nil
}

func (g *Group) setAddr(o *ownership, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o.addr = addr
}

// start is where the reading of a partition begins.
type start struct {
	offset int64 // or Earliest or Latest
	failed error // why there is no offset to begin at; the application has to seek
}

// startOffsets finds out where to begin. It is called with the owner nodes made: all
// that earlier owners have committed is seen then. (Kafka 0.7 reads before it owns,
// and so hands out again what is committed in between.)
func (g *Group) startOffsets(ctx context.Context, fresh []*ownership) ([]start, error) {
	starts := make([]start, len(fresh))
	work, reading := errgroup.WithContext(ctx)
	work.SetLimit(commitsAtOnce)
	for i, o := range fresh {
		work.Go(func() error {
			var err error
			starts[i], err = g.storedStart(reading, o)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	if g.cfg.StartOffset == nil {
		return starts, nil
	}
	return g.askStarts(ctx, fresh, starts)
}

// storedStart returns where the offset registry says that a partition begins.
func (g *Group) storedStart(ctx context.Context, o *ownership) (start, error) {
	offset, version, stored, err := g.registry.Offset(ctx, g.cfg.Group, o.Topic, o.Partition)
	var bad *registry.BadNodesError
	if err != nil && !errors.As(err, &bad) {
		return start{}, err
	}
	o.committing <- struct{}{} // an application may be committing already
	o.version = version
	if stored {
		o.committed.Store(offset)
	}
	<-o.committing
	switch {
	case bad != nil:
		return start{offset: Earliest, failed: fmt.Errorf("offset registry of group %s: %w: seek to an offset", g.cfg.Group, err)}, nil
	case stored && offset >= 0: // 0.7 stores -1 when it could not find out where to begin
		return start{offset: offset}, nil
	case g.cfg.OffsetReset == ResetLargest:
		return start{offset: Latest}, nil
	case g.cfg.OffsetReset == ResetFail:
		return start{offset: Earliest, failed: fmt.Errorf("group %s has no offset: seek to one, or choose to reset to the smallest or largest", g.cfg.Group)}, nil
	}
	return start{offset: Earliest}, nil
}

// askStarts lets the application say where to begin.
func (g *Group) askStarts(ctx context.Context, fresh []*ownership, stored []start) ([]start, error) {
	starts := append([]start(nil), stored...)
	err := g.callHook(ctx, "StartOffset", func(context.Context) error {
		for i, o := range fresh {
			offset, ok := g.cfg.StartOffset(o.Topic, o.Partition)
			switch {
			case ok && offset < Earliest:
				return fmt.Errorf("offset %d of %v: give one from 0 on, Earliest or Latest", offset, o.TopicPartition)
			case ok:
				starts[i] = start{offset: offset}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err // the hook may still be writing to starts
	}
	return starts, nil
}

// feedConfig returns the settings of a partition's feed.
func (g *Group) feedConfig(o *ownership, at start) feedConfig {
	p := g.cfg.Feed
	p.Broker, p.Topic, p.Partition = o.addr, o.Topic, o.Partition.Partition
	p.Start, p.Reset, p.memory = at.offset, g.cfg.OffsetReset, g.memory
	if g.cfg.StopOutOfRange {
		p.Reset = ResetFail
	}
	if p.Logger == nil {
		p.Logger = g.log
	}
	return feedConfig{
		partition: p,
		broker:    o.Partition.Broker,
		failed:    at.failed,
		lease:     o.session.Valid,
		onReset:   func(from, to int64) { g.noteReset(o, from, to) },
	}
}
