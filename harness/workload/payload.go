// Package workload makes the messages of an experiment and checks them when
// they come back: what was sent is known from each payload alone, so a run can
// be verified without remembering a single message.
//
// A payload of n bytes ([MinPayloadBytes] <= n <= [MaxPayloadBytes]) is a pure
// function of run id, sequence number and n. All numbers are big-endian. From
// [LargeBytes] up it is
//
//	0   u64 sequence   from 0, without gaps
//	8   u64 run id     the same in all messages of a run
//	16  u32 CRC-32C    of the bytes 0-15 and 20-n
//	20  filler         differs from message to message, does not compress
//
// and below it, where there is no room for the run's id beside its message,
//
//	0   u32 sequence   from 0, without gaps
//	4   u32 CRC-32C    of the bytes 0-3 and 8-n, exclusive-or the run's mark
//	8   filler         as above
//
// The run's mark is its id with the two halves folded together by
// exclusive-or. A small payload of another run has another checksum than is
// expected, so it is told from a good one, but not from a damaged one. Whoever
// has a good one can take the mark out of it again, and make the others of its
// run: [Peek] and [NewGenerator] do so, since the mark of a mark is that mark.
//
// The checksum is Castagnoli's, which processors compute, and not the IEEE one
// of Kafka's message format: a system cannot pass by checking its own.
package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// HeaderBytes is what comes before the filler in a large payload.
	HeaderBytes = 20
	// LargeBytes is the size from which a payload carries its run's id.
	LargeBytes = 24
	// MinPayloadBytes is the size of the smallest payload: sequence number,
	// checksum, and two bytes that differ.
	MinPayloadBytes = 10
	// MaxPayloadBytes is the size of the largest one (64 MiB), more than any
	// system under test takes as one message.
	MaxPayloadBytes = 64 << 20

	sumAt            = 16
	smallSumAt       = 4
	smallHeaderBytes = 8
)

// Kinds of damage that [Parse] finds.
var (
	ErrShort    = errors.New("payload too short")
	ErrChecksum = errors.New("payload's checksum does not match")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is what a payload says about itself.
type Header struct {
	Sequence uint64
	// RunID of a small payload is its run's mark where nothing else is known of
	// the run.
	RunID uint64
}

// Mark folds a run's id to what of it takes part in the checksum of a small
// payload. The mark of a mark is itself.
func Mark(runID uint64) uint32 { return uint32(runID>>32) ^ uint32(runID) }

// Peek reads the header without checking the checksum: that of a small payload
// it takes to be right, as the run's mark is in it. It reports false when the
// payload is too short to have a header.
func Peek(payload []byte) (Header, bool) {
	switch {
	case len(payload) < MinPayloadBytes:
		return Header{}, false
	case len(payload) < LargeBytes:
		return Header{
			Sequence: uint64(binary.BigEndian.Uint32(payload)),
			RunID:    uint64(binary.BigEndian.Uint32(payload[smallSumAt:]) ^ smallChecksum(payload)),
		}, true
	}
	return Header{
		Sequence: binary.BigEndian.Uint64(payload),
		RunID:    binary.BigEndian.Uint64(payload[8:]),
	}, true
}

// Parse reads the header and checks the checksum. The error wraps [ErrShort]
// or [ErrChecksum]. A large payload may turn out to be of another run than
// runID, by its header; a small one of another run has a wrong checksum.
func Parse(payload []byte, runID uint64) (Header, error) {
	h, ok := Peek(payload)
	if !ok {
		return Header{}, fmt.Errorf("%w: %d bytes, at least %d wanted", ErrShort, len(payload), MinPayloadBytes)
	}
	if len(payload) < LargeBytes {
		if h.RunID != uint64(Mark(runID)) {
			return Header{}, fmt.Errorf("%w: over %d bytes it is that of a run with the mark %08x, %08x is wanted", ErrChecksum, len(payload), h.RunID, Mark(runID))
		}
		h.RunID = runID
		return h, nil
	}
	if stored, sum := binary.BigEndian.Uint32(payload[sumAt:]), checksum(payload); stored != sum {
		return Header{}, fmt.Errorf("%w: stored %08x, computed %08x over %d bytes", ErrChecksum, stored, sum, len(payload))
	}
	return h, nil
}

// checksum is over everything but the checksum's own field.
func checksum(payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(payload[:sumAt], castagnoli), castagnoli, payload[HeaderBytes:])
}

