package activemq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"

	"kafkalab/compare/internal/interrupt"
	"kafkalab/harness/driver"
)

// barrier is a topic that nobody listens to. The broker drops what is sent
// there, but gives a receipt in its turn.
const barrier = "/topic/barrier"

type producer struct {
	c     *client
	l     *link
	queue string
	watch *interrupt.Watch

	destination string
	options     []func(*frame.Frame) error

	sent      int64 // handed to the library
	confirmed int64 // of them, covered by a receipt
	promised  atomic.Int64
}

// Producer prepares sending to the queue, which the broker makes with the
// first message.
func (c *client) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	destination, err := c.destinationOf(ctx, queue)
	if err != nil {
		return nil, err
	}
	if c.opt.receipt == "bulk" {
		p, err := c.bulk(ctx, queue, destination)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	l, err := c.open(ctx, queue, true)
	if err != nil {
		return nil, err
	}
	// Without the header a message is not stored.
	p := &producer{
		c: c, l: l, queue: queue, watch: interrupt.NewWatch(callGrace, l.sock.abort),
		destination: destination, options: []func(*frame.Frame) error{stomp.SendOpt.Header("persistent", "true")},
	}
	if c.opt.receipt == "every" {
		p.options = append(p.options, stomp.SendOpt.Receipt)
	}
	c.mu.Lock()
	c.watches = append(c.watches, p.watch)
	c.mu.Unlock()
	return p, nil
}

// Send sends one message. Without receipts it returns when the library has
// taken it.
func (p *producer) Send(ctx context.Context, payload []byte) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	defer p.watch.End()
	if err := p.l.room(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	// The library keeps the body until its writer comes to it.
	body := bytes.Clone(payload)
	send := func() error { return p.l.conn.Send(p.destination, "", body, p.options...) }
	if p.c.opt.receipt == "none" {
		if err := send(); err != nil {
			return p.fail(ctx, "sending", err)
		}
		p.sent++
		return nil
	}
	if err := p.l.await(send); err != nil {
		return p.fail(ctx, "sending", err)
	}
	p.sent++
	p.confirmed = p.sent
	p.promised.Store(p.sent)
	return nil
}

// Promised returns how many messages a receipt of their own has come for: with
// receipt = none there is none. It may be called at any time.
func (p *producer) Promised() int64 { return p.promised.Load() }

// Flush returns when the broker has taken all messages: it handles the frames
// of a connection in their order, and gives a receipt for the last.
func (p *producer) Flush(ctx context.Context) error {
	if p.confirmed == p.sent {
		if err := p.l.sock.because(nil); err != nil {
			return p.fail(ctx, "flushing", err)
		}
		return nil
	}
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "flushing", err)
	}
	defer p.watch.End()
	err := p.l.room(ctx)
	if err == nil {
		err = p.l.await(func() error { return p.l.conn.Send(barrier, "", nil, stomp.SendOpt.Receipt) })
	}
	if err != nil {
		return p.fail(ctx, "flushing", err)
	}
	p.confirmed = p.sent
	return nil
}

// fail says what failed, why, and how many messages are affected.
func (p *producer) fail(ctx context.Context, what string, err error) error {
	err = p.l.sock.because(err)
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = errors.Join(ctxErr, err)
	}
	return fmt.Errorf("activemq %s: queue %s: %s: %w (%d messages handed over, %d of them not confirmed)", p.c.addr, p.queue, what, err, p.sent, p.sent-p.confirmed)
}
