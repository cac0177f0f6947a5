package message

import (
	"encoding/binary"
	"fmt"
)

// Set is an encoded message set: entries back to back. A set that was fetched
// may end in a cut-off entry, since a fetch is cut at a number of bytes and not
// at a message (Kafka 0.7 §1.4).
type Set []byte

// at says where the entry lies that err, an error of this package, is about.
func at(err error, offset int64) error {
	if ce, ok := err.(*CorruptError); ok {
		ce.Offset = offset
	}
	return err
}

// Peek returns the size in bytes of the first entry of b, length field
// included, without looking at more than its header. It returns 0 when b is
// shorter than the length field, and an error when the length is below the
// smallest legal one: a [*CorruptError] whose Offset is 0. The entry itself need
// not be complete in b.
func Peek(b []byte) (int, error) {
	if len(b) < LengthSize {
		return 0, nil
	}
	n := int32(binary.BigEndian.Uint32(b))
	if n < MinLength0 {
		return 0, &CorruptError{Detail: fmt.Sprintf("length %d, at least %d wanted", n, MinLength0), Err: ErrLength}
	}
	return LengthSize + int(n), nil
}

// Header is what stands before the payload of an entry.
type Header struct {
	Magic      byte
	Attributes byte // 0 with magic 0
	CRC        uint32
	Overhead   int // bytes before the payload
	Size       int // of the whole entry in bytes, length field included
}

// Codec returns the codec that the attributes name.
func (h Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// ParseHeader reads the header of the first entry of b, of which [Overhead1]
// bytes are enough, and checks all that can be told without the payload. Size
// is 0, with no error, when b ends before the header does. An error is a
// [*CorruptError] whose Offset is 0.
func ParseHeader(b []byte) (h Header, err error) {
	if len(b) < Overhead0 {
		_, err := Peek(b)
		return Header{}, err
	}
	n := int32(binary.BigEndian.Uint32(b))
	if n < MinLength0 {
		_, err := Peek(b)
		return Header{}, err
	}
	h.Magic, h.Size = b[LengthSize], LengthSize+int(n)
	switch h.Magic {
	case Magic0:
		h.CRC, h.Overhead = binary.BigEndian.Uint32(b[Overhead0-CRCSize:]), Overhead0
		return h, nil
	case Magic1:
		if n < MinLength1 {
			return Header{}, &CorruptError{Detail: fmt.Sprintf("length %d with magic 1, at least %d wanted", n, MinLength1), Err: ErrLength}
		}
		h.Attributes, h.Overhead = b[LengthSize+MagicSize], Overhead1
		if c := h.Codec(); c > CodecSnappy {
			return Header{}, &CorruptError{Detail: fmt.Sprintf("codec %d", byte(c)), Err: ErrCodec}
		}
		if len(b) < Overhead1 {
			return Header{}, nil
		}
		h.CRC = binary.BigEndian.Uint32(b[Overhead1-CRCSize:])
		return h, nil
	}
	return Header{}, &CorruptError{Detail: fmt.Sprintf("magic %d, 0 or 1 wanted", h.Magic), Err: ErrMagic}
}

// Parse reads the first entry of b, checks its header and CRC, and returns it
// with its size. The size is 0, with no error, when b ends before the entry
// does. An error is a [*CorruptError] whose Offset is 0. A compressed entry is
// returned as it is, and only its own CRC is checked.
func Parse(b []byte) (Message, int, error) {
	var m Message
	size := 0
	if n, ok := paperLength(b); ok {
		// ParseHeader says the same of it, but takes as long as the CRC.
		size = LengthSize + n
		if size > len(b) {
			return Message{}, 0, nil
		}
		m.CRC = binary.BigEndian.Uint32(b[Overhead0-CRCSize:])
		m.Payload = b[Overhead0:size:size]
	} else {
		h, err := ParseHeader(b)
		if err != nil {
			return Message{}, 0, err
		}
		size = h.Size
		if size == 0 || size > len(b) {
			return Message{}, 0, nil
		}
		m = Message{Magic: h.Magic, Attributes: h.Attributes, CRC: h.CRC, Payload: b[h.Overhead:size:size]}
	}
	if sum := checksum(m.Payload); sum != m.CRC {
		return Message{}, 0, &CorruptError{Detail: fmt.Sprintf("stored %08x, computed %08x over %d bytes", m.CRC, sum, len(m.Payload)), Err: ErrCRC}
	}
	return m, size, nil
}

// paperLength returns the length field of an entry whose whole header is there
// and is a sound one of magic 0.
func paperLength(b []byte) (n int, ok bool) {
	if len(b) < Overhead0 || b[LengthSize] != Magic0 {
		return 0, false
	}
	n = int(int32(binary.BigEndian.Uint32(b)))
	return n, n >= MinLength0
}

// checkedEntry returns the first entry of b, which is a plain one and has been
// found sound.
func checkedEntry(b []byte) (Message, int) {
	if n, ok := paperLength(b); ok {
		size := LengthSize + n
		return Message{CRC: binary.BigEndian.Uint32(b[Overhead0-CRCSize:]), Payload: b[Overhead0:size:size]}, size
	}
	size := LengthSize + int(binary.BigEndian.Uint32(b))
	return Message{
		Magic: Magic1, Attributes: b[LengthSize+MagicSize], CRC: binary.BigEndian.Uint32(b[Overhead1-CRCSize:]),
		Payload: b[Overhead1:size:size],
	}, size
}
