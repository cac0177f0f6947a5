package kafka

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// packed says how many messages a log of compressed batches holds up to an
// offset.
type packed struct {
	mu sync.Mutex
	// ends are where each batch ends that this client has sent, if all of the
	// queue is its own: in order, after each other.
	ends []packedEnd

	// Another client's are counted by reading.
	reading *consumer.Stream
	read    int64
	readTo  int64 // offset
}

// packedEnd is the end of a batch: offset in the log, and messages up to it.
type packedEnd struct{ offset, messages int64 }

// add notes that so many bytes of log hold so many messages, all since the
// beginning.
func (p *packed) add(end packedEnd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, end)
}

// before returns how many messages end at or before an offset; ok is false if
// this client has sent none.
func (p *packed) before(offset int64) (messages int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := sort.Search(len(p.ends), func(i int) bool { return p.ends[i].offset > offset })
	if i > 0 {
		messages = p.ends[i-1].messages
	}
	return messages, len(p.ends) > 0
}

// started says whether something was sent.
func (p *packed) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ends) > 0
}

// arrivedPacked counts the messages of a log whose end and visible end were
// just asked for.
func (c *conn) arrivedPacked(ctx context.Context, q *queue, end, visible int64) (int64, error) {
	if n, ok := q.packed.before(end); ok {
		return n, nil
	}
	p := &q.packed
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading == nil {
		s, err := c.open(ctx, q.name, 0)
		if err != nil {
			return 0, err
		}
		if err := c.keep(ctx, func(context.Context) error { return s.Close() }); err != nil {
			return 0, err
		}
		p.reading = s
	}
	for p.readTo < visible {
		chunk, err := p.reading.NextChunk(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return 0, fmt.Errorf("kafka: counting the messages of queue %q: %w", q.name, err)
		}
		for chunk.Next() {
			p.read++
		}
		if err := chunk.Err(); err != nil {
			return 0, fmt.Errorf("kafka: counting the messages of queue %q: %w", q.name, err)
		}
		p.readTo = chunk.NextOffset()
	}
	return p.read, nil
}

// packingSender gathers whole batches, since each is compressed by itself and
// the size of each tells what has arrived.
type packingSender struct {
	*sender
	batch int
	full  int    // messages of a batch, as far as they fit
	buf   []byte // the payloads of the open batch, one after the other
	views [][]byte
	sent  int64
}

// newPackingSender refuses a queue that holds something already.
func (c *conn) newPackingSender(ctx context.Context, s *sender) (*packingSender, error) {
	end, _, err := c.ends(ctx, s.queue.name)
	if err == nil && (end > 0 || s.queue.packed.started()) {
		err = fmt.Errorf("kafka: compressed batches are counted from the beginning of a queue, but %q holds %d bytes: use one producer for it", s.queue.name, end)
	}
	return &packingSender{sender: s, batch: c.opts.batch}, err
}

func (s *packingSender) Send(ctx context.Context, payload []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(payload) != s.payload {
		if err := s.setSize(len(payload)); err != nil {
			return err
		}
		// As the product's own batches: not more than fits its buffer.
		s.full = max(1, min(s.batch, producer.DefaultMaxBufferBytes/message.EntrySize(len(payload))))
		s.buf = slices.Grow(s.buf[:0], s.full*len(payload))
	}
	at := len(s.buf)
	s.buf = append(s.buf, payload...)
	s.views = append(s.views, s.buf[at:])
	if len(s.views) < s.full {
		return nil
	}
	return s.sendBatch(ctx)
}

// sendBatch hands the open batch over and notes what it takes.
func (s *packingSender) sendBatch(ctx context.Context) error {
	if len(s.views) == 0 {
		return nil
	}
	err := s.producer.Send(impatient{ctx}, s.queue.name, 0, s.views...)
	n := int64(len(s.views))
	s.views, s.buf = s.views[:0], s.buf[:0]
	if err != nil {
		return err
	}
	s.sent += n
	s.queue.packed.add(packedEnd{offset: s.producer.Stats().RequestBytes, messages: s.sent})
	return nil
}

// Flush sends what is in the open batch, and waits until the broker has read
// everything.
func (s *packingSender) Flush(ctx context.Context) error {
	if err := s.sendBatch(ctx); err != nil {
		return err
	}
	return s.sender.Flush(ctx)
}
