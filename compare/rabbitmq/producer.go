package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/streadway/amqp"

	"kafkalab/compare/internal/interrupt"
	"kafkalab/harness/driver"
)

type producer struct {
	c     *client
	l     *link
	ch    *amqp.Channel
	why   *reason // of the channel's end
	queue string
	watch *interrupt.Watch
	// Where messages go: to the queue by the default exchange, whose name is
	// empty, or by an exchange of its own to several queues.
	exchange string

	sent int64 // handed to the library

	// With confirms:
	confirms    chan amqp.Confirmation
	outstanding int
	refused     int64
	promised    atomic.Int64 // confirmed, from the first on and without a gap
}

// Producer declares the queue and prepares publishing to it.
func (c *client) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	exchange, err := c.fanOutOf(ctx, queue)
	if err != nil {
		return nil, err
	}
	declared := queue
	if exchange != "" {
		declared = "" // the exchange has queues of its own
	}
	l, ch, why, err := c.open(ctx, declared)
	if err != nil {
		return nil, err
	}
	p := &producer{c: c, l: l, ch: ch, why: why, queue: queue, exchange: exchange, watch: interrupt.NewWatch(callGrace, l.abort)}
	c.mu.Lock()
	c.watches = append(c.watches, p.watch)
	c.mu.Unlock()
	if c.opt.confirms != "none" {
		// As large as the window: the library's reader must never wait for us.
		p.confirms = ch.NotifyPublish(make(chan amqp.Confirmation, c.opt.window))
		stop := context.AfterFunc(ctx, l.abort)
		defer stop()
		if err := ch.Confirm(false); err != nil {
			return nil, p.fail(ctx, "asking for confirms", err)
		}
	}
	return p, nil
}

// Send publishes one message. Without confirms it returns when the message is
// in the buffer, or on the socket; with confirms = each, when it has been
// confirmed.
func (p *producer) Send(ctx context.Context, payload []byte) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	defer p.watch.End()
	if p.confirms != nil {
		if err := p.reserve(ctx, p.c.opt.window-1); err != nil {
			return p.fail(ctx, "sending", err)
		}
	}
	const mandatory, immediate = false, false
	err := p.ch.Publish(p.exchange, p.queue, mandatory, immediate, amqp.Publishing{DeliveryMode: p.c.opt.mode(), Body: payload})
	if err != nil {
		return p.fail(ctx, "sending", err)
	}
	p.sent++
	if p.confirms == nil {
		return nil
	}
	p.outstanding++
	if p.c.opt.confirms == "each" {
		if err := p.reserve(ctx, 0); err != nil {
			return p.fail(ctx, "waiting for the confirm", err)
		}
	}
	return nil
}

// reserve waits until at most most messages are without a confirm. The library
// hands confirms out in the order of the messages.
func (p *producer) reserve(ctx context.Context, most int) error {
	for p.outstanding > most {
		select {
		case confirm, ok := <-p.confirms:
			if !ok {
				return p.why.explain(amqp.ErrClosed)
			}
			p.confirmed(confirm)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.refused > 0 {
		return fmt.Errorf("the server refused %d messages (nack)", p.refused)
	}
	return nil
}

func (p *producer) confirmed(c amqp.Confirmation) {
	p.outstanding--
	switch {
	case !c.Ack:
		p.refused++
	case p.refused == 0:
		p.promised.Add(1)
	}
}

// Promised returns how many messages the server has confirmed, from the first
// on and without a gap, as far as Send and Flush have looked. It may be called
// at any time.
func (p *producer) Promised() int64 { return p.promised.Load() }

// Flush returns when all messages have been given to the operating system,
// and, with confirms, have been confirmed.
func (p *producer) Flush(ctx context.Context) error {
	if err := p.l.flush(ctx); err != nil {
		return p.fail(ctx, "flushing", err)
	}
	if p.confirms != nil {
		if err := p.reserve(ctx, 0); err != nil {
			return p.fail(ctx, "waiting for confirms", err)
		}
	}
	if p.l.conn.IsClosed() {
		return p.fail(ctx, "flushing", amqp.ErrClosed)
	}
	return nil
}

// fail says what failed, why, and how many messages are affected.
func (p *producer) fail(ctx context.Context, what string, err error) error {
	p.drain()
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = errors.Join(ctxErr, err)
	}
	if p.l.conn.IsClosed() {
		err = p.l.because(err)
	} else if errors.Is(err, amqp.ErrClosed) {
		err = p.why.explain(err) // the channel alone was closed
	}
	return fmt.Errorf("rabbitmq %s: queue %s: %s: %w (%d messages handed over, %s)", p.c.addr, p.queue, what, err, p.sent, p.fate())
}

// drain counts the confirms that have come and were not looked at yet.
func (p *producer) drain() {
	for p.confirms != nil && p.outstanding > 0 {
		select {
		case confirm, ok := <-p.confirms:
			if !ok {
				return
			}
			p.confirmed(confirm)
		default:
			return
		}
	}
}

// fate says what is known of the messages that were handed over.
func (p *producer) fate() string {
	if p.confirms != nil {
		return fmt.Sprintf("%d of them not confirmed", int64(p.outstanding)+p.refused)
	}
	if p.l.sock == nil || p.sent == 0 {
		return "all of them written to the socket"
	}
	taken, unwritten := p.l.sock.Unwritten()
	// Messages of a run are of one size.
	perMessage := max(taken/p.sent, 1)
	return fmt.Sprintf("about %d of them not sent", (unwritten+perMessage-1)/perMessage)
}
