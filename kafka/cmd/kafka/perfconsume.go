package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// perfConsume reads the partitions and checks what it reads.
func perfConsume(ctx context.Context, o perfOptions) (*perfResult, error) {
	watch, err := o.connect.dial(ctx, o.broker)
	if err != nil {
		return nil, err
	}
	partitions, err := o.perfPartitions(ctx, watch)
	if err := errors.Join(err, watch.Close()); err != nil {
		return nil, err
	}
	for _, p := range partitions {
		if o.start > p.LogEnd { // it would be taken for the end
			return nil, outOfRange(o.start, p)
		}
	}
	c := &perfConsuming{o: o, latencies: newLatencies(), begin: time.Now()}
	progress := startProgress(o.progress, "read", o.messages*int64(o.consumers*len(partitions)), o.interval)
	defer progress.stop()
	c.done = &progress.done
	g, gctx := errgroup.WithContext(ctx)
	for range o.consumers {
		for _, p := range partitions {
			r := perfReader{perfConsuming: c, partition: p.Partition, end: p.LogEnd}
			if o.follow {
				r.end = math.MaxInt64
			}
			g.Go(func() error { return r.run(gctx) })
		}
	}
	return c.verdict(ctx, g.Wait())
}

// verdict returns the result of what ended with err.
func (c *perfConsuming) verdict(ctx context.Context, err error) (*perfResult, error) {
	r := c.result()
	if err != nil && (!c.o.follow || ctx.Err() == nil) { // an interrupt is how following ends
		return r, interrupted(ctx, err, r.Messages, 0, "read")
	}
	if d := r.perfContent; d.Lost+d.Doubled+d.Damaged > 0 {
		return r, fmt.Errorf("%s: %d messages lost, %d doubled, %d damaged", c.o.topic, d.Lost, d.Doubled, d.Damaged)
	}
	return r, nil
}

// perfConsuming is a perf consume under way.
type perfConsuming struct {
	o         perfOptions
	done      *atomic.Int64 // messages read
	latencies *latencies
	begin     time.Time

	mu              sync.Mutex
	first, last     time.Time // when messages came
	messages, bytes int64
	content         perfContent
}

// result sums up. Of what was followed the time counts from the first message
// that came to the last.
func (c *perfConsuming) result() *perfResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &perfResult{Messages: c.messages, Bytes: c.bytes, Latency: c.latencies.result("end to end"), perfContent: &c.content}
	begin := c.begin
	if c.o.follow {
		begin = c.first
	}
	r.finish(max(c.last.Sub(begin), 0))
	return r
}

// perfReader reads one partition.
type perfReader struct {
	*perfConsuming
	partition int32
	end       int64 // offset at which it ends

	read    int64 // messages
	check   perfCheck
	planned []int64 // of the messages of a chunk that were sent since the start
}

func (r *perfReader) run(ctx context.Context) error {
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: r.o.broker, Topic: r.o.topic, Partition: r.partition, Start: r.o.start, Reset: consumer.ResetFail, FetchBytes: r.o.fetchSize,
		Hooks: r.o.notes.hooks(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	r.check = perfCheck{next: map[uint64]uint64{}, middle: r.o.start != wire.TimeEarliest}
	err = r.readAll(ctx, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content.add(r.check.perfContent)
	if err != nil {
		return err
	}
	switch {
	case r.o.messages <= r.read:
		return nil
	case r.o.follow:
		return fmt.Errorf("%d messages of %d came to %s-%d, and none for %v then", r.read, r.o.messages, r.o.topic, r.partition, r.o.idleTimeout)
	}
	return fmt.Errorf("%s-%d holds %d messages, not %d", r.o.topic, r.partition, r.read, r.o.messages)
}

// errIdle ends following.
var errIdle = errors.New("no message came")

// more reports whether there is something to read for.
func (r *perfReader) more(offset int64) bool {
	return offset < r.end && (r.o.messages == 0 || r.read < r.o.messages)
}

// readAll reads up to the end. What was appended before the start may still wait for
// its flush.
func (r *perfReader) readAll(ctx context.Context, s *consumer.Stream) error {
	for offset := s.ConsumedOffset(); r.more(offset); {
		it, err := r.next(ctx, s)
		if errors.Is(err, errIdle) {
			return nil
		}
		if err != nil {
			return err
		}
		now, before, start := time.Now(), r.read, it.NextOffset()
		r.planned = r.planned[:0]
		for r.more(it.NextOffset()) && it.Next() {
			if planned := r.check.payload(it.Message().Payload); planned >= r.begin.UnixNano() {
				r.planned = append(r.planned, planned)
			}
			r.read++
		}
		offset = it.NextOffset()
		r.came(now, r.read-before, offset-start, r.planned)
		if err := it.Err(); err != nil {
			return err
		}
	}
	return nil
}

// next waits for more: when following, for as long as it may take.
func (r *perfReader) next(ctx context.Context, s *consumer.Stream) (message.Iterator, error) {
	if !r.o.follow || r.o.idleTimeout == 0 {
		return s.NextChunk(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, r.o.idleTimeout)
	defer cancel()
	it, err := s.NextChunk(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errIdle
	}
	return it, err
}

// came takes in what a chunk has brought: so many messages and bytes of log, and
// when those that were sent since the start were planned.
func (c *perfConsuming) came(now time.Time, messages, bytes int64, planned []int64) {
	c.latencies.recordNs(now, planned)
	c.done.Add(messages)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		c.first = now
	}
	c.last = time.Now()
	c.messages += messages
	c.bytes += bytes
}
