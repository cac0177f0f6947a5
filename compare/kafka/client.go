package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
)

// closeLimit bounds how long Close waits for what was not flushed.
const closeLimit = 3 * time.Second

var errClosed = errors.New("kafka: the client is closed")

// conn is the client half: a producer or a stream for each queue, and a
// connection to ask what has arrived.
type conn struct {
	addr string
	opts options

	mu     sync.Mutex // guards all that follows
	closed bool
	closes []func(context.Context) error
	queues map[string]*queue
	ask    *client.Conn // nil: not connected

	asking    sync.Mutex // held during a question: one at a time
	closeOnce sync.Once
	closeErr  error
}

// queue is what is known of a queue.
type queue struct {
	name string
	// entryBytes is the size of each of its entries; 0 until a message was sent
	// or seen.
	entryBytes atomic.Int64
	// packed is what is known of the sizes of compressed batches, where there are
	// any.
	packed packed
}

func connect(ctx context.Context, addr string, opts options) (*conn, error) {
	ask, err := client.Dial(ctx, addr, client.Config{})
	if err != nil {
		return nil, err
	}
	return &conn{addr: addr, opts: opts, queues: map[string]*queue{}, ask: ask}, nil
}

// queue returns what is known of a queue.
func (c *conn) queue(name string) (*queue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	q := c.queues[name]
	if q == nil {
		q = &queue{name: name}
		c.queues[name] = q
	}
	return q, nil
}

// keep has Close call f, which is called at once if Close has begun.
func (c *conn) keep(ctx context.Context, f func(context.Context) error) error {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.closes = append(c.closes, f)
	}
	c.mu.Unlock()
	if closed {
		return errors.Join(errClosed, f(ctx))
	}
	return nil
}

func (c *conn) Consumer(ctx context.Context, name string) (driver.Consumer, error) {
	q, err := c.queue(name)
	if err != nil {
		return nil, err
	}
	// A consumer is about to be measured over what is there, and the flush of its
	// last second is none of the consumer's work.
	if err := c.waitVisible(ctx, q.name); err != nil {
		return nil, fmt.Errorf("kafka: waiting for the flush of queue %q: %w", q.name, err)
	}
	if c.opts.partitions > 1 {
		return newMerger(c, name), nil
	}
	return c.receiver(ctx, name, 0)
}

// receiver opens a partition of a queue's topic, until Close.
func (c *conn) receiver(ctx context.Context, topic string, partition int32) (*receiver, error) {
	s, err := c.open(ctx, topic, partition)
	if err != nil {
		return nil, err
	}
	if err := c.keep(ctx, func(context.Context) error { return s.Close() }); err != nil {
		return nil, err
	}
	return &receiver{conn: c, stream: s, topic: topic}, nil
}

// open opens a stream of the whole of one partition of a topic.
func (c *conn) open(ctx context.Context, topic string, partition int32) (*consumer.Stream, error) {
	return consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: c.addr, Topic: topic, Partition: partition, Start: consumer.Earliest, FetchBytes: c.opts.fetchBytes,
	})
}

// receiver is the driver's consumer.
type receiver struct {
	conn   *conn
	stream *consumer.Stream
	topic  string
	chunk  message.Iterator // what is left of the last one
}

