package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kafkalab/harness/driver"
)

const (
	// handOver is the most that one Receive hands over.
	handOver = 1000
	// ackIdle is how long the last messages before a pause wait for their
	// acknowledgement.
	ackIdle = 50 * time.Millisecond
	// inactive is how long the server keeps a consumer that asks for nothing.
	inactive = 10 * time.Minute
	// messageRoom is what a message may have beside its payload.
	messageRoom = 4 << 10
)

type consumer struct {
	c     *client
	l     *link
	queue string
	pull  *puller

	last    *nats.Msg // handed over
	unacked int
}

// Consumer makes a consumer of the queue's stream, from its beginning. It
// pulls nothing before the first Receive.
func (c *client) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	l, err := dial(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	r := &consumer{c: c, l: l, queue: queue}
	if err = r.prepare(ctx); err == nil {
		err = c.keep(func() { c.consumers = append(c.consumers, l) })
	}
	if err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	return r, nil
}

func (r *consumer) prepare(ctx context.Context) error {
	s, err := r.c.stream(ctx, r.l, r.queue)
	if err != nil {
		return err
	}
	size, err := r.pullSize(ctx, s)
	if err != nil {
		return r.fail("asking for the first message", err)
	}
	cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: inactive,
		MemoryStorage: true, // of its place in the stream: it is gone with the run
	}
	if r.c.opt.ackAll {
		cfg.AckPolicy = jetstream.AckAllPolicy
		// Never reached, so that it is the prefetch that bounds.
		cfg.MaxAckPending = r.c.opt.prefetch + r.c.opt.ackEvery
	}
	made, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return r.fail("making a consumer", err)
	}
	if r.pull, err = newPuller(r.l.conn, r.queue, made.CachedInfo().Name, size); err != nil {
		return r.fail("subscribing", err)
	}
	return nil
}

// pullSize is how much a pull asks for. A bound in bytes that a single message
// exceeds would stop the server, so it is given in messages where their size is
// known from the first one: those of a run are of one size.
func (r *consumer) pullSize(ctx context.Context, s jetstream.Stream) (pullSize, error) {
	opt := r.c.opt
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return pullSize{messages: opt.prefetch, bytes: max(opt.prefetchBytes, int(r.l.conn.MaxPayload())+messageRoom)}, nil
	}
	m, err := s.GetMsg(ctx, state.FirstSeq)
	if err != nil {
		return pullSize{}, err
	}
	return pullSize{messages: min(opt.prefetch, max(1, opt.prefetchBytes/max(1, len(m.Data))))}, nil
}

// Receive hands over the messages that are there, or waits for some.
func (r *consumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	m, err := r.wait(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; {
		payload, err := r.pull.used(m)
		if err == nil {
			err = r.pull.ask()
		}
		if err != nil {
			return r.fail("pulling", err)
		}
		if payload {
			n++
			if err := r.handle(m, handle); err != nil {
				return err
			}
		}
		if n == handOver {
			return nil
		}
		select {
		case m = <-r.pull.msgs:
			continue
		default:
		}
		if n > 0 {
			return nil
		}
		if m, err = r.wait(ctx); err != nil { // it was a notice
			return err
		}
	}
}

// handle hands a message over and acknowledges if it is time to.
func (r *consumer) handle(m *nats.Msg, handle func(payload []byte) error) error {
	r.last = m
	r.unacked++
	if err := handle(m.Data); err != nil {
		return err
	}
	if r.c.opt.ackAll && r.unacked >= r.c.opt.ackEvery {
		return r.acknowledge()
	}
	return nil
}

// wait waits for a message, or a notice.
func (r *consumer) wait(ctx context.Context) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, r.fail("receiving", err)
	}
	if err := r.pull.ask(); err != nil {
		return nil, r.fail("pulling", err)
	}
	quiet := time.NewTimer(quietLimit)
	defer quiet.Stop()
	var idle <-chan time.Time
	if r.c.opt.ackAll && r.unacked > 0 {
		t := time.NewTimer(ackIdle)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case m := <-r.pull.msgs:
			return m, nil
		case <-r.l.ended:
			return nil, r.fail("receiving", nats.ErrConnectionClosed)
		case <-idle:
			if err := r.acknowledge(); err != nil {
				return nil, err
			}
			idle = nil
		case <-quiet.C:
			return nil, r.fail("receiving", fmt.Errorf("the server stands still: neither a message nor a heartbeat for %v", quietLimit))
		case <-ctx.Done():
			return nil, r.fail("receiving", ctx.Err())
		}
	}
}

// acknowledge acknowledges all messages so far.
func (r *consumer) acknowledge() error {
	if err := r.l.conn.Publish(r.last.Reply, []byte("+ACK")); err != nil {
		return r.fail("acknowledging", err)
	}
	r.unacked = 0
	return nil
}

func (r *consumer) fail(what string, err error) error {
	return fmt.Errorf("nats %s: queue %s: %s: %w", r.c.addr, r.queue, what, r.l.because(err))
}
