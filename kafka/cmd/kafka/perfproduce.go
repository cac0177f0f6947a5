package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// perfProduce sends the messages and waits until they have arrived.
func perfProduce(ctx context.Context, o perfOptions) (*perfResult, error) {
	target, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer target.close()
	partitions, err := target.partitions(ctx)
	switch {
	case err == nil:
	case !errors.Is(err, wire.CodeNoSuchTopic):
		return nil, err
	case o.partition == allPartitions || target.reg != nil:
		return nil, fmt.Errorf("%w: create it with the partitions that it is to have, see \"kafka topics create\"", err)
	default: // sending makes the topic
		partitions = []wire.TopicState{{Topic: o.topic, Partition: o.partition}}
	}
	progress := startProgress(o.progress, "sent", o.messages, o.interval)
	s := &perfSending{o: o, reg: target.reg, clock: systemClock{}, begin: time.Now(), done: &progress.done, latencies: newLatencies()}
	err = s.sendAll(ctx, partitions)
	var after []wire.TopicState
	if err == nil {
		// All was confirmed by now; the log ends prove it, whatever a producer says.
		after, err = target.partitions(ctx)
	}
	took := time.Since(s.begin)
	progress.stop()
	if err != nil {
		return nil, interrupted(ctx, err, progress.done.Load(), o.messages, "handed over")
	}
	r := &perfResult{Messages: o.messages, Bytes: logEnds(after) - logEnds(partitions), Latency: s.latencies.result("acknowledged")}
	r.finish(took)
	r.perfRate = s.rate()
	switch want := o.messages * int64(message.EntrySize(o.messageSize)); {
	case o.codec == message.CodecNone && r.Bytes != want:
		return r, fmt.Errorf("the log of %s has grown by %d bytes, not %d: messages are missing, or others write to it too", o.topic, r.Bytes, want)
	case o.acks == producer.AcksNone && r.Bytes > 0 && r.Bytes < s.setBytes.Load():
		return r, fmt.Errorf("the log of %s has grown by %d bytes, of %d that were sent: messages are missing; with --acks the broker says why", o.topic, r.Bytes, s.setBytes.Load())
	case r.Bytes <= 0: // what compression makes of them is something
		return r, fmt.Errorf("the log of %s has not grown: none of the %d messages has arrived; with --acks the broker says why", o.topic, o.messages)
	}
	return r, nil
}

// logEnds returns the sum of the partitions' log ends.
func logEnds(partitions []wire.TopicState) (total int64) {
	for _, s := range partitions {
		total += s.LogEnd
	}
	return total
}

// perfClock is the time that perf goes by.
type perfClock interface {
	now() time.Time
	// sleepUntil waits for a time. One that has passed is not waited for, so a
	// stall is caught up with.
	sleepUntil(ctx context.Context, t time.Time) error
}

type systemClock struct{}

func (systemClock) now() time.Time { return time.Now() }

func (systemClock) sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// perfSending is a perf produce under way.
type perfSending struct {
	o         perfOptions
	reg       *registry.Registry // nil: to one broker
	clock     perfClock
	begin     time.Time
	done      *atomic.Int64 // messages handed over
	latencies *latencies
	last      atomic.Int64 // when the last one was handed over, ns after begin
	setBytes  atomic.Int64 // of all message sets, as far as that is known
}

// sendAll sends from all producers, which take turns over the partitions.
func (s *perfSending) sendAll(ctx context.Context, partitions []wire.TopicState) error {
	g, gctx := errgroup.WithContext(ctx)
	for i := range s.o.producers {
		p := perfProducer{perfSending: s, number: i, partition: partitions[i%len(partitions)].Partition, messages: s.o.messages / int64(s.o.producers)}
		if int64(i) < s.o.messages%int64(s.o.producers) {
			p.messages++
		}
		g.Go(func() error { return p.run(gctx) })
	}
	return g.Wait()
}

