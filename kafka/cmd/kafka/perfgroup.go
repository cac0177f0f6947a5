package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
)

// settleTimeout bounds how long perf waits until its group has its partitions.
const settleTimeout = time.Minute

// perfConsumeGroup reads as a member of a group, and checks what it reads.
func perfConsumeGroup(ctx context.Context, o perfOptions) (r *perfResult, err error) {
	target, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer target.close()
	if o.group == "" {
		o.group = "perf-" + rand.Text()
		defer func() {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			err = errors.Join(err, target.reg.DeleteGroup(end, o.group))
		}()
	}
	sub, err := registry.Static(map[string]int{o.topic: o.consumers})
	if err != nil {
		return nil, usageError{err}
	}
	notes := &groupNotes{out: o.noteTo()}
	end := &groupEnd{zk: o.zk, reg: target.reg, connect: o.connect, group: o.group, notes: notes}
	if err := end.find(ctx, sub); err != nil {
		return nil, err
	}
	return o.readGroup(ctx, target.reg, end, notes)
}

// readGroup joins the group, reads and leaves it.
func (o perfOptions) readGroup(ctx context.Context, reg *registry.Registry, end *groupEnd, notes io.Writer) (*perfResult, error) {
	cfg := consumer.GroupConfig{
		Registry: reg, Group: o.group, Topics: map[string]int{o.topic: o.consumers}, Feed: consumer.PartitionConfig{FetchBytes: o.fetchSize, Logger: quiet},
		Logger: (&groupLog{notes: notes, session: defaultSession}).logger(),
	}
	g, err := consumer.OpenGroup(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r, err := o.readStreams(ctx, g, end, notes)
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return r, errors.Join(err, g.Close(leave))
}

// readStreams reads all streams, up to what is to be the end.
func (o perfOptions) readStreams(ctx context.Context, g *consumer.Group, end *groupEnd, notes io.Writer) (*perfResult, error) {
	settle, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := g.Settled(settle); err != nil {
		return nil, err
	}
	progress := startProgress(o.progress, "read", o.messages, o.interval)
	defer progress.stop()
	p := &perfGroup{
		perfConsuming: &perfConsuming{o: o, latencies: newLatencies(), begin: time.Now(), done: &progress.done},
		notes:         notes, end: end, seek: g.Seek, checks: map[partitionID]*perfPartition{},
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	p.stop = stop
	each, eachCtx := errgroup.WithContext(reading)
	for _, s := range g.Streams(o.topic) {
		each.Go(func() error { return p.read(eachCtx, s) })
	}
	if !o.follow {
		each.Go(func() error { return end.watch(eachCtx, g.Commit, stop) })
	}
	err := each.Wait()
	for _, c := range p.checks {
		p.content.add(c.perfContent)
	}
	if ctx.Err() == nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = p.short()
	}
	return p.verdict(ctx, err)
}

// perfGroup is a perf consume by a group under way.
type perfGroup struct {
	*perfConsuming
	notes io.Writer
	end   *groupEnd
	stop  context.CancelFunc
	seek  func(topic string, p registry.Partition, offset int64) error
	taken atomic.Int64 // messages, and those that were one too many

	mapMu  sync.Mutex
	checks map[partitionID]*perfPartition
}

// perfPartition is what was read of a partition, by one stream after the other.
type perfPartition struct {
	mu sync.Mutex
	perfCheck
}

// short returns the error of having read less than was wanted.
func (p *perfGroup) short() error {
	read := p.done.Load()
	switch {
	case p.o.messages <= read:
		return nil
	case p.o.follow:
		return fmt.Errorf("%d messages of %d came to %s, and none for %v then", read, p.o.messages, p.o.topic, p.o.idleTimeout)
	}
	return fmt.Errorf("%s holds %d messages for the group, not %d", p.o.topic, read, p.o.messages)
}

// read reads one stream until it is told to stop. Who finds that all was read
// stops the others.
func (p *perfGroup) read(ctx context.Context, s *consumer.GroupStream) error {
	var planned []int64
	for {
		chunk, err := p.next(ctx, s)
		var of *consumer.PartitionError
		switch {
		case errors.As(err, &of) && of.Temporary:
			fmt.Fprintln(p.notes, err)
			continue
		case errors.Is(err, errIdle):
			p.stop()
			return nil
		case err != nil:
			return err
		}
		read := chunkRead{planned: planned[:0]}
		now := time.Now()
		all := p.check(&chunk, &read)
		p.came(now, read.messages, read.next-read.start, read.planned)
		planned = read.planned
		if !all {
			p.stop()
			return leaveRest(p.seek, s, &chunk, read.next, func(err error) { fmt.Fprintln(p.notes, err) })
		}
		if _, all := p.end.reach(chunkPartition(&chunk), []lineEnd{{next: read.next}}); all && !p.o.follow {
			p.stop()
		}
	}
}

// chunkRead is what was read of a chunk.
type chunkRead struct {
	messages    int64
	start, next int64   // offsets of its begin and end
	planned     []int64 // of the messages that were sent since the start
}

// check reads a chunk, and reports whether all of it was wanted.
func (p *perfGroup) check(c *consumer.Chunk, read *chunkRead) bool {
	var of *perfPartition
	for c.Next() {
		if of == nil {
			of = p.partition(chunkPartition(c), c.Offset())
			of.mu.Lock()
			defer of.mu.Unlock()
			read.start, read.next = c.Offset(), c.Offset()
		}
		if p.o.messages > 0 && p.taken.Add(1) > p.o.messages {
			return false
		}
		if planned := of.payload(c.Message().Payload); planned >= p.begin.UnixNano() {
			read.planned = append(read.planned, planned)
		}
		read.messages++
		read.next = c.NextOffset()
	}
	if of == nil { // compressed messages without any inside
		read.start, read.next = c.NextOffset(), c.NextOffset()
	}
	return p.o.messages == 0 || p.taken.Load() < p.o.messages
}

// partition returns the check of a partition, of which a message at an offset is to
// be checked.
func (p *perfGroup) partition(id partitionID, offset int64) *perfPartition {
	p.mapMu.Lock()
	defer p.mapMu.Unlock()
	of := p.checks[id]
	if of == nil {
		of = &perfPartition{perfCheck: perfCheck{next: map[uint64]uint64{}, middle: offset > 0}}
		p.checks[id] = of
	}
	return of
}

// next waits for more: when following, for as long as any stream gets messages.
func (p *perfGroup) next(ctx context.Context, s *consumer.GroupStream) (consumer.Chunk, error) {
	if !p.o.follow || p.o.idleTimeout == 0 {
		return s.NextChunk(ctx)
	}
	for {
		idleAt := p.lastCame().Add(p.o.idleTimeout)
		waiting, cancel := context.WithDeadline(ctx, idleAt)
		chunk, err := s.NextChunk(waiting)
		cancel()
		switch {
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return chunk, err
		case !p.lastCame().Add(p.o.idleTimeout).After(time.Now()):
			return chunk, errIdle
		}
	}
}

// lastCame returns when the last message came, or when reading began.
func (p *perfGroup) lastCame() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		return p.begin
	}
	return p.last
}
