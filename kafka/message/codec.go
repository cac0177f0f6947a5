package message

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
)

// Codec names how a payload is compressed: the low two bits of the attributes.
type Codec byte

// The codecs of Kafka 0.7.
const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
)

const codecMask = 0x03

var codecNames = [...]string{CodecNone: "none", CodecGzip: "gzip", CodecSnappy: "snappy"}

func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("unknown(%d)", byte(c))
}

// ParseCodec reads the name of a codec, as [Codec.String] writes it.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return 0, fmt.Errorf("codec %q: give none, gzip or snappy", name)
}

// Compress appends to dst the one entry that holds set, compressed with codec,
// and returns the longer slice. An empty set gives no entry (Kafka 0.7
// KAFKA-109), and with [CodecNone] the set is appended as it is. The set must be
// of complete entries: a [*CorruptError] says where it is not. A set that would
// make a payload longer than [MaxPayload] is [ErrTooLarge]. After an error dst is
// returned as it was.
//
// Entries are written as the codecs of Kafka 0.7 write them; the compressed
// bytes themselves differ between implementations, and may between versions of
// this one.
func Compress(dst []byte, set Set, codec Codec) ([]byte, error) {
	if int(codec) >= len(codecNames) {
		return dst, &CorruptError{Detail: fmt.Sprintf("codec %d", byte(codec)), Err: ErrCodec}
	}
	if err := checkWhole(set); err != nil {
		return dst, err
	}
	if len(set) == 0 || codec == CodecNone {
		return append(dst, set...), nil
	}
	start := len(dst)
	var h [Overhead1]byte
	long, err := append(dst, h[:]...), error(nil)
	if codec == CodecGzip {
		long, err = appendGzip(long, set)
	} else {
		long = appendSnappy(long, set)
	}
	if err != nil {
		return dst, fmt.Errorf("compress %d bytes with gzip: %w", len(set), err)
	}
	payload := long[start+Overhead1:]
	if len(payload) > MaxPayload {
		return dst, &CorruptError{Detail: fmt.Sprintf("payload of %d bytes, at most %d can be described", len(payload), MaxPayload), Err: ErrTooLarge}
	}
	binary.BigEndian.PutUint32(long[start:], uint32(MinLength1+len(payload)))
	long[start+LengthSize] = Magic1
	long[start+LengthSize+MagicSize] = byte(codec)
	binary.BigEndian.PutUint32(long[start+Overhead1-CRCSize:], checksum(payload))
	return long, nil
}

// checkWhole wants set to be entries back to back, by their lengths.
func checkWhole(set []byte) error {
	for pos := 0; pos < len(set); {
		size, err := Peek(set[pos:])
		switch {
		case err != nil:
			return at(err, int64(pos))
		case size == 0 || size > len(set)-pos:
			return &CorruptError{Offset: int64(pos), Detail: fmt.Sprintf("%d bytes are left of a message set to be compressed", len(set)-pos), Err: ErrLength}
		}
		pos += size
	}
	return nil
}

// appender is a writer that appends.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// gzipWriter is a gzip.Writer, which has a megabyte of tables, with its output.
type gzipWriter struct {
	out appender
	z   *gzip.Writer
}

var gzipWriters = sync.Pool{New: func() any {
	w := new(gzipWriter)
	w.z = gzip.NewWriter(&w.out)
	return w
}}

// epoch makes the member's time 0, which says that it is not known.
var epoch = time.Unix(0, 0)

func appendGzip(dst, set []byte) ([]byte, error) {
	w := gzipWriters.Get().(*gzipWriter)
	defer gzipWriters.Put(w)
	w.out.b = dst
	w.z.Reset(&w.out)
	w.z.ModTime = epoch
	_, err := w.z.Write(set)
	if err == nil {
		err = w.z.Close()
	}
	dst, w.out.b = w.out.b, nil
	return dst, err
}

// snappyHead is what snappy-java 1.0.4.1 begins a stream with: its magic, the
// version of the writer and the lowest one of a reader.
const (
	snappyMagic       = "\x82SNAPPY\x00"
	snappyHead        = snappyMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	snappyVersion     = 1
	snappyLengthSize  = 4        // in front of each block
	snappyBlockInput  = 32 << 10 // of each block but the last
	snappyCompatStart = len(snappyMagic) + 4
)

func appendSnappy(dst, set []byte) []byte {
	dst = append(dst, snappyHead...)
	for len(set) > 0 {
		input := set[:min(len(set), snappyBlockInput)]
		set = set[len(input):]
		dst = slices.Grow(dst, snappyLengthSize+s2.MaxEncodedLen(len(input)))
		start := len(dst) + snappyLengthSize
		// There is room, so the block is made where it belongs.
		block := s2.EncodeSnappy(dst[start:cap(dst)], input)
		dst = dst[:start+len(block)]
		binary.BigEndian.PutUint32(dst[start-snappyLengthSize:], uint32(len(block)))
	}
	return dst
}
