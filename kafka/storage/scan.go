package storage

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"kafkalab/kafka/message"
)

// ErrTorn is a message that the end of its file cuts off: the kind of damage
// that a crash in the middle of a write leaves.
var ErrTorn = errors.New("message cut off by the end of the file")

// scanBytes is the size of a scanner's buffer, and so all that it needs of
// memory, however large the messages are.
const scanBytes = 256 << 10

// scanner walks the entries of a segment file from the front and checks each
// one. It does not hold a message in memory, so a length field that lies costs
// nothing, and a message of any size passes.
//
// Compressed messages are checked as they are stored: their own length and CRC,
// not those of the messages inside.
type scanner struct {
	file io.ReaderAt
	base int64 // offset of the file's first byte
	size int64 // bytes of the file to look at

	entry scanned // the current one

	// keep is how many bytes of a payload to collect in payload.
	keep    int
	payload []byte

	buf      []byte // holds the bytes of the file from bufStart on
	bufStart int64
	pos      int64 // behind the current entry
}

// scanned describes one entry.
type scanned struct {
	offset, next int64 // from (inclusive) and to (exclusive) in the log
	magic        byte
	attributes   byte
	crc          uint32
	payloadBytes int64
}

func newScanner(file io.ReaderAt, base, size int64) *scanner {
	return &scanner{file: file, base: base, size: size, buf: make([]byte, 0, min(scanBytes, size))}
}

// next moves to the next entry. At the end of the file it returns io.EOF, and
// at damage a *message.CorruptError; everything before scanner.pos is sound
// then. Any other error comes from reading the file.
func (s *scanner) next() error {
	left := s.size - s.pos
	if left == 0 {
		return io.EOF
	}
	header, err := s.window(s.pos, int(min(left, message.Overhead1)))
	if err != nil {
		return err
	}
	e, entrySize, corrupt := parseHeader(header, left)
	if corrupt != nil {
		corrupt.Offset = s.base + s.pos
		return corrupt
	}
	sum, err := s.checksum(s.pos+entrySize-e.payloadBytes, e.payloadBytes)
	if err != nil {
		return err
	}
	if sum != e.crc {
		return &message.CorruptError{Offset: s.base + s.pos, Err: message.ErrCRC,
			Detail: fmt.Sprintf("stored %08x, computed %08x over %d bytes", e.crc, sum, e.payloadBytes)}
	}
	e.offset = s.base + s.pos
	s.pos += entrySize
	e.next = s.base + s.pos
	s.entry = e
	return nil
}

// parseHeader reads the header of an entry, of which left bytes are in the
// file, and returns the whole entry's size. That it is cut off comes before what
// else is wrong with it.
func parseHeader(b []byte, left int64) (e scanned, size int64, _ *message.CorruptError) {
	n, err := message.Peek(b)
	switch size = int64(n); {
	case err != nil:
		return e, 0, err.(*message.CorruptError)
	case size == 0:
		return e, 0, &message.CorruptError{Err: ErrTorn, Detail: fmt.Sprintf("%d bytes of its length field", len(b))}
	case size > left:
		return e, 0, &message.CorruptError{Err: ErrTorn, Detail: fmt.Sprintf("%d of %d bytes are there", left, size)}
	}
	h, err := message.ParseHeader(b)
	if err != nil {
		return e, 0, err.(*message.CorruptError)
	}
	return scanned{magic: h.Magic, attributes: h.Attributes, crc: h.CRC, payloadBytes: size - int64(h.Overhead)}, size, nil
}

// checksum returns the CRC of n bytes at a position and collects the first keep
// of them.
func (s *scanner) checksum(pos, n int64) (uint32, error) {
	s.payload = s.payload[:0]
	sum := uint32(0)
	for n > 0 {
		b, err := s.window(pos, int(min(n, scanBytes)))
		if err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, crc32.IEEETable, b)
		if room := s.keep - len(s.payload); room > 0 {
			s.payload = append(s.payload, b[:min(room, len(b))]...)
		}
		pos, n = pos+int64(len(b)), n-int64(len(b))
	}
	return sum, nil
}

// window returns n bytes (at most scanBytes) at a position, from the buffer or
// by filling it from there. They lie within size.
func (s *scanner) window(pos int64, n int) ([]byte, error) {
	if at := pos - s.bufStart; at >= 0 && at+int64(n) <= int64(len(s.buf)) {
		return s.buf[at : at+int64(n)], nil
	}
	s.buf, s.bufStart = s.buf[:min(int64(cap(s.buf)), s.size-pos)], pos
	if _, err := s.file.ReadAt(s.buf, pos); err != nil {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read at offset %d: %w", s.base+pos, err)
	}
	return s.buf[:n], nil
}

// scanAll walks to the end or the first damage and returns what was wrong
// there, nil at a sound end. err is an error of reading, or the context's.
func (s *scanner) scanAll(ctx context.Context, visit func(scanned, []byte) error) (damage *message.CorruptError, err error) {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		err := s.next()
		switch {
		case errors.Is(err, io.EOF) && s.pos == s.size:
			return nil, nil
		case errors.As(err, &damage):
			return damage, nil
		case err != nil:
			return nil, err
		}
		if visit != nil {
			if err := visit(s.entry, s.payload); err != nil {
				return nil, err
			}
		}
	}
}
