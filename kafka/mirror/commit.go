package mirror

import (
	"context"
	"time"

	"kafkalab/kafka/consumer"
)

// commitSoon has a commit made without waiting for the interval.
func (s *source) commitSoon() {
	select {
	case s.commits <- struct{}{}:
	default: // one is wanted already
	}
}

// commitRetry is the pause after a commit that has failed.
const commitRetry = 200 * time.Millisecond

// runCommits commits what is flushed until the source ends.
func (s *source) runCommits() {
	ticker := time.NewTicker(s.m.cfg.CommitInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.commits:
		case <-s.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.life, commitTimeout)
		err := s.commit(ctx, s.allLanes())
		cancel()
		if err == nil || s.life.Err() != nil {
			continue
		}
		s.log.Warn("offsets not committed yet", "error", err)
		if !pause(s.life, commitRetry) {
			return
		}
		s.commitSoon()
	}
}

// commit writes the offsets behind what is flushed of lanes to the offset registry. One
// runs at a time, so that a later one never writes an earlier offset.
func (s *source) commit(ctx context.Context, lanes []*lane) error {
	select {
	case s.committing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.committing }()
	var offsets []consumer.PartitionOffset
	byPartition := map[consumer.TopicPartition]*lane{}
	for _, l := range lanes {
		if at, ok := l.toCommit(); ok {
			offsets = append(offsets, consumer.PartitionOffset{TopicPartition: l.tp, Offset: at})
			byPartition[l.tp] = l
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	s.m.cfg.at(stepBeforeCommit)
	err := s.group.CommitOffsets(ctx, offsets)
	s.m.cfg.at(stepAfterCommit)
	if err == nil {
		s.m.counts.committed(len(offsets))
		for _, o := range offsets {
			byPartition[o.TopicPartition].noteCommitted(o.Offset)
		}
		return nil
	}
	// Some may have been written all the same.
	s.m.counts.commitFailed()
	stored := map[consumer.TopicPartition]int64{}
	for _, o := range s.group.Owned() {
		stored[o.TopicPartition] = o.Committed
	}
	for _, o := range offsets {
		if stored[o.TopicPartition] == o.Offset {
			byPartition[o.TopicPartition].noteCommitted(o.Offset)
		}
	}
	return err
}
