package producer

import (
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// sendOne is send for what comes most often, a single payload that goes where the
// last one went, with nothing to be waited for, refused, compressed or reported: what
// send has to find out of any payload is known of it, as the one before it has passed.
// It reports whether it has taken the payload. mu is held.
func (p *Producer) sendOne(topic string, partition int32, payload []byte) bool {
	if p.retired || p.closing || p.loss.messages != 0 || len(payload) > p.cfg.MaxMessageBytes {
		return false
	}
	if p.cfg.Async {
		return p.joinLast(topic, partition, payload)
	}
	return p.gathers && p.gatherOne(topic, partition, payload)
}

// joinLast adds a payload to the batch that was used last if it is of that
// partition, open, and will not be full with it.
func (p *Producer) joinLast(topic string, partition int32, payload []byte) bool {
	b, size := p.last, message.EntrySize(len(payload))
	if b == nil || b.messages == 0 || b.messages >= p.cfg.BatchMessages-1 || b.key.partition != partition || b.key.keyed || b.key.topic != topic ||
		b.size()+size > p.cfg.MaxBufferBytes || p.openBytes+size > 4*p.cfg.MaxBufferBytes {
		return false
	}
	b.frame = message.Append(b.frame, payload)
	b.messages++
	p.openBytes += size
	p.stats.Sent++
	p.stats.Bytes += int64(size)
	return true
}

// gatherOne puts a request with one payload into the buffer, of a producer that
// needs nothing else for it.
func (p *Producer) gatherOne(topic string, partition int32, payload []byte) bool {
	size := message.EntrySize(len(payload))
	if topic != p.topic || topic == "" || partition < -1 || !p.hasRoom(wire.ProduceHeaderSize(topic)+size) {
		return false
	}
	p.fill.b = message.Append(wire.AppendProduceHeader(p.fill.b, topic, partition, size), payload)
	c := count{1, int64(size)}
	p.fill.count.add(c)
	p.fill.frames++
	p.stats.Sent++
	p.stats.Bytes += c.bytes
	p.stats.Requests++
	p.stats.RequestBytes += c.bytes
	p.signal()
	return true
}
