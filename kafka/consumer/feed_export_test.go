package consumer

import (
	"context"
	"sync/atomic"
	"time"
)

// What the tests see of the streams of groups and their feeds.

type Feed = feed

type FeedConfig struct {
	PartitionConfig
	BrokerID              int32
	Failed                error
	Lease                 func() bool
	OnReset               func(from, to int64)
	AwayAfter, ErrorEvery time.Duration
}

func NewFeed(c FeedConfig, to *GroupStream) *Feed {
	return newFeed(feedConfig{
		partition: c.PartitionConfig, broker: c.BrokerID, failed: c.Failed, lease: c.Lease, onReset: c.OnReset,
		awayAfter: c.AwayAfter, errorEvery: c.ErrorEvery,
	}, to)
}

func NewGroupStream() *GroupStream { return newGroupStream(streamConfig{thread: "g_c-0"}) }

func (s *GroupStream) End() { s.close() }

func (f *feed) Consumed() int64                 { return f.consumed() }
func (f *feed) Counts() (messages, bytes int64) { return f.counts() }
func (f *feed) Stats() Stats                    { return f.stats() }
func (f *feed) Revoke()                         { f.revoke() }
func (f *feed) Settle(ctx context.Context) bool { return f.settle(ctx) }
func (f *feed) Stop(ctx context.Context) error  { return f.stop(ctx) }
func (f *feed) SeekTo(offset int64)             { f.seek(offset) }
func (f *feed) Move(addr string)                { f.move(addr) }
func (f *feed) SetPaused(paused bool)           { f.setPaused(paused) }

// Waiting reports whether the feed has something for its stream.
func (f *feed) Waiting() bool {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	return f.queued
}

// Failing reports whether an error waits to be told.
func (f *feed) Failing() bool {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	return f.err != nil
}

// Held returns how many feeds are put aside for want of a lease.
func (s *GroupStream) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// AdaptBy lets something else than the rate choose the size of the next fetch.
func (c *PartitionConfig) AdaptBy(choose func(size, most int) int) {
	c.FetchBytes = 0
	c.adaptBy = func(f fetchSize, _ answered) fetchSize {
		f.now = choose(f.now, f.most)
		return f
	}
}

// AdaptUntil lets the rate choose the size of the next fetch until settled, and
// keeps it from then on.
func (c *PartitionConfig) AdaptUntil(settled *atomic.Bool) {
	c.FetchBytes = 0
	c.adaptBy = func(f fetchSize, a answered) fetchSize {
		if settled.Load() {
			return f
		}
		return f.after(a)
	}
}

type FetchMemory = fetchMemory

func NewFetchMemory(bytes int) *FetchMemory { return newFetchMemory(bytes) }

// ShareMemory gives the stream a share of what several have together.
func (c *PartitionConfig) ShareMemory(m *FetchMemory) { c.memory = m }
