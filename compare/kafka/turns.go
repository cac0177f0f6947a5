package kafka

import (
	"context"
	"fmt"
)

// turns spreads a queue's messages over the partitions of its topic: a batch to
// each, in order, and then to the first again. That is what a producer does that
// picks a partition for each batch, without the chance in it, so that a consumer
// of all partitions can put the messages back in order.
type turns struct {
	partitions int32
	batch      int
	at         int32 // the partition whose turn it is
	left       int   // messages that it still gets
}

func newTurns(opts options) turns {
	return turns{partitions: int32(opts.partitions), batch: opts.batch, left: opts.batch}
}

// next is the partition of the next message.
func (t *turns) next() int32 {
	if t.partitions == 1 {
		return 0
	}
	if t.left == 0 {
		t.at, t.left = (t.at+1)%t.partitions, t.batch
	}
	t.left--
	return t.at
}

// merger is the driver's consumer of several partitions: it takes the messages
// in the order in which turns has spread them. A producer that goes on where
// another one has ended begins with the first partition anew, so a queue of
// several partitions has one producer in its life.
type merger struct {
	conn  *conn
	topic string
	parts []*receiver // opened when their turn comes first; nil before
	at    int         // the partition whose turn it is
	left  int         // messages that it still gives
}

func newMerger(c *conn, topic string) *merger {
	return &merger{conn: c, topic: topic, parts: make([]*receiver, c.opts.partitions), left: c.opts.batch}
}

// mergeHands is about how many messages one Receive hands over.
const mergeHands = 1000

func (m *merger) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for handled := 0; handled < mergeHands; {
		if m.left == 0 {
			m.at, m.left = (m.at+1)%len(m.parts), m.conn.opts.batch
		}
		r := m.parts[m.at]
		if r == nil {
			var err error
			if r, err = m.conn.receiver(ctx, m.topic, int32(m.at)); err != nil {
				return fmt.Errorf("kafka: %w", err)
			}
			m.parts[m.at] = r
		}
		for m.left > 0 && r.chunk.Next() {
			handled++
			m.left--
			if err := handle(r.chunk.Message().Payload); err != nil {
				return err
			}
		}
		if err := r.chunk.Err(); err != nil {
			return fmt.Errorf("kafka: partition %d of queue %q: %w", m.at, m.topic, err)
		}
		if m.left == 0 {
			continue
		}
		if handled > 0 {
			return nil // before waiting for what may never come
		}
		if err := r.next(ctx); err != nil {
			return fmt.Errorf("kafka: partition %d of queue %q: %w", m.at, m.topic, err)
		}
	}
	return nil
}
