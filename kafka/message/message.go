// Package message holds the message and the message set: their layout, their
// checksum, and the arithmetic of offsets (NetDB'11 §3.1; Kafka 0.7 Message,
// MessageSet).
//
// A message set, in memory, on the wire and on disk alike, is a plain
// concatenation of entries, each a 4-byte length and a message of that length.
// All numbers are big-endian:
//
//	magic 0 (the paper's)               magic 1 (Kafka 0.7)
//	0  i32 length  = 5 + payload        0  i32 length  = 6 + payload
//	4  i8  magic   = 0                  4  i8  magic   = 1
//	5  u32 CRC                          5  i8  attributes (bits 0-1: codec)
//	9  payload                          6  u32 CRC
//	                                    10 payload
//
// The overhead of a message is so 4 + 1 + 4 = 9 bytes, the paper's figure, or
// 10 bytes with magic 1. The CRC is CRC-32 of IEEE 802.3 over the payload as
// stored. A message carries neither key nor id: it is addressed by its byte
// position in the log of its partition, and the next message's offset is its
// own plus the size of its entry.
//
// # Compressed sets
//
// A set can be compressed as a whole: it then is the payload of one entry of
// magic 1 whose attributes name the codec, the CRC being that of the compressed
// bytes ([Compress]). gzip is one RFC 1952 member. snappy is the stream format
// of snappy-java: a header of 16 bytes, then blocks of at most 32 KiB of input,
// each behind its compressed length; a payload without that header is one bare
// block. An entry inside a compressed set can be compressed again, as mirrors
// make it that forward entries as they are, and both kinds can stand in one set.
//
// [Set.Iterate] goes through all levels. A message inside a compressed entry
// has no offset of its own: all but the last of an entry report the entry's
// start as next offset, the last reports its end, and so whoever stops in
// between begins at the entry's first message again (Kafka 0.7 §2.3).
//
// What is decompressed is bounded, in bytes over all levels of one top-level
// entry and in levels ([MaxNesting]), and the size that a payload claims is
// compared with the bound, and with what its length makes possible, before
// memory is taken for it.
//
// Deviations from Kafka 0.7: nesting and size are bounded. An entry is handed
// out whole or not at all: damage at any place inside it is damage of the entry,
// where 0.7 gives the messages before it and passes over a cut-off last one.
// Bytes behind the gzip member, a second one too, are damage.
//
// Nothing in this package allocates per message, plain ones cost no allocation
// at all, and no function here keeps or changes the bytes it is given.
package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Sizes of the fields of an entry, in bytes.
const (
	LengthSize     = 4
	MagicSize      = 1
	AttributesSize = 1
	CRCSize        = 4
)

// Magic numbers that a reader accepts.
const (
	Magic0 = 0 // the paper's layout
	Magic1 = 1 // Kafka 0.7's layout, with attributes
)

const (
	// Overhead0 is what magic 0 adds to a payload, length field included.
	Overhead0 = LengthSize + MagicSize + CRCSize
	// Overhead1 is what magic 1 adds to a payload, length field included.
	Overhead1 = LengthSize + MagicSize + AttributesSize + CRCSize

	// MinLength0 and MinLength1 are the smallest legal values of the length
	// field: those of an empty payload.
	MinLength0 = Overhead0 - LengthSize
	MinLength1 = Overhead1 - LengthSize

	// MaxPayload bounds the payload that the length field can describe, in
	// bytes (inclusive). Brokers and clients set lower limits of their own.
	MaxPayload = 1<<31 - 1 - MinLength1
)

// Kinds of damage. Errors of this package wrap exactly one of them in a
// [*CorruptError].
var (
	ErrLength     = errors.New("length field out of bounds")
	ErrMagic      = errors.New("unknown magic")
	ErrCRC        = errors.New("checksum mismatch")
	ErrCodec      = errors.New("unknown compression codec")
	ErrDecompress = errors.New("cannot be decompressed")
	ErrIncomplete = errors.New("first entry incomplete")
	ErrTooLarge   = errors.New("message too large")
)

// CorruptError says what is wrong with the entry that starts at Offset.
type CorruptError struct {
	Offset int64  // of the entry: initial offset plus position in the set
	Detail string // the values that disagree
	Err    error  // one of the Err… above
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("message at offset %d: %v: %s", e.Offset, e.Err, e.Detail)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Message is a view of one entry. Payload points into the set that it was read
// from and is valid as long as that set is; that of a message that was inside a
// compressed entry points into memory that was made for it (but see
// [Iterator.ReuseBuffer]).
type Message struct {
	Magic      byte
	Attributes byte // 0 with magic 0
	CRC        uint32
	Payload    []byte
}

// Codec returns the codec that the attributes name.
func (m Message) Codec() Codec { return Codec(m.Attributes & codecMask) }

// Size returns the size of the whole entry in bytes, length field included.
func (m Message) Size() int {
	if m.Magic == Magic0 {
		return Overhead0 + len(m.Payload)
	}
	return Overhead1 + len(m.Payload)
}

// EntrySize returns the size of a magic 0 entry with a payload of n bytes.
func EntrySize(n int) int { return Overhead0 + n }

// Append appends payload as a magic 0 entry to dst and returns the longer
// slice. It panics if the payload is longer than [MaxPayload]: callers hold
// their own, lower, limit.
func Append(dst, payload []byte) []byte {
	if len(payload) > MaxPayload {
		panic("message: payload longer than MaxPayload")
	}
	start, size := len(dst), Overhead0+len(payload)
	if cap(dst)-start < size {
		dst = slices.Grow(dst, size)
	}
	dst = dst[:start+size]
	e := dst[start:]
	binary.BigEndian.PutUint32(e, uint32(MinLength0+len(payload)))
	e[LengthSize] = Magic0
	binary.BigEndian.PutUint32(e[Overhead0-CRCSize:], sumCopy(e[Overhead0:], payload))
	return dst
}

// Append1 appends payload as a magic 1 entry with the given codec. The payload
// must already be compressed with it: [Compress] does both.
func Append1(dst, payload []byte, codec Codec) []byte {
	if len(payload) > MaxPayload {
		panic("message: payload longer than MaxPayload")
	}
	var h [Overhead1]byte
	binary.BigEndian.PutUint32(h[0:], uint32(MinLength1+len(payload)))
	h[4] = Magic1
	h[5] = byte(codec)
	binary.BigEndian.PutUint32(h[6:], checksum(payload))
	dst = append(dst, h[:]...)
	return append(dst, payload...)
}
