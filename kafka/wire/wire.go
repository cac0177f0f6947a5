// Package wire holds the protocol between clients and brokers: framing,
// requests, responses, error codes. It is Kafka 0.7's (request types 0 to 4),
// so that clients of that time work unchanged, and kafkalab's own additions
// (types 16 to 20), which such a client never needs.
//
// All numbers are big-endian; a string is an i16 length in bytes and so many
// bytes of UTF-8. The length -1 stands for null, which is no legal name of a
// topic.
//
//	request   i32 size · i16 type · body            size counts type and body
//	response  i32 size · i16 error code · payload   size counts code and payload
//
//	 0 Produce       topic · i32 partition · i32 set size · set         no answer, ever
//	 1 Fetch         topic · i32 partition · i64 offset · i32 max size  set
//	 2 MultiFetch    i16 count · count × Fetch body                     count × response of Fetch
//	 3 MultiProduce  i16 count · count × Produce body                   no answer, ever
//	 4 Offsets       topic · i32 partition · i64 time · i32 max count   i32 n · n × i64 offset
//	16 AckedProduce  Produce body · i16 acks · i32 timeout ms           i64 base offset · i64 next offset
//	17 WaitFetch     MultiFetch body · i32 max wait ms · i32 min bytes  as MultiFetch
//	18 Topics        i16 count · count × topic (0: all)                 i32 n · n × TopicState
//	19 CreateTopic   topic · i32 partitions                             nothing
//	20 DeleteTopic   topic                                              nothing
//
// There is neither a correlation id nor a version: answers come in the order
// of the requests, and a request without an answer leaves no trace. Bytes of a
// frame behind its body are ignored, as in 0.7.
//
// Parsers here never allocate by an unchecked length, and what they return
// points into the frame that they were given.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Type is the kind of a request.
type Type int16

// The request types.
const (
	TypeProduce      Type = 0
	TypeFetch        Type = 1
	TypeMultiFetch   Type = 2
	TypeMultiProduce Type = 3
	TypeOffsets      Type = 4
	TypeAckedProduce Type = 16
	TypeWaitFetch    Type = 17
	TypeTopics       Type = 18
	TypeCreateTopic  Type = 19
	TypeDeleteTopic  Type = 20
)

func (t Type) String() string {
	switch t {
	case TypeProduce:
		return "Produce"
	case TypeFetch:
		return "Fetch"
	case TypeMultiFetch:
		return "MultiFetch"
	case TypeMultiProduce:
		return "MultiProduce"
	case TypeOffsets:
		return "Offsets"
	case TypeAckedProduce:
		return "AckedProduce"
	case TypeWaitFetch:
		return "WaitFetch"
	case TypeTopics:
		return "Topics"
	case TypeCreateTopic:
		return "CreateTopic"
	case TypeDeleteTopic:
		return "DeleteTopic"
	}
	return fmt.Sprintf("type %d", int16(t))
}

const (
	// SizeSize is the size of the size field that every frame begins with.
	SizeSize = 4
	// TypeSize is the size of a request's type field.
	TypeSize = 2
	// CodeSize is the size of a response's error code.
	CodeSize = 2
	// ResponseHeaderSize is the size of a response before its payload.
	ResponseHeaderSize = SizeSize + CodeSize

	// MaxRequestSize is the default limit of a request's size field in bytes
	// (inclusive): 0.7's max.socket.request.bytes.
	MaxRequestSize = 100 << 20
	// MaxCount is the most entries that a multi request can have.
	MaxCount = 1<<15 - 1
)

// Special times of an Offsets request.
const (
	TimeLatest   int64 = -1
	TimeEarliest int64 = -2
)

// Acks says what the answer to an AckedProduce waits for.
type Acks int16

// The levels of acknowledgement.
const (
	AcksReceived Acks = 0 // read and checked; no offsets exist yet, both are -1
	AcksAppended Acks = 1 // written to the log, and lost by a power loss before its flush
	AcksFlushed  Acks = 2 // on disk and visible
	// AcksOrdered is AcksFlushed, and after one of these that was not appended, or whose
	// topic was deleted, the broker appends none that comes behind it on the connection:
	// see [CodeNotInOrder]. Those of a connection are all for one partition.
	AcksOrdered Acks = 3
)

// Errors of parsing. The connection that they came from cannot go on.
var (
	ErrShort     = errors.New("frame ends before its fields do")
	ErrFrameSize = errors.New("frame size out of bounds")
	ErrNegative  = errors.New("negative length or count")
)

// FrameSize reads the size field at the start of b and checks that it lies in
// min to max bytes (both inclusive). It returns the size of the whole frame,
// size field included, or 0 when b is shorter than the field.
func FrameSize(b []byte, min, max int) (int, error) {
	if len(b) < SizeSize {
		return 0, nil
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < min || n > max {
		return 0, fmt.Errorf("%w: %d, %d to %d allowed", ErrFrameSize, n, min, max)
	}
	return SizeSize + n, nil
}

// reader takes fields from the front of a frame. After the first failure all
// its results are zero and err stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 {
		r.err = fmt.Errorf("%w: %d", ErrNegative, n)
		return nil
	}
	if n > len(r.b) {
		r.err = fmt.Errorf("%w: %d bytes wanted, %d left", ErrShort, n, len(r.b))
		return nil
	}
	f := r.b[:n:n]
	r.b = r.b[n:]
	return f
}

func (r *reader) i16() int16 {
	if f := r.take(2); f != nil {
		return int16(binary.BigEndian.Uint16(f))
	}
	return 0
}

func (r *reader) i32() int32 {
	if f := r.take(4); f != nil {
		return int32(binary.BigEndian.Uint32(f))
	}
	return 0
}

func (r *reader) i64() int64 {
	if f := r.take(8); f != nil {
		return int64(binary.BigEndian.Uint64(f))
	}
	return 0
}

// str takes a string. Null, which has the length -1, is nil: in Kafka 0.7 that
// is a topic whose name is not legal, and no fault of the frame.
func (r *reader) str() []byte {
	n := r.i16()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

func appendI16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendI32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendI64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendStr(b []byte, s string) []byte {
	if len(s) > MaxCount {
		panic("wire: string longer than an i16 can tell")
	}
	return append(appendI16(b, int16(len(s))), s...)
}
