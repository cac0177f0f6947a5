package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// A filler is an entry that stands in a log in place of bytes that are lost, so
// that consumers get past them: offsets are positions, so nothing may be taken
// out of the middle of a log. It is a gzip-compressed message set of no messages,
// which every consumer passes over without handing anything out (Kafka 0.7
// §2.3); the extra field of its gzip header makes it as long as it has to be:
//
//	entry, magic 1, codec gzip · 10 bytes of gzip header, flag FEXTRA
//	u16 length of the extra field · "kl" · u16 length of · what it is, and zeros
//	03 00, an empty deflate block · u32 CRC 0 · u32 size 0
//
// Fewer bytes than such an entry has at least are filled with a plain message of
// zeros. That one is handed out: nothing shorter is a message of no content that
// readers of 0.7 know.
const (
	minFiller       = message.Overhead0 // bytes: an empty plain message
	minSilentFiller = message.Overhead1 + len(fillerHead) + 2 + len(fillerField) + 2 + len(fillerTail)
	maxFiller       = 64 << 10 // the extra field's length is 16 bits

	fillerHead  = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff"
	fillerField = "kl"
	fillerText  = "kafkalab: messages that stood here are lost"
	fillerTail  = "\x03\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
)

// fillerSize returns the size of the first of the fillers that make n bytes, at
// least minFiller: none of them has to be handed out, if n allows that.
func fillerSize(n int64) int {
	switch {
	case n <= maxFiller:
		return int(n)
	case n < maxFiller+int64(minSilentFiller):
		return maxFiller - minSilentFiller
	}
	return maxFiller
}

// appendFiller appends one filler of n bytes, minFiller to maxFiller.
func appendFiller(dst []byte, n int) []byte {
	if n < minSilentFiller {
		return message.Append(dst, make([]byte, n-message.Overhead0))
	}
	return message.Append1(dst, fillerPayload(n-message.Overhead1), message.CodecGzip)
}

// fillerPayload returns the payload of n bytes of a filler that is passed over.
func fillerPayload(n int) []byte {
	b := make([]byte, 0, n)
	b = append(b, fillerHead...)
	extra := n - len(fillerHead) - 2 - len(fillerTail)
	text := extra - len(fillerField) - 2
	b = binary.LittleEndian.AppendUint16(b, uint16(extra))
	b = append(b, fillerField...)
	b = binary.LittleEndian.AppendUint16(b, uint16(text))
	b = append(b, fillerText[:min(text, len(fillerText))]...)
	b = append(b, make([]byte, n-len(b)-len(fillerTail))...)
	return append(b, fillerTail...)
}

// isFiller reports whether an entry is a filler that is passed over. payload is
// what the scanner kept of it.
func isFiller(e scanned, payload []byte) bool {
	size := e.next - e.offset
	if e.codec() != message.CodecGzip || size < int64(minSilentFiller) || size > maxFiller || int64(len(payload)) != e.payloadBytes {
		return false
	}
	return bytes.HasPrefix(payload, []byte(fillerHead)) && bytes.Equal(payload, fillerPayload(len(payload)))
}

// writeFillers fills n bytes of a file from a position on.
func writeFillers(ctx context.Context, file vfs.File, position, n int64) error {
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size := fillerSize(n)
		if size < minFiller {
			return io.ErrShortBuffer // callers see to it that it fits
		}
		if err := writeFull(file, appendFiller(nil, size), position); err != nil {
			return err
		}
		position, n = position+int64(size), n-int64(size)
	}
	return nil
}
