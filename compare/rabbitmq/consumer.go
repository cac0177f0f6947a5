package rabbitmq

import (
	"context"
	"fmt"
	"time"

	"github.com/streadway/amqp"

	"kafkalab/harness/driver"
)

const (
	// pullMessages is the most that one Receive hands over.
	pullMessages = 1000
	// ackIdle is how long the last messages before a pause wait for their
	// acknowledgement.
	ackIdle = 50 * time.Millisecond
)

type consumer struct {
	c     *client
	l     *link
	ch    *amqp.Channel
	why   *reason
	queue string

	deliveries <-chan amqp.Delivery // nil: not subscribed yet
	last       uint64               // delivery tag
	unacked    int
}

// Consumer declares the queue and prepares consuming from it.
func (c *client) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	l, ch, why, err := c.open(ctx, queue)
	if err != nil {
		return nil, err
	}
	return &consumer{c: c, l: l, ch: ch, why: why, queue: queue}, nil
}

// subscribe begins with the first Receive, not before: with automatic
// acknowledgement the server sends what it has to whoever is subscribed.
func (r *consumer) subscribe(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.l.abort)
	defer stop()
	auto := !r.c.opt.manualAck
	if !auto {
		if err := r.ch.Qos(r.c.opt.prefetch, 0, false); err != nil {
			return err
		}
	}
	const exclusive, noLocal, noWait = false, false, false
	deliveries, err := r.ch.Consume(r.queue, "", auto, exclusive, noLocal, noWait, r.c.opt.consuming())
	r.deliveries = deliveries
	return err
}

// Receive hands over the messages that are there, or waits for some.
func (r *consumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if r.deliveries == nil {
		if err := r.subscribe(ctx); err != nil {
			return r.fail("subscribing", err)
		}
	}
	d, err := r.wait(ctx)
	if err != nil {
		return err
	}
	n := 0
	defer func() { r.l.gate.handled(n) }()
	for {
		n++
		r.last = d.DeliveryTag
		r.unacked++
		if err := handle(d.Body); err != nil {
			return err
		}
		if r.c.opt.manualAck && r.unacked >= r.c.opt.ackEvery {
			if err := r.acknowledge(); err != nil {
				return err
			}
		}
		if n == pullMessages {
			return nil
		}
		var ok bool
		select {
		case d, ok = <-r.deliveries:
			if !ok {
				return r.fail("receiving", amqp.ErrClosed)
			}
		default:
			return nil
		}
	}
}

// wait waits for a delivery.
func (r *consumer) wait(ctx context.Context) (amqp.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return amqp.Delivery{}, r.fail("receiving", err)
	}
	var idle <-chan time.Time
	if r.c.opt.manualAck && r.unacked > 0 {
		t := time.NewTimer(ackIdle)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case d, ok := <-r.deliveries:
			if !ok {
				return d, r.fail("receiving", amqp.ErrClosed)
			}
			return d, nil
		case <-idle:
			if err := r.acknowledge(); err != nil {
				return amqp.Delivery{}, err
			}
			idle = nil
		case <-ctx.Done():
			return amqp.Delivery{}, r.fail("receiving", ctx.Err())
		}
	}
}

// acknowledge acknowledges all messages so far.
func (r *consumer) acknowledge() error {
	const multiple = true
	if err := r.ch.Ack(r.last, multiple); err != nil {
		return r.fail("acknowledging", err)
	}
	r.unacked = 0
	return nil
}

func (r *consumer) fail(what string, err error) error {
	if r.l.conn.IsClosed() {
		err = r.l.because(err)
	} else if err == amqp.ErrClosed {
		err = r.why.explain(err)
	}
	return fmt.Errorf("rabbitmq %s: queue %s: %s: %w", r.c.addr, r.queue, what, err)
}
