package activemq

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-stomp/stomp/v3"

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
	queue string

	sub     *stomp.Subscription // nil: not subscribed yet
	last    *stomp.Message
	unacked int
}

// Consumer prepares consuming from the queue.
func (c *client) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	l, err := c.open(ctx, queue, false)
	if err != nil {
		return nil, err
	}
	return &consumer{c: c, l: l, queue: queue}, nil
}

// subscribe begins with the first Receive, not before: the broker sends a
// prefetch of messages to whoever is subscribed.
func (r *consumer) subscribe() (err error) {
	mode := stomp.AckAuto
	if r.c.opt.clientAck {
		mode = stomp.AckClient
	}
	r.sub, err = r.l.subscribe("/queue/"+r.queue, mode, stomp.SubscribeOpt.Header("activemq.prefetchSize", strconv.Itoa(r.c.opt.prefetch)))
	return err
}

// Receive hands over the messages that are there, or waits for some.
func (r *consumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if r.sub == nil {
		if err := r.subscribe(); err != nil {
			return r.fail("subscribing", err)
		}
	}
	m, err := r.wait(ctx)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		r.last = m
		r.unacked++
		if err := handle(m.Body); err != nil {
			return err
		}
		if r.c.opt.clientAck && r.unacked >= r.c.opt.ackEvery {
			if err := r.acknowledge(); err != nil {
				return err
			}
		}
		if n == pullMessages {
			return nil
		}
		var ok bool
		select {
		case m, ok = <-r.sub.C:
			if !ok {
				return r.fail("receiving", errClosed)
			}
			if m.Err != nil {
				return r.fail("receiving", m.Err)
			}
		default:
			return nil
		}
	}
}

// wait waits for a message.
func (r *consumer) wait(ctx context.Context) (*stomp.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, r.fail("receiving", err)
	}
	if r.c.opt.clientAck && r.unacked > 0 {
		soon, cancel := context.WithTimeout(ctx, ackIdle)
		m, err := r.l.next(soon, r.sub)
		idle := soon.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return m, nil
		}
		if !idle {
			return nil, r.fail("receiving", err)
		}
		if err := r.acknowledge(); err != nil {
			return nil, err
		}
	}
	m, err := r.l.next(ctx, r.sub)
	if err != nil {
		return nil, r.fail("receiving", err)
	}
	return m, nil
}

// acknowledge acknowledges all messages so far.
func (r *consumer) acknowledge() error {
	if err := r.l.conn.Ack(r.last); err != nil {
		return r.fail("acknowledging", err)
	}
	r.unacked = 0
	return nil
}

func (r *consumer) fail(what string, err error) error {
	return fmt.Errorf("activemq %s: queue %s: %s: %w", r.c.addr, r.queue, what, r.l.sock.because(err))
}