// smallChecksum is the same of a small payload, without the run's mark.
func smallChecksum(payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(payload[:smallSumAt], castagnoli), castagnoli, payload[smallHeaderBytes:])
}

// Generator makes the payloads of one run in order. It must not be used by
// several goroutines at once.
type Generator struct {
	runID uint64
	next  uint64
	buf   []byte
}

// NewGenerator returns a generator of payloads of payloadBytes bytes, the
// first with sequence number 0. For small payloads the mark of a run does as
// its id.
func NewGenerator(runID uint64, payloadBytes int) (*Generator, error) {
	if payloadBytes < MinPayloadBytes || payloadBytes > MaxPayloadBytes {
		return nil, fmt.Errorf("payload of %d bytes: %d to %d are possible", payloadBytes, MinPayloadBytes, MaxPayloadBytes)
	}
	return &Generator{runID: runID, buf: make([]byte, payloadBytes)}, nil
}

// Seek makes sequence the number of the next payload. In a small payload, of
// whose number there are 32 bits, it must be below 2^32.
func (g *Generator) Seek(sequence uint64) { g.next = sequence }

// Next returns the next payload. It is valid until the next call, which fills
// the same buffer again.
func (g *Generator) Next() []byte {
	b := g.buf
	if len(b) < LargeBytes {
		return g.nextSmall()
	}
	binary.BigEndian.PutUint64(b, g.next)
	binary.BigEndian.PutUint64(b[8:], g.runID)
	fill(b[HeaderBytes:], mix(g.runID^mix(g.next)))
	binary.BigEndian.PutUint32(b[sumAt:], checksum(b))
	g.next++
	return b
}

func (g *Generator) nextSmall() []byte {
	b, mark := g.buf, Mark(g.runID)
	binary.BigEndian.PutUint32(b, uint32(g.next))
	fill(b[smallHeaderBytes:], mix(uint64(mark)^mix(g.next)))
	binary.BigEndian.PutUint32(b[smallSumAt:], smallChecksum(b)^mark)
	g.next++
	return b
}

// noiseBytes is the length of the noise: a power of two, small enough to stay
// in a processor's first cache.
const noiseBytes = 1 << 13

// noise is the raw material of all fillers. It repeats, but what is made of it
// does not, since each message has a key of its own.
var noise = func() (n [noiseBytes]byte) {
	for i := 0; i < noiseBytes; i += 8 {
		binary.LittleEndian.PutUint64(n[i:], mix(uint64(i)))
	}
	return n
}()

// fill writes the filler that belongs to key: noise, from a place that key
// chooses, with the key folded in. A message that is longer than the noise
// takes a new key for each stretch.
func fill(dst []byte, key uint64) {
	for len(dst) > 0 {
		start := int(key>>32) % (noiseBytes / 2) &^ 7
		src := noise[start : start+noiseBytes/2]
		n := min(len(dst), len(src))
		part := dst[:n]
		src = src[:n]
		for len(part) >= 32 && len(src) >= 32 { // unrolled: saves a fifth of a 200-byte message
			binary.LittleEndian.PutUint64(part, binary.LittleEndian.Uint64(src)^key)
			binary.LittleEndian.PutUint64(part[8:], binary.LittleEndian.Uint64(src[8:])^key)
			binary.LittleEndian.PutUint64(part[16:], binary.LittleEndian.Uint64(src[16:])^key)
			binary.LittleEndian.PutUint64(part[24:], binary.LittleEndian.Uint64(src[24:])^key)
			part, src = part[32:], src[32:]
		}
		for len(part) >= 8 && len(src) >= 8 {
			binary.LittleEndian.PutUint64(part, binary.LittleEndian.Uint64(src)^key)
			part, src = part[8:], src[8:]
		}
		for i := range part {
			part[i] = src[i] ^ byte(key>>(8*i))
		}
		dst = dst[n:]
		key = mix(key)
	}
}

// mix spreads the bits of x over the whole word: the output function of
// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
