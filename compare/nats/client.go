package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"kafkalab/harness/driver"
)

// client is the client half. Each producer and each consumer has a connection
// of its own, and Arrived another.
type client struct {
	addr string
	opt  options
	ask  *link

	mu        sync.Mutex
	closed    bool
	producers []*producer
	consumers []*link

	once sync.Once
	err  error // of Close
}

// Connect opens the connection that Arrived uses, and makes sure that the
// server is there and has JetStream.
func (d *Driver) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(target.Addr); err != nil {
		return nil, fmt.Errorf("nats: the server's address %q: %w", target.Addr, err)
	}
	ask, err := dial(ctx, target.Addr)
	if err != nil {
		return nil, err
	}
	if _, err := ask.js.AccountInfo(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("nats %s: asking for JetStream: %w", target.Addr, ask.because(err)), ask.close(ctx))
	}
	return &client{addr: target.Addr, opt: opt, ask: ask}, nil
}

// queuePattern is what both a stream and a subject without parts may be named.
var queuePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

// stream returns the queue's stream, and makes it if it is not there.
func (c *client) stream(ctx context.Context, l *link, queue string) (jetstream.Stream, error) {
	if !queuePattern.MatchString(queue) {
		return nil, fmt.Errorf("nats: queue name %q: letters, digits, '_' and '-' are wanted, 200 at most", queue)
	}
	s, err := l.js.Stream(ctx, queue)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = l.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: queue, Subjects: []string{queue}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Replicas: 1,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("nats %s: queue %s: %w", c.addr, queue, l.because(err))
	}
	return s, nil
}

// Arrived returns how many messages the queue's stream holds. One that is not
// there holds 0.
func (c *client) Arrived(ctx context.Context, queue string) (int64, error) {
	s, err := c.ask.js.Stream(ctx, queue)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("nats %s: asking for queue %s: %w", c.addr, queue, c.ask.because(err))
	}
	return int64(s.CachedInfo().State.Msgs), nil
}

// FanOut makes the queue's stream, which each consumer reads all of.
func (c *client) FanOut(ctx context.Context, queue string, groups int) ([]string, error) {
	if groups < 2 {
		return nil, fmt.Errorf("nats: fan-out of queue %s to %d groups: at least 2 are wanted", queue, groups)
	}
	if _, err := c.stream(ctx, c.ask, queue); err != nil {
		return nil, err
	}
	return slices.Repeat([]string{queue}, groups), nil
}

// Close closes all connections at once, each within a few seconds, and names
// messages that were not acknowledged.
func (c *client) Close(ctx context.Context) error {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		producers, consumers := slices.Clone(c.producers), slices.Clone(c.consumers)
		c.mu.Unlock()
		errs := make([]error, len(producers)+len(consumers)+1)
		var wg sync.WaitGroup
		for i, p := range producers {
			wg.Go(func() { errs[i] = p.close(ctx) })
		}
		for i, l := range consumers {
			wg.Go(func() { errs[len(producers)+i] = l.close(ctx) })
		}
		wg.Go(func() { errs[len(errs)-1] = c.ask.close(ctx) })
		wg.Wait()
		c.err = errors.Join(errs...)
	})
	return c.err
}

// keep has Close close a producer or a consumer, unless it has begun.
func (c *client) keep(add func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("nats %s: %w", c.addr, errClosed)
	}
	add()
	return nil
}
