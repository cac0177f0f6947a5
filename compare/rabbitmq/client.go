package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streadway/amqp"

	"kafkalab/compare/internal/interrupt"
	"kafkalab/harness/driver"
)

// client is the client half. Each producer and each consumer has a connection
// of its own, as RabbitMQ advises: the server slows a publisher down by not
// reading its connection. Arrived has another.
type client struct {
	addr string
	opt  options

	mu      sync.Mutex
	closed  bool
	links   []*link            // of producers and consumers
	watches []*interrupt.Watch // of producers
	blocked []string

	asking  sync.Mutex // one Arrived at a time; protects the rest
	ask     *link      // nil: to be dialled, under mu
	askCh   *amqp.Channel
	counted map[string]bool // streams that Arrived has asked for
}

// Connect opens the connection that Arrived uses, so that a server that is not
// there is noticed at once.
func (d *Driver) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(target.Addr); err != nil {
		return nil, fmt.Errorf("rabbitmq: the server's address %q: %w", target.Addr, err)
	}
	c := &client{addr: target.Addr, opt: opt, counted: map[string]bool{}}
	if _, err := c.askChannel(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// open dials a connection for a producer or a consumer and opens a channel on
// which the queue has been declared, unless it is "".
func (c *client) open(ctx context.Context, queue string) (*link, *amqp.Channel, *reason, error) {
	l, err := dial(ctx, c.addr, c.opt.coalesced, c.noteBlocked)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := context.AfterFunc(ctx, l.abort)
	ch, why, err := declare(ctx, l, queue, c.opt)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil {
		err = c.keep(l)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("rabbitmq %s: queue %s: %w", c.addr, queue, err), l.close(ctx))
	}
	return l, ch, why, nil
}

// declare opens a channel and makes the queue if it is not there.
func declare(ctx context.Context, l *link, queue string, opt options) (*amqp.Channel, *reason, error) {
	var ch *amqp.Channel
	err := await(ctx, func() (err error) {
		if ch, err = l.conn.Channel(); err != nil || queue == "" {
			return err
		}
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		_, err = ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, opt.arguments())
		return err
	})
	if err != nil {
		return nil, nil, l.because(err)
	}
	return ch, l.follow(ch.NotifyClose(make(chan *amqp.Error, 1))), nil
}

// await asks until the queue that is asked about has come back: for a while
// after the start of a server the leader of a stream that it has is not there
// yet. Each refusal ends a channel.
func await(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	for {
		err := ask()
		if !awaited(err) {
			return err
		}
		select {
		case <-time.After(awaitEvery):
		case <-ctx.Done():
			return err
		}
	}
}

// awaited says whether an error means that the queue is there, and its leader
// is not. The server has no code of its own for that.
func awaited(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == amqp.NotFound && strings.Contains(reply.Reason, "inaccessible")
}

func (c *client) keep(l *link) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	c.links = append(c.links, l)
	return nil
}

var errClosed = errors.New("the client is closed")

// noteBlocked keeps what the server said when it blocked a connection.
func (c *client) noteBlocked(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.blocked) < maxReasons {
		c.blocked = append(c.blocked, reason)
	}
}

// BlockedReasons returns why the server has blocked connections so far: its
// memory or its disk is full.
func (c *client) BlockedReasons() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.blocked)
}

// Arrived returns how many messages are ready in the queue: taken by the
// server, and not sent to a consumer yet; of a stream, all that it holds, as
// the server counted them at most countEvery ago. A queue that is not there
// holds 0.
func (c *client) Arrived(ctx context.Context, queue string) (int64, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	n, err := c.count(ctx, queue)
	if err != nil || !c.opt.stream() || c.counted[queue] {
		return n, err
	}
	// The first time: a server that has just started may not have counted yet.
	select {
	case <-time.After(5 * countEvery):
	case <-ctx.Done():
		return 0, fmt.Errorf("rabbitmq %s: asking for queue %s: %w", c.addr, queue, ctx.Err())
	}
	if n, err = c.count(ctx, queue); err == nil {
		c.counted[queue] = true
	}
	return n, err
}

// count asks for the number of messages once, or until a stream has come back.
// The asking lock is held.
func (c *client) count(ctx context.Context, queue string) (n int64, err error) {
	err = await(ctx, func() (err error) {
		n, err = c.ready(ctx, queue)
		return err
	})
	return n, err
}

func (c *client) ready(ctx context.Context, queue string) (int64, error) {
	ch, err := c.askChannel(ctx)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	l := c.ask
	c.mu.Unlock()
	if l == nil {
		return 0, fmt.Errorf("rabbitmq %s: asking for queue %s: %w", c.addr, queue, errClosed)
	}
	// The call takes no context; a connection that was given up is dialled anew,
	// also if the library has not noticed its end yet, or the answer came first.
	stop := context.AfterFunc(ctx, l.abort)
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if !stop() {
		c.forget(ctx, l)
	}
	if err == nil {
		return int64(q.Messages), nil
	}
	// Any failure has closed the channel.
	c.askCh = nil
	if reply := (*amqp.Error)(nil); errors.As(err, &reply) && reply.Code == amqp.NotFound && !awaited(err) {
		return 0, nil
	}
	return 0, fmt.Errorf("rabbitmq %s: asking for queue %s: %w", c.addr, queue, errors.Join(ctx.Err(), l.because(err)))
}

// CountsDepth says that Arrived falls as messages are consumed: of every queue
// but a stream, which keeps them.
func (c *client) CountsDepth() bool { return !c.opt.stream() }

// forget takes the connection that Arrived used out of use. The asking lock is
// held.
func (c *client) forget(ctx context.Context, l *link) {
	_ = l.close(ctx) // given up already
	c.askCh = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ask = nil
}

// askChannel returns the channel that Arrived uses. The asking lock is held,
// or nobody else knows the client yet.
func (c *client) askChannel(ctx context.Context) (*amqp.Channel, error) {
	c.mu.Lock()
	l, closed := c.ask, c.closed
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("rabbitmq %s: %w", c.addr, errClosed)
	}
	if l != nil && l.conn.IsClosed() {
		// It was given up, or the server has gone; dialling will tell.
		_ = l.close(ctx)
		l, c.askCh = nil, nil
	}
	if l == nil {
		var err error
		if l, err = dial(ctx, c.addr, false, c.noteBlocked); err != nil {
			return nil, err
		}
		c.mu.Lock()
		closed = c.closed
		c.ask = l
		c.mu.Unlock()
		if closed {
			return nil, errors.Join(fmt.Errorf("rabbitmq %s: %w", c.addr, errClosed), l.close(ctx))
		}
	}
	if c.askCh == nil {
		stop := context.AfterFunc(ctx, l.abort)
		ch, err := l.conn.Channel()
		if !stop() {
			err = errors.Join(ctx.Err(), err)
			c.forget(ctx, l)
		}
		if err != nil {
			return nil, fmt.Errorf("rabbitmq %s: opening a channel: %w", c.addr, l.because(err))
		}
		c.askCh = ch
	}
	return c.askCh, nil
}

// Close closes all connections at once, each within a few seconds, also when
// the server has blocked them and never answers.
func (c *client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	links := slices.Clone(c.links)
	if c.ask != nil {
		links = append(links, c.ask)
	}
	watches := slices.Clone(c.watches)
	c.mu.Unlock()
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.close(ctx) })
	}
	wg.Wait()
	for _, w := range watches {
		w.Close()
	}
	return errors.Join(errs...)
}
