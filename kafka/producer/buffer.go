package producer

import (
	"encoding/binary"
	"fmt"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// buffer holds encoded requests back to back.
type buffer struct {
	b        []byte
	count    count
	frames   int       // requests
	requests []request // one for each, when they are acknowledged
	keys     []byte    // of a cluster: those of the messages of each request, see beginKeys
}

// request is what is remembered of a request that will be answered.
type request struct {
	count
	result chan error // for the Send that waits, or nil
}

func (b *buffer) reset(maxBytes int) {
	b.b = b.b[:0]
	if cap(b.b) > 2*maxBytes {
		b.b = nil // one outsized request must not keep its memory for ever
	}
	if b.keys = b.keys[:0]; cap(b.keys) > 2*maxBytes {
		b.keys = nil
	}
	b.count, b.frames = count{}, 0
	clear(b.requests)
	b.requests = b.requests[:0]
}

// prepend puts what rest holds in front of b, using old's memory, which rest
// may share.
func (b *buffer) prepend(rest buffer, old []byte) (freed []byte) {
	n := copy(old[:cap(old)], rest.b)
	freed, b.b = b.b, append(old[:n], b.b...)
	b.count.add(rest.count)
	b.frames += rest.frames
	if len(rest.keys) > 0 {
		b.keys = append(append([]byte(nil), rest.keys...), b.keys...)
	}
	b.requests = append(append([]request(nil), rest.requests...), b.requests...)
	return freed
}

// wholeFrames returns how many of the requests in b lie within the first n
// bytes, and where they and the one cut by n end. Producers only know bytes
// until a write fails, so that the way of a message costs no bookkeeping.
func wholeFrames(b []byte, n int) (frames, end, cutEnd int) {
	for end < len(b) {
		next := end + frameSize(b[end:])
		if next > n {
			if end < n {
				return frames, end, next
			}
			break
		}
		frames, end = frames+1, next
	}
	return frames, end, end
}

func frameSize(b []byte) int { return wire.SizeSize + int(binary.BigEndian.Uint32(b)) }

// countFrames counts the messages of encoded Produce and AckedProduce requests.
func countFrames(b []byte) (c count) {
	for len(b) > 0 {
		n := frameSize(b)
		// Both kinds begin alike, and they are our own, so they parse.
		_, body, _ := wire.SplitRequest(b[wire.SizeSize:n])
		req, _ := wire.ParseProduce(body)
		c.add(countSet(req.Set))
		b = b[n:]
	}
	return c
}

// countSet counts the messages of a set of the producer's own, those inside
// compressed ones too. Their bytes are those of entries that are not compressed.
func countSet(set message.Set) (c count) {
	it := set.Iterate(0)
	for it.Next() {
		c.messages++
		c.bytes += int64(it.Message().Size())
	}
	if it.Err() != nil || it.ValidBytes() != len(set) {
		panic(fmt.Sprintf("producer: a message set of its own is malformed: %v", it.Err()))
	}
	return c
}
