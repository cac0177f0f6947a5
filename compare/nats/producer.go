package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kafkalab/compare/internal/interrupt"
	"kafkalab/harness/driver"
)

type producer struct {
	c     *client
	l     *link
	queue string
	watch *interrupt.Watch

	sent atomic.Int64 // handed to the library

	// With acks: each message that waits for its ack holds a slot.
	slots   chan struct{}
	acked   atomic.Int64
	sure    atomic.Int64  // of them, before one that was refused
	failed  chan struct{} // closed when a message was refused
	refusal error         // the first; set before failed is closed
	refused sync.Once
}

// Producer makes the queue's stream and prepares publishing to it.
func (c *client) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	p := &producer{c: c, queue: queue, failed: make(chan struct{})}
	var opts []jetstream.JetStreamOpt
	if c.opt.acks != "none" {
		p.slots = make(chan struct{}, c.opt.window)
		opts = []jetstream.JetStreamOpt{
			// Never reached: there are no more slots than that.
			jetstream.WithPublishAsyncMaxPending(c.opt.window),
			jetstream.WithPublishAsyncAckHandler(func(jetstream.JetStream, *nats.Msg, *jetstream.PubAck) {
				p.noteAck()
				<-p.slots
			}),
			jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
				p.refuse(err)
				<-p.slots
			}),
		}
	}
	var err error
	if p.l, err = dial(ctx, c.addr, opts...); err != nil {
		return nil, err
	}
	p.watch = interrupt.NewWatch(callGrace, p.l.abort)
	if _, err = c.stream(ctx, p.l, queue); err == nil {
		err = c.keep(func() { c.producers = append(c.producers, p) })
	}
	if err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	return p, nil
}

func (p *producer) noteAck() {
	p.acked.Add(1)
	select {
	case <-p.failed:
	default:
		p.sure.Add(1)
	}
}

// refuse keeps why a message was not taken.
func (p *producer) refuse(err error) {
	p.refused.Do(func() {
		p.refusal = err
		close(p.failed)
	})
}

// Send publishes one message. With acks it waits while as many as the window
// has wait for theirs; without, it returns when the message is in the library's
// buffer or on the socket.
func (p *producer) Send(ctx context.Context, payload []byte) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	defer p.watch.End()
	if p.slots == nil {
		if err := p.l.conn.Publish(p.queue, payload); err != nil {
			return p.fail(ctx, "sending", err)
		}
		p.sent.Add(1)
		return nil
	}
	if err := p.reserve(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	// The library keeps the payload until its ack has come.
	if _, err := p.l.js.PublishAsync(p.queue, bytes.Clone(payload)); err != nil {
		<-p.slots
		return p.fail(ctx, "sending", err)
	}
	p.sent.Add(1)
	if p.c.opt.acks == "each" {
		if err := p.complete(ctx); err != nil {
			return p.fail(ctx, "waiting for the ack", err)
		}
	}
	return nil
}

// reserve takes a slot, and waits for one if need be.
func (p *producer) reserve(ctx context.Context) error {
	select {
	case <-p.failed:
		return p.refusal
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.failed:
		return p.refusal
	case <-p.l.ended:
		return nats.ErrConnectionClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flushLimit stands for a deadline where the caller's context has none, which
// the library insists on.
const flushLimit = 24 * time.Hour

// Flush returns when all messages have been acknowledged; without acks, when
// the server has read them all.
func (p *producer) Flush(ctx context.Context) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "flushing", err)
	}
	defer p.watch.End()
	if p.slots == nil {
		ctx, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		if err := p.l.conn.FlushWithContext(ctx); err != nil {
			return p.fail(ctx, "flushing", err)
		}
		return nil
	}
	if err := p.complete(ctx); err != nil {
		return p.fail(ctx, "waiting for acks", err)
	}
	return nil
}

// complete waits until all messages have been acknowledged.
func (p *producer) complete(ctx context.Context) (err error) {
	select {
	case <-p.l.js.PublishAsyncComplete():
	case <-p.failed:
	case <-p.l.ended:
		err = nats.ErrConnectionClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-p.failed:
		return p.refusal
	default:
		return err
	}
}

// Promised returns how many messages the stream has acknowledged. The acks of
// a connection come in the order of its messages, and none is counted after one
// that was refused. It may be called at any time.
func (p *producer) Promised() int64 { return p.sure.Load() }

// fail says what failed, why, and how many messages are affected.
func (p *producer) fail(ctx context.Context, what string, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = errors.Join(ctxErr, err)
	}
	return fmt.Errorf("nats %s: queue %s: %s: %w (%d messages handed over, %s)", p.c.addr, p.queue, what, p.l.because(err), p.sent.Load(), p.fate())
}

// fate says what is known of the messages that were handed over.
func (p *producer) fate() string {
	if p.slots == nil {
		return "how many of them the server has taken is not known"
	}
	return fmt.Sprintf("%d of them not acknowledged", p.sent.Load()-p.acked.Load())
}

// close ends the connection. Messages that wait for their ack are named: they
// may or may not be in the stream.
func (p *producer) close(ctx context.Context) error {
	var err error
	if p.slots != nil {
		if waiting := p.sent.Load() - p.acked.Load(); waiting > 0 {
			err = fmt.Errorf("nats %s: queue %s: closed with %d messages not acknowledged", p.c.addr, p.queue, waiting)
		}
	}
	err = errors.Join(err, p.l.close(ctx))
	p.watch.Close()
	return err
}
