package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
)

const (
	// DefaultMaxDecompressed bounds what one top-level entry may hold
	// decompressed, in bytes over all its levels (inclusive), unless a caller
	// says otherwise.
	DefaultMaxDecompressed = 64 << 20
	// MaxNesting bounds how many times a message may have been compressed
	// (inclusive). A chain of mirrors that forward entries as they are adds one
	// level each.
	MaxNesting = 8
)

// maxDecompressed returns the bound that a setting stands for.
func maxDecompressed(n int) int {
	if n <= 0 {
		return DefaultMaxDecompressed
	}
	return n
}

// Decompress returns the set that a compressed message holds, of at most
// maxBytes (inclusive; 0: [DefaultMaxDecompressed]). Messages in it may be
// compressed themselves. It is in memory of its own, and not checked in any way.
// An error is a [*CorruptError] whose Offset is 0; for a message that is not
// compressed it is [ErrCodec].
func (m Message) Decompress(maxBytes int) (Set, error) {
	if m.Codec() == CodecNone {
		return nil, &CorruptError{Detail: "codec none: the message is not compressed", Err: ErrCodec}
	}
	o := opener{left: int64(maxDecompressed(maxBytes))}
	return o.decompress(m, 0)
}

// opener opens one compressed entry: it decompresses all levels of it and checks
// every message there.
type opener struct {
	left     int64 // bytes that may still be decompressed
	messages int   // found so far, at the lowest levels

	// Where the bytes go: into the buffers of scratch, or into *reuse at the
	// highest level, or else into new memory.
	scratch *scratch
	reuse   *[]byte

	// With collect set, first and more get the runs of plain entries, in order.
	// Runs instead of one buffer, so that nothing is there twice.
	collect bool
	first   []byte
	more    [][]byte
}

// open opens the entry m, which lies inside so many others.
func (o *opener) open(m Message, depth int) error {
	set, err := o.decompress(m, depth)
	if err != nil {
		return err
	}
	run := 0
	for pos := 0; pos < len(set); {
		inner, size, err := Parse(set[pos:])
		if err == nil && size == 0 {
			err = &CorruptError{Detail: fmt.Sprintf("%d bytes are left of the set", len(set)-pos), Err: ErrLength}
		}
		if err == nil && inner.Codec() != CodecNone {
			o.add(set[run:pos])
			run = pos + size
			err = o.open(inner, depth+1)
		} else {
			o.messages++
		}
		if err != nil {
			return inside(err, m.Codec(), pos)
		}
		pos += size
	}
	o.add(set[run:])
	return nil
}

// inside says in which set the entry lies that err is about.
func inside(err error, codec Codec, pos int) error {
	if ce, ok := err.(*CorruptError); ok {
		ce.Detail += fmt.Sprintf(", at byte %d of a %v set", pos, codec)
	}
	return err
}

func (o *opener) add(run []byte) {
	switch {
	case !o.collect || len(run) == 0:
	case o.first == nil:
		o.first = run
	default:
		o.more = append(o.more, run)
	}
}

// decompress returns what the payload of m holds.
func (o *opener) decompress(m Message, depth int) ([]byte, error) {
	codec := m.Codec()
	broken := func(err error) error {
		return &CorruptError{Detail: fmt.Sprintf("%v payload of %d bytes: %v", codec, len(m.Payload), err), Err: ErrDecompress}
	}
	if depth >= MaxNesting {
		return nil, broken(fmt.Errorf("compressed more than %d times", MaxNesting))
	}
	claimed, read := gzipSize, gunzip
	if codec == CodecSnappy {
		claimed, read = snappySize, unsnappy
	}
	size, err := claimed(m.Payload)
	if err != nil {
		return nil, broken(err)
	}
	if size > o.left {
		return nil, &CorruptError{Detail: fmt.Sprintf("%v payload of %d bytes holds %d, at most %d may be decompressed", codec, len(m.Payload), size, o.left), Err: ErrTooLarge}
	}
	o.left -= size
	buf := o.buffer(int(size), depth)
	if err := read(buf, m.Payload); err != nil {
		return nil, broken(err)
	}
	return buf, nil
}

// keepBytes is how large a buffer may be that is kept for the next entry.
const keepBytes = 1 << 20

// buffer returns memory for n bytes.
func (o *opener) buffer(n, depth int) []byte {
	switch {
	case o.scratch != nil:
		return o.scratch.buffer(n, depth)
	case o.reuse != nil && depth == 0:
		fit(o.reuse, n)
		return *o.reuse
	}
	return make([]byte, n)
}

// fit gives *buf a length of n, in new memory if it has too little, or much more
// than is worth keeping.
func fit(buf *[]byte, n int) {
	if cap(*buf) < n || cap(*buf) > max(keepBytes, n) {
		*buf = make([]byte, n)
	}
	*buf = (*buf)[:n]
}

