package message

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
)

// Limits bounds what [Check] lets pass.
type Limits struct {
	// MaxPayload bounds the payload of a top-level entry in bytes (inclusive), of
	// a compressed one as it is stored. 0: no limit.
	MaxPayload int
	// MaxDecompressed bounds what one top-level entry holds decompressed, in
	// bytes over all levels of it (inclusive). 0: [DefaultMaxDecompressed].
	MaxDecompressed int
}

// Check reads a whole set that a producer sent: it verifies every message, those
// inside compressed entries too, and returns how many bytes from the front are
// complete entries, and how many messages they hold. A cut-off last entry behind
// complete ones is not an error, it is merely not counted (Kafka 0.7.1 and later
// discard it); a set whose very first entry is cut off is [ErrIncomplete]. An
// entry above one of the limits is [ErrTooLarge], looked for only after every
// entry before it was found undamaged. On any error nothing of the set may be
// stored.
//
// Check is safe for concurrent use. It needs no memory for plain entries. Of
// those that hold more than 256 KiB it decompresses only as many at a time as
// there are processors: more would not be done sooner, and each takes memory up
// to the limit.
func Check(set []byte, limits Limits) (validBytes, messages int, err error) {
	for {
		b := set[validBytes:]
		if n, ok := paperLength(b); ok && n <= len(b)-LengthSize {
			// As below, for what nearly all are: sound, and as the paper has them.
			payload := b[Overhead0 : LengthSize+n]
			if (limits.MaxPayload <= 0 || len(payload) <= limits.MaxPayload) && checksum(payload) == binary.BigEndian.Uint32(b[Overhead0-CRCSize:]) {
				messages++
				validBytes += LengthSize + n
				continue
			}
		}
		m, size, err := Parse(b)
		if err != nil {
			return 0, 0, at(err, int64(validBytes))
		}
		if size == 0 {
			break
		}
		if n := len(m.Payload); limits.MaxPayload > 0 && n > limits.MaxPayload {
			return 0, 0, &CorruptError{Offset: int64(validBytes), Detail: fmt.Sprintf("payload of %d bytes, at most %d allowed", n, limits.MaxPayload), Err: ErrTooLarge}
		}
		if m.Codec() == CodecNone {
			messages++
		} else {
			n, err := count(m, limits.MaxDecompressed)
			if err != nil {
				return 0, 0, at(err, int64(validBytes))
			}
			messages += n
		}
		validBytes += size
	}
	if validBytes == 0 && len(set) > 0 {
		return 0, 0, &CorruptError{Detail: fmt.Sprintf("%d bytes", len(set)), Err: ErrIncomplete}
	}
	return validBytes, messages, nil
}

// count verifies the messages inside a compressed entry and counts them.
func count(m Message, limit int) (int, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	o := opener{left: int64(maxDecompressed(limit)), scratch: s}
	if err := o.open(m, 0); err != nil {
		return 0, err
	}
	return o.messages, nil
}

// smallBytes is how much may be decompressed without a turn.
const smallBytes = 256 << 10

// turns are had by those who decompress more. It is one for the whole process,
// as its processors and memory are.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// scratch is the memory for the levels of one compressed entry, for one who needs
// no more than to have looked at them.
type scratch struct {
	levels [MaxNesting][]byte
	turn   bool
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// buffer returns the buffer of a level with a length of n.
func (s *scratch) buffer(n, depth int) []byte {
	if n > smallBytes && !s.turn {
		turns <- struct{}{} // held by those who are at work, never by those who wait for it
		s.turn = true
	}
	fit(&s.levels[depth], n)
	return s.levels[depth]
}

func (s *scratch) release() {
	for i := range s.levels {
		if cap(s.levels[i]) > keepBytes {
			s.levels[i] = nil
		}
	}
	if s.turn {
		s.turn = false
		<-turns
	}
	scratches.Put(s)
}
