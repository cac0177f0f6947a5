// Package envelope is what section 4 of the paper puts inside the payload of a
// message: the time and the name of the server of its making, for the audit
// (NetDB'11 §4, rule R29), and the id of an Avro schema (rule R31). Both are
// layouts of bytes and nothing else: a broker knows neither.
//
// All numbers are big-endian. The plain envelope, for topics without a schema:
//
//	0   "KLA"     magic
//	3   u8        version = 1
//	4   i64       time of making, milliseconds since 1970 UTC
//	12  16 bytes  producer id, not all zero
//	28  u64       sequence number, from 1
//	36  u8        length of the server's name, from 1
//	37  …         the server's name, UTF-8 without control characters
//	    …         body: what the application has published
//
// The framing of a payload with a schema is that which today's Avro tools read,
// so it comes first there, and the audit header is a record inside the schema:
//
//	0   u8        0
//	1   u32       schema id
//	5   …         one Avro datum
//
// # What is bounded
//
// A header has at most [MaxHeaderSize] bytes. Nothing is allocated for a length
// that a payload claims: what is returned lies in the payload, but for the
// server's name, and errors keep nothing of it.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Sizes of the plain envelope, in bytes.
const (
	magic   = "KLA"
	version = 1

	versionAt  = len(magic)
	timeAt     = versionAt + 1
	producerAt = timeAt + 8
	sequenceAt = producerAt + len(ProducerID{})
	lengthAt   = sequenceAt + 8
	serverAt   = lengthAt + 1

	// MaxServerLength is the longest name of a server (inclusive).
	MaxServerLength = 255
	// MaxHeaderSize is what an envelope adds to a body, at most.
	MaxHeaderSize = serverAt + MaxServerLength
)

// MaxTime is the last time that a header can carry, the end of the year 9999, so
// that every text form of a time can write it. The first is the beginning of 1970.
var MaxTime = time.UnixMilli(maxMilli).UTC()

const maxMilli = 253402300799999

// ErrNotEnvelope is returned for a payload that does not begin as an envelope does:
// it was made by a producer that uses none.
var ErrNotEnvelope = errors.New("payload is not in an envelope")

// MalformedError says what is wrong with a payload that begins as an envelope does
// and is none. It keeps nothing of the payload, and its text is short.
type MalformedError struct {
	Field string // version, time, producer, sequence, server, schema id
	Size  int    // of the payload, in bytes
	why   string // a constant, or made of one number
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("malformed envelope in a payload of %d bytes: %s: %s", e.Size, e.Field, e.why)
}

// Header says of a message where and when it was made, and which one of its
// maker's it is: so one that is lost and one that came twice do not cancel out.
type Header struct {
	Time   time.Time // of making; carried in milliseconds, and returned in UTC
	Server string    // where it was made: 1 to [MaxServerLength] bytes
	// Producer tells producers apart that run on one server, also one from itself
	// before a restart.
	Producer ProducerID
	// Sequence counts the messages of the producer to the topic: from 1, no gap.
	Sequence uint64
}

// Check says why there can be no envelope with a header, or nil.
func (h Header) Check() error {
	switch milli := h.Time.UnixMilli(); {
	case milli < 0 || milli > maxMilli:
		return fmt.Errorf("envelope: time %v: give one of the years 1970 to 9999", h.Time)
	case h.Producer == ProducerID{}:
		return errors.New("envelope: the producer id is all zero: make one by NewProducerID")
	case h.Sequence == 0:
		return errors.New("envelope: sequence 0: they count from 1")
	}
	return CheckServer(h.Server)
}

// CheckServer says why a name cannot be that of a server, or nil.
func CheckServer(name string) error {
	if why := nameFault([]byte(name)); why != "" {
		return fmt.Errorf("envelope: server %.40q: %s", name, why)
	}
	return nil
}

// nameFault says what is wrong with the name of a server; "" if nothing is.
func nameFault(name []byte) string {
	if len(name) == 0 || len(name) > MaxServerLength {
		return "a name has 1 to 255 bytes"
	}
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return "it holds a control character"
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return "it is not UTF-8"
		case r <= 0x9f:
			return "it holds a control character"
		}
		i += n
	}
	return ""
}

// Size returns how many bytes an envelope has around a body of so many.
func Size(h Header, body int) int { return serverAt + len(h.Server) + body }

// Append appends an envelope with a body to dst. A header that [Header.Check]
// refuses is a mistake of the caller: Append panics.
func Append(dst []byte, h Header, body []byte) []byte {
	if err := h.Check(); err != nil {
		panic(err)
	}
	dst = append(dst, magic...)
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Time.UnixMilli()))
	dst = append(dst, h.Producer[:]...)
	dst = binary.BigEndian.AppendUint64(dst, h.Sequence)
	dst = append(dst, byte(len(h.Server)))
	dst = append(dst, h.Server...)
	return append(dst, body...)
}

// Open takes a payload apart. The body is a part of it; only the server's name is
// copied (an [Opener] spares that). Errors are [ErrNotEnvelope] and
// [*MalformedError].
func Open(payload []byte) (Header, []byte, error) {
	h, server, body, err := open(payload)
	if err == nil {
		h.Server = string(server)
	}
	return h, body, err
}

// open is Open, and leaves the server's name where it is.
func open(payload []byte) (h Header, server, body []byte, err error) {
	if len(payload) < len(magic) || string(payload[:len(magic)]) != magic {
		return h, nil, nil, ErrNotEnvelope
	}
	bad := func(field, why string) (Header, []byte, []byte, error) {
		return Header{}, nil, nil, &MalformedError{Field: field, Size: len(payload), why: why}
	}
	if len(payload) <= versionAt {
		return bad("version", "the payload ends before it")
	}
	if v := payload[versionAt]; v != version {
		return bad("version", fmt.Sprintf("%d is not known, only %d is", v, version))
	}
	if len(payload) < serverAt {
		return bad("server", fmt.Sprintf("a header has at least %d bytes", serverAt+1))
	}
	milli := int64(binary.BigEndian.Uint64(payload[timeAt:]))
	if milli < 0 || milli > maxMilli {
		return bad("time", fmt.Sprintf("%d ms since 1970 is in none of the years 1970 to 9999", milli))
	}
	h.Time = time.UnixMilli(milli).UTC()
	copy(h.Producer[:], payload[producerAt:])
	if h.Producer == (ProducerID{}) {
		return bad("producer", "the id is all zero")
	}
	h.Sequence = binary.BigEndian.Uint64(payload[sequenceAt:])
	if h.Sequence == 0 {
		return bad("sequence", "it is 0, and they count from 1")
	}
	end := serverAt + int(payload[lengthAt])
	if end > len(payload) {
		return bad("server", fmt.Sprintf("a name of %d bytes reaches past the end", payload[lengthAt]))
	}
	server = payload[serverAt:end:end]
	if why := nameFault(server); why != "" {
		return bad("server", why)
	}
	return h, server, payload[end:], nil
}