const (
	// gzipLeast is the size of the header and trailer of a member.
	gzipLeast = 10 + 8
	// gzipRatio is how much deflate can make of a byte: 258 bytes take at least
	// two bits.
	gzipRatio = 258 * 8 / 2
	// snappyRatio is the same of snappy, rounded up: 64 bytes take at least three.
	snappyRatio = 22
)

// gzipSize returns how many bytes a member says that it holds. It says so at its
// end, modulo 2^32.
func gzipSize(b []byte) (int64, error) {
	if len(b) < gzipLeast {
		return 0, fmt.Errorf("cut off: a member has at least %d bytes", gzipLeast)
	}
	return plausible(uint64(binary.LittleEndian.Uint32(b[len(b)-4:])), len(b), gzipRatio)
}

// plausible returns a claimed size if n bytes can stand for it.
func plausible(size uint64, n, ratio int) (int64, error) {
	if size > uint64(n)*uint64(ratio) {
		return 0, fmt.Errorf("claims to hold %d bytes, which is more than can be", size)
	}
	return int64(size), nil
}

// gzipReader is a gzip.Reader, which has a window and tables, with its input.
type gzipReader struct {
	src   bytes.Reader
	z     gzip.Reader
	extra [1]byte
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

// gunzip fills dst with what the only member in b holds.
func gunzip(dst, b []byte) error {
	r := gzipReaders.Get().(*gzipReader)
	defer gzipReaders.Put(r)
	defer r.src.Reset(nil)
	r.src.Reset(b)
	if err := r.z.Reset(&r.src); err != nil {
		return err
	}
	r.z.Multistream(false)
	if _, err := io.ReadFull(&r.z, dst); err != nil {
		return err
	}
	// The checksum is compared at the end, which has not been seen yet.
	switch n, err := r.z.Read(r.extra[:]); {
	case n > 0:
		return fmt.Errorf("holds more than the %d bytes that it claims", len(dst))
	case !errors.Is(err, io.EOF):
		return err
	case r.src.Len() > 0:
		return fmt.Errorf("%d bytes follow the member", r.src.Len())
	}
	return nil
}

// framed tells whether b is a stream of snappy-java, as against a bare block.
func framed(b []byte) bool {
	return len(b) >= len(snappyMagic) && string(b[:len(snappyMagic)]) == snappyMagic
}

// snappySize returns how many bytes the blocks of b say that they hold.
func snappySize(b []byte) (total int64, err error) {
	if !framed(b) {
		return blockSize(b)
	}
	if len(b) < len(snappyHead) {
		return 0, errors.New("cut off in its header")
	}
	if v := binary.BigEndian.Uint32(b[snappyCompatStart:]); v > snappyVersion {
		return 0, fmt.Errorf("is for readers of version %d, this one is of version %d", v, snappyVersion)
	}
	for rest := b[len(snappyHead):]; len(rest) > 0; {
		block, behind, err := nextBlock(rest)
		if err != nil {
			return 0, err
		}
		size, err := blockSize(block)
		if err != nil {
			return 0, err
		}
		total, rest = total+size, behind
	}
	return total, nil
}

// nextBlock takes the first block off what follows the header of a stream.
func nextBlock(b []byte) (block, behind []byte, err error) {
	if len(b) < snappyLengthSize {
		return nil, nil, fmt.Errorf("cut off: %d bytes of the length of a block", len(b))
	}
	n, rest := binary.BigEndian.Uint32(b), b[snappyLengthSize:]
	if uint64(n) > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("cut off: block of %d bytes, %d are left", n, len(rest))
	}
	return rest[:n], rest[n:], nil
}

// blockSize returns how many bytes a block says, at its beginning, that it holds.
func blockSize(b []byte) (int64, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, errors.New("block without a length")
	}
	return plausible(size, len(b), snappyRatio)
}

// unsnappy fills dst with what b, whose size is that of dst, holds.
func unsnappy(dst, b []byte) error {
	if !framed(b) {
		return unsnappyBlock(dst, b)
	}
	for rest := b[len(snappyHead):]; len(rest) > 0; {
		block, behind, err := nextBlock(rest)
		if err != nil {
			return err
		}
		size, err := blockSize(block)
		if err != nil {
			return err
		}
		if err := unsnappyBlock(dst[:size:size], block); err != nil {
			return err
		}
		dst, rest = dst[size:], behind
	}
	return nil
}

// unsnappyBlock fills dst with what a block holds. It is strict: the decoder of
// the s2 package would take blocks that no other reader of snappy does.
func unsnappyBlock(dst, block []byte) error {
	got, err := snappy.DecodeStrict(dst, block)
	if err == nil && len(got) != len(dst) {
		err = snappy.ErrCorrupt
	}
	return err
}
