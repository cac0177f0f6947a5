package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/streadway/amqp"
)

// fanOut is the name of the exchange that copies what is sent to a queue to
// several.
func fanOut(queue string) string { return queue + ".fan" }

// FanOut makes a fanout exchange with a queue for each group. A stream needs
// none: each consumer reads all of it.
func (c *client) FanOut(ctx context.Context, queue string, groups int) ([]string, error) {
	if groups < 2 {
		return nil, fmt.Errorf("rabbitmq: fan-out of queue %s to %d groups: at least 2 are wanted", queue, groups)
	}
	queues := make([]string, groups)
	err := c.briefly(ctx, func(ch *amqp.Channel) error {
		const durable, autoDelete, exclusive, internal, noWait = true, false, false, false, false
		if c.opt.stream() {
			queues = slices.Repeat([]string{queue}, groups)
			_, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, c.opt.arguments())
			return err
		}
		if err := ch.ExchangeDeclare(fanOut(queue), amqp.ExchangeFanout, durable, autoDelete, internal, noWait, nil); err != nil {
			return err
		}
		for i := range queues {
			queues[i] = fanOut(queue) + strconv.Itoa(i+1)
			if _, err := ch.QueueDeclare(queues[i], durable, autoDelete, exclusive, noWait, c.opt.arguments()); err != nil {
				return err
			}
			if err := ch.QueueBind(queues[i], "", fanOut(queue), noWait, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rabbitmq %s: fan-out of queue %s: %w", c.addr, queue, err)
	}
	return queues, nil
}

// fanOutOf returns the exchange that FanOut has made for the queue, by this
// client or another, or "".
func (c *client) fanOutOf(ctx context.Context, queue string) (string, error) {
	name := fanOut(queue)
	err := c.briefly(ctx, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeFanout, true, false, false, false, nil)
	})
	if reply := (*amqp.Error)(nil); errors.As(err, &reply) && reply.Code == amqp.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("rabbitmq %s: asking for a fan-out of queue %s: %w", c.addr, queue, err)
	}
	return name, nil
}

// briefly does something on a connection that is closed again.
func (c *client) briefly(ctx context.Context, do func(ch *amqp.Channel) error) error {
	l, err := dial(ctx, c.addr, false, c.noteBlocked)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, l.abort)
	ch, err := l.conn.Channel()
	if err == nil {
		err = do(ch)
	}
	err = l.because(err)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, l.close(ctx))
}
