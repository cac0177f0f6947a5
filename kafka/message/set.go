package message

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Set is an encoded message set: entries back to back. A set that was fetched
// may end in a cut-off entry, since a fetch is cut at a number of bytes and not
// at a message (Kafka 0.7 §1.4).
type Set []byte

// Iterate returns an iterator over the set, whose first byte has the given
// offset in its partition's log.
func (s Set) Iterate(offset int64) Iterator {
	return Iterator{set: s, base: offset}
}

// Iterator walks the complete entries of a set and checks each one's CRC. The
// zero value is an iterator over an empty set. It must not be used by several
// goroutines at once.
//
//	it := set.Iterate(offset)
//	for it.Next() {
//		use(it.Message(), it.Offset(), it.NextOffset())
//	}
//	if err := it.Err(); err != nil { … }
type Iterator struct {
	set   []byte
	base  int64
	start int // position of the current entry
	next  int // position behind the current entry
	msg   Message
	err   error
	tell  *error // see ReportTo
}

// Next moves to the next complete entry and reports whether there is one. It
// returns false at the end of the set, at a cut-off last entry, and at damage;
// only in the last case is [Iterator.Err] set. It stays false from then on.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	m, size, err := Parse(it.set[it.next:])
	if err != nil {
		if ce, ok := err.(*CorruptError); ok {
			ce.Offset = it.base + int64(it.next)
		}
		it.err = err
		if it.tell != nil {
			*it.tell = err
		}
		return false
	}
	if size == 0 {
		return false
	}
	it.start, it.next, it.msg = it.next, it.next+size, m
	return true
}

// Message returns the current entry. Its payload points into the set.
func (it *Iterator) Message() Message { return it.msg }

// Offset returns the offset of the current entry.
func (it *Iterator) Offset() int64 { return it.base + int64(it.start) }

// NextOffset returns the offset behind the current entry: from where to go on
// once it has been handled. Before the first call of Next it is the set's own.
func (it *Iterator) NextOffset() int64 { return it.base + int64(it.next) }

// ValidBytes returns how many bytes of the set were complete, undamaged
// entries so far; after Next returned false, of the whole set.
func (it *Iterator) ValidBytes() int { return it.next }

// Rest returns what lies behind the current entry.
func (it *Iterator) Rest() []byte { return it.set[it.next:] }

// Err returns the damage that ended the iteration, or nil: a [*CorruptError].
func (it *Iterator) Err() error { return it.err }

// ReportTo lets the iterator, and every copy that is made of it from then on,
// store the damage that it meets in *err too: for one who hands iterators out.
func (it *Iterator) ReportTo(err *error) { it.tell = err }

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
// [*CorruptError] whose Offset is 0. Compressed entries pass.
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
// does. An error is a [*CorruptError] whose Offset is 0.
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
		if c := h.Codec(); c != CodecNone {
			return Message{}, 0, &CorruptError{Detail: "codec " + c.String(), Err: ErrCompressed}
		}
		size = h.Size
		if size == 0 || size > len(b) {
			return Message{}, 0, nil
		}
		m = Message{Magic: h.Magic, Attributes: h.Attributes, CRC: h.CRC, Payload: b[h.Overhead:size:size]}
	}
	if sum := crc32.ChecksumIEEE(m.Payload); sum != m.CRC {
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

// Check reads a whole set that a producer sent: it verifies every entry and
// returns how many bytes from the front are complete entries, and how many
// messages they hold. A cut-off last entry behind complete ones is not an
// error, it is merely not counted (Kafka 0.7.1 and later discard it); a set
// whose very first entry is cut off is [ErrIncomplete]. A payload longer than
// maxPayload bytes (0: no limit) is [ErrTooLarge], looked for only after every
// entry before it was found undamaged. On any error nothing of the set may be
// stored.
func Check(set []byte, maxPayload int) (validBytes, messages int, err error) {
	it := Set(set).Iterate(0)
	for it.Next() {
		if n := len(it.msg.Payload); maxPayload > 0 && n > maxPayload {
			return 0, 0, &CorruptError{Offset: it.Offset(), Detail: fmt.Sprintf("payload of %d bytes, at most %d allowed", n, maxPayload), Err: ErrTooLarge}
		}
		messages++
	}
	if it.err != nil {
		return 0, 0, it.err
	}
	if messages == 0 && len(set) > 0 {
		return 0, 0, &CorruptError{Detail: fmt.Sprintf("%d bytes", len(set)), Err: ErrIncomplete}
	}
	return it.ValidBytes(), messages, nil
}
