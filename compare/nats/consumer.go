package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kafkalab/harness/driver"
)

const (
	// pullMessages is the most that one Receive hands over.
	pullMessages = 1000
	// handOver is how many messages may lie between the library, which pulls
	// more when it has given a message away, and Receive.
	handOver = 64
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
	cons  jetstream.Consumer
	pull  jetstream.PullConsumeOpt

	msgs   chan jetstream.Msg
	failed chan error    // the first that ends the pulling
	done   chan struct{} // closed by close

	mu      sync.Mutex
	closed  bool
	pulling jetstream.ConsumeContext // nil: nothing was asked for yet

	// Of the receiving goroutine.
	last    jetstream.Msg
	unacked int
}

// Consumer makes a consumer of the queue's stream, from its beginning. It
// pulls nothing before the first Receive.
func (c *client) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	l, err := dial(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	r := &consumer{c: c, l: l, queue: queue, msgs: make(chan jetstream.Msg, handOver), failed: make(chan error, 1), done: make(chan struct{})}
	if err = r.prepare(ctx); err == nil {
		err = c.keep(func() { c.consumers = append(c.consumers, r) })
	}
	if err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	return r, nil
}

func (r *consumer) prepare(ctx context.Context) error {
	s, err := r.c.stream(ctx, r.l, r.queue)
	if err != nil {
		return err
	}
	if r.pull, err = r.pullSize(ctx, s); err != nil {
		return r.fail("asking for the first message", err)
	}
	cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: inactive}
	if r.c.opt.ackAll {
		cfg.AckPolicy = jetstream.AckAllPolicy
		// Never reached, so that it is the prefetch that bounds.
		cfg.MaxAckPending = r.c.opt.prefetch + handOver + r.c.opt.ackEvery + pullMessages
	}
	if r.cons, err = s.CreateConsumer(ctx, cfg); err != nil {
		return r.fail("making a consumer", err)
	}
	return nil
}

// pullSize is how much a pull asks for. A bound in bytes that a single message
// exceeds would stop the server, so it is given in messages where their size is
// known from the first one: those of a run are of one size.
func (r *consumer) pullSize(ctx context.Context, s jetstream.Stream) (jetstream.PullConsumeOpt, error) {
	opt := r.c.opt
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return jetstream.PullMaxMessagesWithBytesLimit(opt.prefetch, max(opt.prefetchBytes, int(r.l.conn.MaxPayload())+messageRoom)), nil
	}
	m, err := s.GetMsg(ctx, state.FirstSeq)
	if err != nil {
		return nil, err
	}
	return jetstream.PullMaxMessages(min(opt.prefetch, max(1, opt.prefetchBytes/max(1, len(m.Data))))), nil
}

// begin begins to pull.
func (r *consumer) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if r.pulling != nil {
		return nil
	}
	var err error
	r.pulling, err = r.cons.Consume(func(m jetstream.Msg) {
		select {
		case r.msgs <- m:
		case <-r.done:
		}
	}, r.pull, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		// Whatever it is: in an experiment it is the end.
		select {
		case r.failed <- err:
		default: // the first one tells
		}
	}))
	return err
}

// Receive hands over the messages that are there, or waits for some.
func (r *consumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if r.pulling == nil {
		if err := r.begin(); err != nil {
			return r.fail("pulling", err)
		}
	}
	m, err := r.wait(ctx)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		r.last = m
		r.unacked++
		if err := handle(m.Data()); err != nil {
			return err
		}
		if r.c.opt.ackAll && r.unacked >= r.c.opt.ackEvery {
			if err := r.acknowledge(); err != nil {
				return err
			}
		}
		if n == pullMessages {
			return nil
		}
		select {
		case m = <-r.msgs:
		default:
			return nil
		}
	}
}

// wait waits for a message.
func (r *consumer) wait(ctx context.Context) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, r.fail("receiving", err)
	}
	var idle <-chan time.Time
	if r.c.opt.ackAll && r.unacked > 0 {
		t := time.NewTimer(ackIdle)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case m := <-r.msgs:
			return m, nil
		case err := <-r.failed:
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				err = fmt.Errorf("the server stands still: %w", err)
			}
			return nil, r.fail("receiving", err)
		case <-r.l.ended:
			return nil, r.fail("receiving", nats.ErrConnectionClosed)
		case <-idle:
			if err := r.acknowledge(); err != nil {
				return nil, err
			}
			idle = nil
		case <-ctx.Done():
			return nil, r.fail("receiving", ctx.Err())
		}
	}
}

// acknowledge acknowledges all messages so far.
func (r *consumer) acknowledge() error {
	if err := r.last.Ack(); err != nil {
		return r.fail("acknowledging", err)
	}
	r.unacked = 0
	return nil
}

func (r *consumer) fail(what string, err error) error {
	return fmt.Errorf("nats %s: queue %s: %s: %w", r.c.addr, r.queue, what, r.l.because(err))
}

// close ends the pulling and the connection.
func (r *consumer) close(ctx context.Context) error {
	r.mu.Lock()
	first, pulling := !r.closed, r.pulling
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.done)
	}
	if pulling != nil {
		pulling.Stop()
	}
	return r.l.close(ctx)
}
