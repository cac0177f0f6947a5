package producer

import (
	"bytes"
	"fmt"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// parcel is what one producer of a cluster has taken and not written, on its way to
// another one.
type parcel struct {
	topic    string
	key      []byte
	keyed    bool
	payloads [][]byte
}

// bytes returns the size of its entries, uncompressed.
func (p *parcel) bytes() (n int64) {
	for _, payload := range p.payloads {
		n += int64(message.EntrySize(len(payload)))
	}
	return n
}

// selection says which messages are meant.
type selection func(topic []byte, keyed bool) bool

func everything([]byte, bool) bool { return true }

// retire ends the taking: who sends, or waits to, goes elsewhere. It returns what
// has not been written.
func (p *Producer) retire() []parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	parcels := p.takeBack(everything)
	p.broadcast()
	return parcels
}

// takeUnwritten is takeBack for one who does not hold mu.
func (p *Producer) takeUnwritten(of selection) []parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeBack(of)
}

// takeBack takes what has not been written, of the selection, out of the buffer and
// the open batches, in its order. mu is held.
func (p *Producer) takeBack(of selection) (parcels []parcel) {
	parcels = p.takeRequests(parcels, of)
	for _, b := range p.batches {
		if b.messages > 0 && of([]byte(b.key.topic), b.key.keyed) {
			parcels = appendParcels(parcels, b.key.topic, b.set(), b.keys, b.key.keyed)
			p.empty(b)
		}
	}
	if len(parcels) == 0 {
		return nil
	}
	for i := range parcels {
		p.movedOut += int64(len(parcels[i].payloads))
	}
	p.settleIfIdle()
	p.roomMade()
	p.broadcast()
	return parcels
}

// takeRequests takes requests of the selection out of the buffer. mu is held.
func (p *Producer) takeRequests(parcels []parcel, of selection) []parcel {
	if !p.hasRequest(of) {
		return parcels
	}
	var kept buffer
	b, keys := p.fill.b, p.fill.keys
	for i := 0; len(b) > 0; i++ {
		frame := b[:frameSize(b)]
		entries, rest := nextKeys(keys)
		framed := keys[:len(keys)-len(rest)]
		b, keys = b[len(frame):], rest
		// It is our own, so it parses.
		_, body, _ := wire.SplitRequest(frame[wire.SizeSize:])
		req, _ := wire.ParseProduce(body)
		if of(req.Topic, len(entries) > 0) {
			parcels = appendParcels(parcels, string(req.Topic), req.Set, entries, len(entries) > 0)
			if p.cfg.Acks != AcksNone {
				p.resolved++
			}
			continue
		}
		kept.b, kept.keys = append(kept.b, frame...), append(kept.keys, framed...)
		kept.count.add(countSet(req.Set))
		kept.frames++
		if p.cfg.Acks != AcksNone {
			kept.requests = append(kept.requests, p.fill.requests[i])
		}
	}
	p.fill = kept
	return parcels
}

// hasRequest reports whether a request in the buffer is of the selection.
func (p *Producer) hasRequest(of selection) bool {
	for b, keys := p.fill.b, p.fill.keys; len(b) > 0; b = b[frameSize(b):] {
		var entries []byte
		entries, keys = nextKeys(keys)
		_, body, _ := wire.SplitRequest(b[wire.SizeSize:frameSize(b)])
		if req, _ := wire.ParseProduce(body); of(req.Topic, len(entries) > 0) {
			return true
		}
	}
	return false
}

// appendParcels takes a message set apart: one parcel if its messages have no keys,
// and one for each entry of keys otherwise. They share no memory with it.
func appendParcels(parcels []parcel, topic string, set message.Set, keys []byte, keyed bool) []parcel {
	it := set.Iterate(0)
	if !keyed {
		pc := parcel{topic: topic}
		for it.Next() {
			pc.payloads = append(pc.payloads, bytes.Clone(it.Message().Payload))
		}
		parcels = append(parcels, pc)
	}
	for len(keys) > 0 {
		key, n, rest := nextKey(keys)
		keys = rest
		pc := parcel{topic: topic, key: bytes.Clone(key), keyed: true}
		for len(pc.payloads) < n && it.Next() {
			pc.payloads = append(pc.payloads, bytes.Clone(it.Message().Payload))
		}
		parcels = append(parcels, pc)
	}
	if it.Err() != nil || it.Next() {
		panic(fmt.Sprintf("producer: a message set of its own does not go with its keys: %v", it.Err()))
	}
	return parcels
}

// held counts the messages that were taken and are not settled. mu is held.
func (p *Producer) held() int64 {
	n := p.fill.count.messages + p.flying.messages
	for _, b := range p.batches {
		n += int64(b.messages)
	}
	if p.link != nil {
		n += p.link.unconfirmed.messages
		for _, r := range p.link.inflight {
			n += r.messages
		}
	}
	return n
}
