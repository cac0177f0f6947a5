package producer

import (
	"fmt"
	"slices"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

type batchKey struct {
	topic     string
	partition int32
	keyed     bool // of messages whose order by key is to be kept
}

// batch is the message set that gathers for one partition. An empty one is
// kept for its memory.
type batch struct {
	key      batchKey
	frame    []byte // the request, up to its tail: room for what precedes the set, and the set
	head     int    // bytes of that room
	keys     []byte // of its messages, if they are keyed
	messages int
	due      time.Time // when it is sent however few messages it has
}

const (
	// maxEmptyBatches bounds how many partitions are remembered for reuse.
	maxEmptyBatches = 1024
	// smallPart is what an empty batch may keep in any case, as a part of
	// MaxBufferBytes: one of small batches to many partitions in turn makes no garbage.
	smallPart = 16
	// keptBuffers bounds the memory that all that keep more do so together, in
	// MaxBufferBytes.
	keptBuffers = 8
)

func (p *Producer) batch(topic string, partition int32, keyed bool) *batch {
	if b := p.last; b != nil && b.key.partition == partition && b.key.keyed == keyed && b.key.topic == topic {
		return b
	}
	key := batchKey{topic, partition, keyed}
	b := p.batches[key]
	if b == nil {
		if len(p.batches) >= maxEmptyBatches {
			p.forgetEmpty(0)
		}
		head := wire.ProduceHeaderSize(topic)
		b = &batch{key: key, head: head, frame: make([]byte, head)}
		p.batches[key] = b
	}
	p.last = b
	return b
}

// forgetEmpty forgets the empty batches that keep more than so many bytes.
func (p *Producer) forgetEmpty(more int) {
	for k, b := range p.batches {
		if b.messages > 0 || b.memory() <= more {
			continue
		}
		delete(p.batches, k)
		p.kept -= p.large(b)
		if p.last == b {
			p.last = nil
		}
	}
}

// sendAsync adds each payload to the open batch of its partition. It returns how
// many it has refused, the last ones.
func (p *Producer) sendAsync(room *room, topic string, partition int32, payloads [][]byte) (refused int, err error) {
	for i, payload := range payloads {
		b, err := p.makeRoom(room, topic, partition, message.EntrySize(len(payload))+room.keySize())
		if err == errDrop {
			p.drop(1)
			continue
		}
		if err != nil {
			if i > 0 {
				err = &PartialError{Taken: i, Err: err}
			}
			return len(payloads) - i, err
		}
		if b.messages == 0 {
			p.kept -= p.large(b)
			b.due = time.Now().Add(p.cfg.QueueInterval)
			if p.openBytes == 0 {
				p.signal() // an idle writer has no due time yet; that of others is earlier
			}
		}
		b.frame = message.Append(b.frame, payload)
		b.messages++
		size := message.EntrySize(len(payload))
		p.openBytes += size
		if room.keyed {
			before := len(b.keys)
			b.keys = appendKey(b.keys, room.key, 1)
			p.openBytes += len(b.keys) - before
		}
		p.take(room, count{1, int64(size)})
		if b.messages == p.cfg.BatchMessages && !p.closeBatch(b) {
			p.full++ // taken along when the writer makes room
		}
	}
	return 0, nil
}

// makeRoom returns the batch of a partition when n more bytes fit it.
func (p *Producer) makeRoom(room *room, topic string, partition int32, n int) (*batch, error) {
	for {
		b := p.batch(topic, partition, room.keyed)
		switch {
		case b.messages > 0 && (b.messages >= p.cfg.BatchMessages || b.size()+n > p.cfg.MaxBufferBytes):
			if err := p.waitRoom(room, p.requestSize(b)); err != nil {
				return nil, err
			}
			p.closeBatch(b)
		case p.openBytes > 0 && p.openBytes+n > 4*p.cfg.MaxBufferBytes:
			// Many partitions, each with a little: send what there is.
			if p.closeAll(); p.openBytes == 0 {
				continue
			}
			if err := p.waitRoom(room, p.cfg.MaxBufferBytes); err != nil {
				return nil, err
			}
		default:
			return b, nil
		}
	}
}

func (p *Producer) requestSize(b *batch) int {
	return wire.AckedProduceSize(b.key.topic) + b.size()
}

// set is what has gathered.
func (b *batch) set() []byte { return b.frame[b.head:] }

// size is the memory that its messages take.
func (b *batch) size() int { return len(b.frame) - b.head + len(b.keys) }

// memory is what it takes and keeps, messages or not.
func (b *batch) memory() int { return cap(b.frame) + cap(b.keys) }

// large is the memory of a batch that counts towards keptBuffers: none of a small one.
func (p *Producer) large(b *batch) int {
	if m := b.memory(); m > p.cfg.MaxBufferBytes/smallPart {
		return m
	}
	return 0
}

// empty lets the batch begin anew. When large ones keep too much, all empty ones of them
// are forgotten: those that are in use have theirs again soon.
func (p *Producer) empty(b *batch) {
	p.openBytes -= b.size()
	b.frame, b.keys, b.messages = b.frame[:b.head], b.keys[:0], 0
	if b.memory() > 2*p.cfg.MaxBufferBytes {
		b.frame, b.keys = make([]byte, b.head), nil // as with the buffers
	}
	if p.kept += p.large(b); p.kept > keptBuffers*p.cfg.MaxBufferBytes {
		p.forgetEmpty(p.cfg.MaxBufferBytes / smallPart)
	}
}

// closeBatch makes a request of an open batch, if the buffer has room for it. A
// compressed one takes less of it.
func (p *Producer) closeBatch(b *batch) bool {
	if b.messages == 0 {
		return true
	}
	if !p.hasRoom(p.requestSize(b)) {
		p.signal()
		return false
	}
	c, set, err := count{int64(b.messages), int64(len(b.set()))}, b.set(), error(nil)
	if p.cfg.Codec != message.CodecNone {
		p.packed, err = p.pack(p.packed[:0], set)
		set = p.packed
	}
	if err != nil {
		p.lose(c, false, fmt.Errorf("batch of %s-%d: %w", b.key.topic, b.key.partition, err))
	} else {
		if p.cfg.Codec != message.CodecNone || !p.becomeBuffer(b) {
			p.beginRequest(b.key.topic, b.key.partition, len(set))
			p.fill.b = append(p.fill.b, set...)
		}
		if p.owner != nil {
			start := len(p.fill.keys)
			p.fill.keys = append(beginKeys(p.fill.keys), b.keys...)
			endKeys(p.fill.keys, start)
		}
		p.endRequest(c, len(set), nil)
	}
	p.empty(b)
	if cap(p.packed) > 2*p.cfg.MaxBufferBytes {
		p.packed = nil
	}
	p.signal()
	return true
}

// becomeBuffer makes the request of a batch the buffer, if that is empty, and gives
// the batch the buffer's memory, which saves a large one from being copied. The memory
// must not be more than a few times what the batch has taken: there may be many.
func (p *Producer) becomeBuffer(b *batch) bool {
	if len(p.fill.b) > 0 || cap(p.fill.b) > 8*len(b.frame) {
		return false
	}
	frame, freed, size := b.frame, p.fill.b, len(b.set())
	p.fill.b = frame[:0]
	p.beginRequest(b.key.topic, b.key.partition, size)
	p.fill.b = frame
	b.frame = slices.Grow(freed, b.head)[:b.head]
	p.openBytes -= size
	return true
}

// closeAll closes as many open batches as the buffer has room for.
func (p *Producer) closeAll() {
	for _, b := range p.batches {
		if b.messages > 0 && !p.closeBatch(b) {
			return
		}
	}
}

// closeFull closes batches that became full while the buffer was.
func (p *Producer) closeFull() {
	if p.full == 0 {
		return
	}
	p.full = 0
	for _, b := range p.batches {
		if b.messages >= p.cfg.BatchMessages && !p.closeBatch(b) {
			p.full++
		}
	}
}

// closeDue closes batches that have waited for QueueInterval, and returns when
// the next is due: zero if there is none. One that is due and finds no room is
// not waited for by the clock, which would go off at once: roomMade wakes the
// writer for it.
func (p *Producer) closeDue(now time.Time) (next time.Time) {
	p.dueWaits = false
	if p.openBytes == 0 {
		return next
	}
	for _, b := range p.batches {
		switch {
		case b.messages == 0:
		case !b.due.After(now):
			if !p.closeBatch(b) {
				p.dueWaits = true
			}
		case next.IsZero() || b.due.Before(next):
			next = b.due
		}
	}
	return next
}

// roomMade lets the batches that have waited for room become requests: answers
// have come, or will not come any more.
func (p *Producer) roomMade() {
	p.closeFull()
	if p.dueWaits {
		p.signal()
	}
}
