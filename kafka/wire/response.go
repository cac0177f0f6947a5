package wire

import (
	"encoding/binary"
	"fmt"
)

// Code is the error code of a response. It is an error itself, so that callers
// can test for one with [errors.Is].
type Code int16

// The error codes: -1 to 4 are 0.7's, those from 16 only answer the additions.
const (
	CodeUnknown          Code = -1
	CodeNone             Code = 0
	CodeOffsetOutOfRange Code = 1 // below the first segment, or above the watermark
	CodeInvalidMessage   Code = 2 // a client's own finding in 0.7; answers AckedProduce here
	CodeWrongPartition   Code = 3 // negative, or not below the topic's partition count
	CodeInvalidFetchSize Code = 4 // a client's own finding in 0.7
	CodeMessageTooLarge  Code = 16
	CodeTimedOut         Code = 17 // it may or may not become flushed
	CodeOutOfService     Code = 18 // the partition takes no appends after a failed write or flush
	CodeTopicExists      Code = 19
	CodeNoSuchTopic      Code = 20
	CodeBadArgument      Code = 21
	CodeNotInOrder       Code = 22 // of AcksOrdered: one before it on its connection is not in this log
)

func (c Code) Error() string {
	switch c {
	case CodeUnknown:
		return "unknown error at the broker"
	case CodeNone:
		return "no error"
	case CodeOffsetOutOfRange:
		return "offset out of range"
	case CodeInvalidMessage:
		return "invalid message"
	case CodeWrongPartition:
		return "wrong partition"
	case CodeInvalidFetchSize:
		return "message larger than the fetch size"
	case CodeMessageTooLarge:
		return "message too large"
	case CodeTimedOut:
		return "timed out: it may or may not become flushed"
	case CodeOutOfService:
		return "partition out of service"
	case CodeTopicExists:
		return "topic exists"
	case CodeNoSuchTopic:
		return "no such topic"
	case CodeBadArgument:
		return "bad argument"
	case CodeNotInOrder:
		return "not appended, as one before it on its connection is not in the log"
	}
	return fmt.Sprintf("error code %d", int16(c))
}

// Err returns c as an error, or nil for [CodeNone].
func (c Code) Err() error {
	if c == CodeNone {
		return nil
	}
	return c
}

// AppendResponseHeader appends the header of a response whose payload, of
// payloadSize bytes, follows.
func AppendResponseHeader(dst []byte, code Code, payloadSize int) []byte {
	return appendI16(appendI32(dst, int32(CodeSize+payloadSize)), int16(code))
}

// ParseResponseHeader reads the [ResponseHeaderSize] bytes that a response
// begins with and returns its code and the size of its payload, which it
// checks against maxPayload (inclusive).
func ParseResponseHeader(h []byte, maxPayload int) (Code, int, error) {
	if len(h) < ResponseHeaderSize {
		return 0, 0, fmt.Errorf("%w: %d bytes of a response's header of %d", ErrShort, len(h), ResponseHeaderSize)
	}
	n, err := FrameSize(h, CodeSize, CodeSize+maxPayload)
	if err != nil {
		return 0, 0, err
	}
	return Code(int16(binary.BigEndian.Uint16(h[SizeSize:]))), n - ResponseHeaderSize, nil
}

// FetchResult is one entry of the answer to a MultiFetch or WaitFetch.
type FetchResult struct {
	Code Code
	Set  []byte
}

// ParseFetchResults parses the payload of the answer to a MultiFetch or
// WaitFetch of n entries, appending to dst.
func ParseFetchResults(dst []FetchResult, payload []byte, n int) ([]FetchResult, error) {
	r := reader{b: payload}
	for i := range n {
		size := int(r.i32())
		if r.err == nil && size < CodeSize {
			r.err = fmt.Errorf("%w: %d for entry %d", ErrFrameSize, size, i)
		}
		code := Code(r.i16())
		set := r.take(size - CodeSize)
		if r.err != nil {
			return dst, r.err
		}
		dst = append(dst, FetchResult{Code: code, Set: set})
	}
	return dst, nil
}