// Receive hands over one fetch's messages.
func (r *receiver) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for handled := false; !handled; {
		for r.chunk.Next() {
			handled = true
			if err := handle(r.chunk.Message().Payload); err != nil {
				return err
			}
		}
		if err := r.chunk.Err(); err != nil {
			return fmt.Errorf("kafka: %w", err)
		}
		if !handled {
			if err := r.next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// aliveInterval is how long the stream may bring nothing before the broker is
// asked whether it is there, and answerLimit how long it may take to answer.
const (
	aliveInterval = time.Second
	answerLimit   = 10 * time.Second
)

// next waits for the next chunk. A stream outlives its broker: it connects
// again for as long as it is asked to. In an experiment a broker that has gone
// is the end.
func (r *receiver) next(ctx context.Context) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, aliveInterval)
		chunk, err := r.stream.NextChunk(waiting)
		cancel()
		if err == nil {
			r.chunk = chunk
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		deadline, limited := ctx.Deadline()
		limited = limited && time.Until(deadline) < answerLimit
		asking, cancel := context.WithTimeout(ctx, answerLimit)
		_, _, askErr := r.conn.ends(asking, r.topic)
		cancel()
		if askErr != nil && limited && errors.Is(askErr, context.DeadlineExceeded) {
			<-ctx.Done() // it was the caller's time that ran out, not the broker's
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if askErr != nil {
			return fmt.Errorf("kafka: nothing comes from queue %q, and the broker does not answer: %w", r.topic, askErr)
		}
	}
}

// Arrived divides the end of the log by the size of an entry.
func (c *conn) Arrived(ctx context.Context, name string) (int64, error) {
	q, err := c.queue(name)
	if err != nil {
		return 0, err
	}
	end, visible, err := c.ends(ctx, name)
	if err != nil || end == 0 {
		return 0, err
	}
	if c.opts.codec != message.CodecNone {
		return c.arrivedPacked(ctx, q, end, visible)
	}
	if q.entryBytes.Load() == 0 {
		if err := c.learnSize(ctx, q); err != nil {
			return 0, err
		}
	}
	return end / q.entryBytes.Load(), nil
}

// visibleInterval is how often the broker is asked how far it has flushed.
const visibleInterval = 10 * time.Millisecond

// waitVisible waits until what the queue's log holds now is visible.
func (c *conn) waitVisible(ctx context.Context, topic string) error {
	end, visible, err := c.ends(ctx, topic)
	for err == nil && visible < end {
		select {
		case <-time.After(visibleInterval):
			_, visible, err = c.ends(ctx, topic)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// ends asks the broker how many bytes have been appended to the queue's log,
// and how many of them are visible: of all its partitions together.
func (c *conn) ends(ctx context.Context, topic string) (appended, visible int64, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	ask, err := c.askConn(ctx)
	if err != nil {
		return 0, 0, err
	}
	// All topics: one that is not there yet is no error then.
	states, err := ask.Topics(ctx)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ask = nil
		return 0, 0, errors.Join(err, ask.Close())
	}
	for _, s := range states {
		if s.Topic == topic {
			appended += s.LogEnd
			visible += s.Watermark
		}
	}
	return appended, visible, nil
}

// askConn returns the connection for questions, made anew after an error.
func (c *conn) askConn(ctx context.Context) (*client.Conn, error) {
	c.mu.Lock()
	ask := c.ask
	c.mu.Unlock()
	if ask != nil {
		return ask, nil
	}
	ask, err := client.Dial(ctx, c.addr, client.Config{})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(errClosed, ask.Close())
	}
	c.ask = ask
	return ask, nil
}

// learnSize looks at the first message of a queue to which this client has
// sent nothing. It waits until the message is visible.
func (c *conn) learnSize(ctx context.Context, q *queue) (err error) {
	s, err := c.open(ctx, q.name, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m, err := s.Next(ctx)
	if err != nil {
		return fmt.Errorf("kafka: size of the messages of queue %q: %w", q.name, err)
	}
	q.entryBytes.CompareAndSwap(0, m.NextOffset-m.Offset)
	return nil
}

// StoredSize is that of an entry with magic 0 (NetDB'11 §5: 9 bytes overhead);
// what a message takes of a compressed one is not known.
func (c *conn) StoredSize(payload int) int {
	if c.opts.codec != message.CodecNone {
		return 0
	}
	return message.EntrySize(payload)
}

// Close closes what was opened, waiting a moment for what was not flushed. It
// names messages that were not sent.
func (c *conn) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { c.closeErr = c.close(ctx) })
	return c.closeErr
}

func (c *conn) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	c.mu.Lock()
	c.closed = true
	closes, ask := c.closes, c.ask
	c.mu.Unlock()
	errs := make([]error, len(closes))
	var wg sync.WaitGroup
	for i, f := range closes {
		wg.Go(func() { errs[i] = f(ctx) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if ask != nil {
		err = errors.Join(err, ask.Close()) // ends a question under way
	}
	return err
}