// rate returns how the wanted rate was kept, nil if none was.
func (s *perfSending) rate() *perfRate {
	if s.o.rate == 0 {
		return nil
	}
	// The last message stands for the time up to the next one, which has no plan.
	took := time.Duration(s.last.Load()).Seconds() + float64(s.o.producers)/s.o.rate
	r := &perfRate{Wanted: s.o.rate, Achieved: float64(s.o.messages) / took}
	r.Missed = r.Achieved < 0.99*r.Wanted
	return r
}

// handedOver notes that n more messages went to a producer.
func (s *perfSending) handedOver(n int64) {
	s.done.Add(n)
	now := int64(s.clock.now().Sub(s.begin))
	for {
		last := s.last.Load()
		if now <= last || s.last.CompareAndSwap(last, now) {
			return
		}
	}
}

// perfProducer is one of the producers.
type perfProducer struct {
	*perfSending
	number    int // from 0
	partition int32
	messages  int64
	next      atomic.Int64 // batch that a worker takes next, with acks
}

// planned returns when the i-th message is to be sent: now, without a rate.
func (p *perfProducer) planned(i int64) time.Time {
	if p.o.rate == 0 {
		return p.clock.now()
	}
	return p.begin.Add(time.Duration(math.Round(float64(i) * float64(p.o.producers) * float64(time.Second) / p.o.rate)))
}

func (p *perfProducer) run(ctx context.Context) error {
	out, err := p.open(ctx)
	if err != nil {
		return err
	}
	if p.o.acks == producer.AcksNone {
		err = p.sendUnanswered(ctx, out)
	} else {
		g, gctx := errgroup.WithContext(ctx)
		for range p.o.inFlight {
			g.Go(func() error {
				return p.sendAnswered(gctx, func(payloads ...[]byte) error { return out.send(gctx, payloads...) })
			})
		}
		err = g.Wait()
	}
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err = errors.Join(err, out.Close(closeCtx))
	p.setBytes.Add(out.setBytes())
	return err
}

// reportMessages is how many messages are handed over between two reports at full
// speed.
const reportMessages = 256

// sendUnanswered sends all messages, one after the other, for the producer to
// gather in batches.
func (p *perfProducer) sendUnanswered(ctx context.Context, out perfOut) error {
	sender, buffers := newPerfSender(1, p.o.messageSize, p.o.text)
	counted := int64(0) // messages that were reported as handed over
	var planned time.Time
	for i := range p.messages {
		if p.o.rate > 0 || i%int64(p.o.batch) == 0 { // a look at the clock costs as much as a message
			planned = p.planned(i)
			if err := p.clock.sleepUntil(ctx, planned); err != nil {
				return err
			}
		}
		sender.next(buffers[0], planned)
		if err := out.send(ctx, buffers...); err != nil {
			return err
		}
		if n := i + 1 - counted; n == reportMessages || i == p.messages-1 || p.o.rate > 0 {
			p.handedOver(n)
			counted += n
		}
	}
	return out.Flush(ctx)
}

// sendAnswered sends batches and waits for the answer to each, as one of several
// workers. A batch is sent when its last message is planned; that the others have
// waited for it is part of what their acknowledgement took.
func (p *perfProducer) sendAnswered(ctx context.Context, send func(payloads ...[]byte) error) error {
	batch := int64(p.o.batch)
	sender, buffers := newPerfSender(int(min(batch, p.messages)), p.o.messageSize, p.o.text)
	planned := make([]time.Time, len(buffers))
	for {
		first := (p.next.Add(1) - 1) * batch
		if first >= p.messages {
			return nil
		}
		n := min(batch, p.messages-first)
		if err := p.clock.sleepUntil(ctx, p.planned(first+n-1)); err != nil {
			return err
		}
		for i := range n {
			planned[i] = p.planned(first + i)
			sender.next(buffers[i], planned[i])
		}
		p.handedOver(n)
		if err := send(buffers[:n]...); err != nil {
			return err
		}
		p.latencies.record(p.clock.now(), planned[:n]...)
	}
}
