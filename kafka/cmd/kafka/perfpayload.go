package main

import (
	"encoding/binary"
	"hash/crc32"
)

// A payload of perf says who sent it and as which one:
//
//	0   u64 producer, a random number
//	8   u64 sequence, from 0
//	16  u32 CRC-32C of the 16 bytes before and of what follows
//	20  filler
//
// The checksum is not the one of the message format, so that perf does not
// check the broker with the broker's own check.
const perfHeaderBytes = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func perfChecksum(payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli, payload[:16])
	return crc32.Update(sum, castagnoli, payload[perfHeaderBytes:])
}

// perfPayload makes the payloads of one producer in one buffer.
type perfPayload struct {
	buf      []byte
	sequence uint64
}

func newPerfPayload(size int) *perfPayload {
	p := &perfPayload{buf: make([]byte, size)}
	id := newProducerID()
	binary.BigEndian.PutUint64(p.buf, id)
	for i := perfHeaderBytes; i < size; i++ {
		id = id*6364136223846793005 + 1442695040888963407
		p.buf[i] = byte(id >> 56)
	}
	return p
}

// next returns the next payload, valid until the next call.
func (p *perfPayload) next() []byte {
	binary.BigEndian.PutUint64(p.buf[8:], p.sequence)
	binary.BigEndian.PutUint32(p.buf[16:], perfChecksum(p.buf))
	p.sequence++
	return p.buf
}

// perfContent counts what is wrong with the messages of a partition.
type perfContent struct {
	Lost    int64 `json:"lost"`    // missing between two of a producer
	Doubled int64 `json:"doubled"` // seen before
	Damaged int64 `json:"damaged"` // checksum mismatch
	Foreign int64 `json:"foreign"` // too short to be from perf
}

// perfCheck checks payloads in the order of a log: a producer's own are in
// order there.
type perfCheck struct {
	content *perfContent
	next    map[uint64]uint64 // producer to the sequence that it goes on with
}

func (c *perfCheck) payload(b []byte) {
	if len(b) < perfHeaderBytes {
		c.content.Foreign++
		return
	}
	if binary.BigEndian.Uint32(b[16:]) != perfChecksum(b) {
		c.content.Damaged++
		return
	}
	id, sequence := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	next := c.next[id]
	switch {
	case sequence < next:
		c.content.Doubled++
		return
	case sequence > next:
		c.content.Lost += int64(sequence - next)
	}
	c.next[id] = sequence + 1
}
