package kafka

import (
	"context"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

func (c *conn) Producer(ctx context.Context, name string) (driver.Producer, error) {
	q, err := c.queue(name)
	if err != nil {
		return nil, err
	}
	p, err := producer.New(ctx, c.opts.producer(c.addr))
	if err != nil {
		return nil, err
	}
	if err := c.keep(ctx, p.Close); err != nil {
		return nil, err
	}
	s := sender{producer: p, queue: q, one: make([][]byte, 1), turns: newTurns(c.opts)}
	if c.opts.codec != message.CodecNone {
		return c.newPackingSender(ctx, &s)
	}
	if c.opts.acks == producer.AcksNone {
		return &s, nil
	}
	return &promisedSender{sender: s}, nil
}

// producer is the configuration of the product's producer.
func (opts options) producer(broker string) producer.Config {
	return producer.Config{
		Brokers: []string{broker},
		// A synchronous producer makes a request of each Send: for batches of
		// one that is the same without the batch. With acknowledgement it waits for
		// each answer. Compressed batches come whole.
		Async:         opts.codec == message.CodecNone && (opts.batch > 1 || opts.acks != producer.AcksNone && !opts.awaitEach),
		BatchMessages: opts.batch,
		QueueInterval: opts.linger,
		Acks:          opts.acks,
		Codec:         opts.codec,
		NoCoalesce:    !opts.coalesced,

		MaxMessageBytes: maxPayloadBytes,
	}
}

// maxPayloadBytes is what broker and producer are told to take: the largest
// payload of a scenario. 0.7 takes 1,000,000 bytes.
const maxPayloadBytes = 1 << 20

// sender is the driver's producer.
type sender struct {
	producer *producer.Producer
	queue    *queue
	payload  int      // size of each, 0 before the first
	one      [][]byte // the argument of the producer's Send, without making it anew
	ctx      impatient
	turns    turns // whose partition is the next message's
}

// impatient hides that a context ends at a known time. A producer waits for a
// broker that is away until then; in an experiment a broker that has gone is
// the end, and the producer's own limit tells.
type impatient struct{ context.Context }

func (impatient) Deadline() (time.Time, bool) { return time.Time{}, false }

func (s *sender) Send(ctx context.Context, payload []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(payload) != s.payload {
		if err := s.setSize(len(payload)); err != nil {
			return err
		}
	}
	s.one[0] = payload
	if s.ctx.Context != ctx {
		s.ctx = impatient{ctx}
	}
	return s.producer.Send(&s.ctx, s.queue.name, s.turns.next(), s.one...)
}

// setSize is called with the first payload, and with any of another size,
// which is refused.
func (s *sender) setSize(n int) error {
	entry := message.EntrySize(n)
	if !s.queue.entryBytes.CompareAndSwap(0, int64(entry)) && s.queue.entryBytes.Load() != int64(entry) {
		return fmt.Errorf("kafka: payload of %d bytes in queue %q, whose payloads have %d: messages are counted by their size, which must be one",
			n, s.queue.name, s.queue.entryBytes.Load()-int64(message.EntrySize(0)))
	}
	s.payload = n
	return nil
}

// Flush waits until the broker has read everything.
func (s *sender) Flush(ctx context.Context) error { return s.producer.Flush(impatient{ctx}) }

// promisedSender is a sender to which the broker answers.
type promisedSender struct{ sender }

// Promised is what was acknowledged. The answers come in order over one
// connection, and what is still unanswered when it ends has failed, so there is
// no gap unless the broker has refused a request, after which Send fails.
func (s *promisedSender) Promised() int64 { return s.producer.Stats().Delivered }
