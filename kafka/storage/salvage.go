package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"kafkalab/kafka/message"
)

// A DamagedRange is a part of a segment file in which no message can be read.
type DamagedRange struct {
	Offset int64 // of its first byte, where a message should begin
	End    int64 // behind its last: the next sound message begins there, or the file ends
	// Err says what is wrong at Offset.
	Err *message.CorruptError
	// Inside says that the range is one compressed message, sound as it is
	// stored, with damage inside: consumers do not get past it either.
	Inside bool
	// Unsure says that the search for the next sound message was given up, so
	// there may be some before End.
	Unsure bool
}

// Bytes returns the length of the range.
func (r DamagedRange) Bytes() int64 { return r.End - r.Offset }

// searchBudget bounds what is read to find the next sound message behind one
// place of damage, in bytes of payloads whose checksum is tried. Nothing but a
// file made for it comes near.
const searchBudget = 16 << 30

// scanPast is scanAll that goes on behind damage, of which it calls damaged for
// each range.
func (s *scanner) scanPast(ctx context.Context, visit func(scanned, []byte) error, damaged func(DamagedRange) error) error {
	for {
		corrupt, err := s.scanAll(ctx, visit)
		if err != nil || corrupt == nil {
			return err
		}
		r := DamagedRange{Offset: s.base + s.pos, Err: corrupt}
		next, sure, err := s.search(ctx, searchBudget)
		if err != nil {
			return err
		}
		r.End, r.Unsure = s.base+next, !sure
		if err := damaged(r); err != nil {
			return err
		}
		if next == s.size {
			return nil
		}
		s.pos = next
	}
}

// search returns the position of the next sound message behind damage at s.pos,
// or the end of the file, where it stays. sure is false when it was given up
// before, because more than budget bytes of payloads were tried.
//
// If the length field of the damaged message leads to a sound one, that is it:
// the damage is inside one message. Otherwise the length cannot be trusted, and
// every byte may be the first of a message. One that carries encoded messages in
// its payload is then taken for those messages, if its own length is what is
// damaged; nothing in the format tells them apart.
func (s *scanner) search(ctx context.Context, budget int64) (next int64, sure bool, err error) {
	start, keep := s.pos, s.keep
	s.keep = 0
	defer func() { s.pos, s.keep = start, keep }()
	if next, ok, err := s.byLength(); ok || err != nil {
		return next, true, err
	}
	for pos := start + 1; s.size-pos >= message.Overhead0; {
		if ctx.Err() != nil {
			return 0, false, context.Cause(ctx)
		}
		if pos, err = s.pastHole(pos); err != nil {
			return 0, false, err
		}
		if s.size-pos < message.Overhead0 {
			break
		}
		b, err := s.window(pos, int(min(s.size-pos, scanBytes)))
		if err != nil {
			return 0, false, err
		}
		i := plausible(b, s.size-pos)
		if i < 0 {
			pos += int64(len(b) - message.Overhead0 + 1)
			continue
		}
		pos += int64(i)
		sound, tried, err := s.soundAt(pos)
		if sound || err != nil {
			return pos, true, err
		}
		if budget -= tried; budget < 0 {
			return s.size, false, nil
		}
		pos++
	}
	return s.size, true, nil
}

// pastHole returns the first position from pos on at which a message may begin,
// without reading what the file system knows to be zeros: a message begins with a
// length, which is not zero.
func (s *scanner) pastHole(pos int64) (int64, error) {
	file, ok := s.file.(interface{ NextData(int64) (int64, error) })
	if !ok {
		return pos, nil
	}
	data, err := file.NextData(pos)
	return max(pos, min(data, s.size)-message.LengthSize), err
}

// byLength reports whether the length field at s.pos leads to a sound message,
// or to the end of the file, and where that is.
func (s *scanner) byLength() (next int64, ok bool, err error) {
	left := s.size - s.pos
	b, err := s.window(s.pos, int(min(left, message.LengthSize)))
	if err != nil {
		return 0, false, err
	}
	n, corrupt := message.Peek(b)
	if corrupt != nil || n == 0 || int64(n) > left {
		return 0, false, nil
	}
	next = s.pos + int64(n)
	if next == s.size {
		return next, true, nil
	}
	ok, _, err = s.soundAt(next)
	return next, ok, err
}

// plausible returns the first index of b at which the header of a message could
// stand, or -1. left is the number of bytes from b's first to the end of the file.
func plausible(b []byte, left int64) int {
	for i := 0; i+message.Overhead0 <= len(b); i++ {
		if b[i+message.LengthSize] > message.Magic1 {
			continue
		}
		n := int64(binary.BigEndian.Uint32(b[i:]))
		if n < message.MinLength0 || message.LengthSize+n > left-int64(i) {
			continue
		}
		if _, err := message.ParseHeader(b[i:]); err == nil {
			return i
		}
	}
	return -1
}

// soundAt reports whether a message begins at a position, and how many bytes of
// payloads it looked at. The checksum of an empty payload is nine bytes that any
// file may hold, so empty messages count only with what follows them: a sound
// one with a payload, or the end of the file.
func (s *scanner) soundAt(pos int64) (sound bool, tried int64, err error) {
	for s.pos = pos; ; {
		err := s.next()
		var corrupt *message.CorruptError
		switch {
		case errors.Is(err, io.EOF) && s.pos == s.size:
			return s.pos > pos, tried, nil
		case errors.As(err, &corrupt):
			// What was tried of the one that failed: at most what its length says.
			if b, err := s.window(s.pos, int(min(s.size-s.pos, message.LengthSize))); err == nil {
				if n, err := message.Peek(b); err == nil {
					tried += min(int64(n), s.size-s.pos)
				}
			}
			return false, tried, nil
		case err != nil:
			return false, tried, err
		}
		tried += s.entry.next - s.entry.offset
		if s.entry.payloadBytes > 0 {
			return true, tried, nil
		}
	}
}
