package mirror

import (
	"context"
	"errors"
	"maps"
	"sync"

	"kafkalab/kafka/consumer"
)

// Stats says how a mirror fares. Counters are since Open. A compressed message counts as
// one, and bytes are those of the log.
type Stats struct {
	Messages, Bytes int64 // acknowledged by the target as flushed

	// Sent, and not known to be flushed when their connection or ownership ended: they
	// are sent again, by this mirror or the partition's next owner, so the target may
	// have them twice. A mirror that is killed cannot count its own.
	RepeatedMessages, RepeatedBytes int64

	Gaps, GapBytes int64 // that the source's retention has made
	Restarts       int64 // logs of the source that were made anew
	SourceFailures int64 // times that a partition of the source could not be read

	Commits, CommitFailures int64 // offsets written, and commits of which some were not

	Partitions    int   // owned and copied
	Stalled       int   // of them, those of which nothing can be read, or gets through, at present
	BufferedBytes int64 // read and not flushed at the target yet
}

// Stats returns the counts so far.
func (m *Mirror) Stats() Stats {
	m.counts.mu.Lock()
	st := m.counts.stats
	m.counts.mu.Unlock()
	for _, s := range m.sources {
		for _, l := range s.allLanes() {
			st.Partitions++
			if l.state().stalled {
				st.Stalled++
			}
		}
	}
	st.BufferedBytes = m.memory.bytes()
	return st
}

// PartitionLag says how far the copy of a partition is behind.
type PartitionLag struct {
	Source string
	consumer.TopicPartition
	Copied int64 // all before this offset is flushed at the target
	End    int64 // behind the last message that can be fetched from the source
	Lag    int64 // bytes of log between them
}

// Lag asks the brokers of the partitions that this mirror owns for the ends of their
// logs. The result holds what was answered also if there is an error.
func (m *Mirror) Lag(ctx context.Context) ([]PartitionLag, error) {
	var lags []PartitionLag
	var errs []error
	for _, s := range m.sources {
		behind, err := s.group.Lag(ctx)
		errs = append(errs, err)
		for _, p := range behind {
			l := s.lane(p.TopicPartition)
			if l == nil {
				continue
			}
			copied := l.state().flushed
			if copied < 0 {
				copied = p.Consumed // nothing has been read: that is where it begins
			}
			lags = append(lags, PartitionLag{Source: s.name, TopicPartition: p.TopicPartition, Copied: copied, End: p.End, Lag: max(p.End-copied, 0)})
		}
	}
	return lags, errors.Join(errs...)
}

// gapKey names a partition of a source.
type gapKey struct {
	source string
	consumer.TopicPartition
}

// counts are moved once for a set, never for a message.
type counts struct {
	mu    sync.Mutex
	stats Stats
	gaps  map[gapKey]int64 // bytes
}

func newCounts() counts { return counts{gaps: map[gapKey]int64{}} }

func (c *counts) change(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

func (c *counts) copied(messages, bytes int) {
	c.change(func(st *Stats) { st.Messages += int64(messages); st.Bytes += int64(bytes) })
}

func (c *counts) repeated(messages, bytes int) {
	c.change(func(st *Stats) { st.RepeatedMessages += int64(messages); st.RepeatedBytes += int64(bytes) })
}

func (c *counts) sourceFailed()         { c.change(func(st *Stats) { st.SourceFailures++ }) }
func (c *counts) committed(offsets int) { c.change(func(st *Stats) { st.Commits += int64(offsets) }) }
func (c *counts) commitFailed()         { c.change(func(st *Stats) { st.CommitFailures++ }) }

func (c *counts) gap(g Gap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.To < g.From {
		c.stats.Restarts++
		return
	}
	c.stats.Gaps++
	c.stats.GapBytes += g.Bytes()
	c.gaps[gapKey{g.Source, g.TopicPartition}] += g.Bytes()
}

// gapBytes returns the bytes of gaps by partition.
func (c *counts) gapBytes() map[gapKey]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.gaps)
}