// AppendOffsetList appends the payload of the answer to an Offsets request.
func AppendOffsetList(dst []byte, offsets []int64) []byte {
	dst = appendI32(dst, int32(len(offsets)))
	for _, o := range offsets {
		dst = appendI64(dst, o)
	}
	return dst
}

// ParseOffsetList parses the payload of the answer to an Offsets request.
func ParseOffsetList(payload []byte) ([]int64, error) {
	r := reader{b: payload}
	n := int(r.i32())
	if r.err == nil && (n < 0 || n > len(r.b)/8) {
		return nil, fmt.Errorf("%w: %d offsets in %d bytes", ErrShort, n, len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	offsets := make([]int64, n)
	for i := range offsets {
		offsets[i] = r.i64()
	}
	return offsets, r.err
}

// AckedRange is the payload of the answer to an AckedProduce: where the set
// went, from Base (inclusive) to Next (exclusive). Both are -1 when the answer
// was not to wait for the append.
type AckedRange struct{ Base, Next int64 }

// AppendAckedRange appends the payload of the answer to an AckedProduce.
func AppendAckedRange(dst []byte, a AckedRange) []byte {
	return appendI64(appendI64(dst, a.Base), a.Next)
}

// ParseAckedRange parses the payload of the answer to an AckedProduce.
func ParseAckedRange(payload []byte) (AckedRange, error) {
	r := reader{b: payload}
	a := AckedRange{Base: r.i64(), Next: r.i64()}
	return a, r.err
}

// TopicState describes one partition in the answer to a Topics request.
// A partition that has not been written to is there too, empty.
type TopicState struct {
	Topic     string
	Partition int32
	First     int64 // the smallest offset that can be fetched
	Watermark int64 // exclusive end of what is visible
	LogEnd    int64 // exclusive end of what has been appended
	Segments  int32
	Bytes     int64 // LogEnd - First
}

const minTopicState = 2 + 4 + 8 + 8 + 8 + 4 + 8

// AppendTopicStates appends the payload of the answer to a Topics request.
func AppendTopicStates(dst []byte, states []TopicState) []byte {
	dst = AppendTopicCount(dst, len(states))
	for _, s := range states {
		dst = AppendTopicState(dst, s)
	}
	return dst
}

// TopicCountSize is the size of the number that the payload of the answer to a
// Topics request begins with.
const TopicCountSize = 4

// AppendTopicCount appends the beginning of the payload of the answer to a
// Topics request: how many partitions follow, each by [AppendTopicState].
func AppendTopicCount(dst []byte, partitions int) []byte {
	return appendI32(dst, int32(partitions))
}

// TopicStateSize returns how many bytes [AppendTopicState] appends for a
// partition of the topic.
func TopicStateSize(topic string) int { return minTopicState + len(topic) }

// AppendTopicState appends one partition of the answer to a Topics request.
func AppendTopicState(dst []byte, s TopicState) []byte {
	dst = appendStr(dst, s.Topic)
	dst = appendI32(dst, s.Partition)
	dst = appendI64(dst, s.First)
	dst = appendI64(dst, s.Watermark)
	dst = appendI64(dst, s.LogEnd)
	dst = appendI32(dst, s.Segments)
	return appendI64(dst, s.Bytes)
}

// ParseTopicStates parses the payload of the answer to a Topics request.
func ParseTopicStates(payload []byte) ([]TopicState, error) {
	r := reader{b: payload}
	n := int(r.i32())
	if r.err == nil && (n < 0 || n > len(r.b)/minTopicState) {
		return nil, fmt.Errorf("%w: %d partitions in %d bytes", ErrShort, n, len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	states := make([]TopicState, n)
	for i := range states {
		states[i] = TopicState{
			Topic: string(r.str()), Partition: r.i32(),
			First: r.i64(), Watermark: r.i64(), LogEnd: r.i64(),
			Segments: r.i32(), Bytes: r.i64(),
		}
	}
	return states, r.err
}
