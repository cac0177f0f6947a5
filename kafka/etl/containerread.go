package etl

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/klauspost/compress/flate"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/internal/avroshape"
)

// Bounds of what a container may claim, in bytes.
const (
	maxMetaBytes  = 4 << 20                    // one value of the header
	maxMetaValues = 1000                       // of them
	maxBlockBytes = pieceBytes + maxFetchBytes // of data, not compressed: a piece and one message
)

// containerReader reads what container has written.
type containerReader struct {
	r     *bufio.Reader
	sync  [16]byte
	id    uint32
	datum *avroshape.Shape
	z     io.ReadCloser // decompresses a block

	packed, block, payload []byte
}

// readContainer calls back for each payload of a container.
func readContainer(r *bufio.Reader, each func(payload []byte) error) error {
	c := containerReader{r: r}
	if err := c.header(); err != nil {
		return noEOF(err)
	}
	for {
		messages, err := c.next()
		if err != nil {
			return noEOF(err)
		}
		if messages == 0 {
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				return errors.Join(err, errors.New("something follows its end"))
			}
			return nil
		}
		rest := c.block
		for range messages {
			after, err := c.datum.Skip(rest)
			if err != nil {
				return fmt.Errorf("a block of %d messages: %w", messages, err)
			}
			c.payload = envelope.AppendSchema(c.payload[:0], c.id, rest[:len(rest)-len(after)])
			if err := each(c.payload); err != nil {
				return &callbackError{err}
			}
			rest = after
		}
		if len(rest) > 0 {
			return fmt.Errorf("%d bytes are left of a block of %d messages", len(rest), messages)
		}
	}
}

// header reads what stands before the first block.
func (c *containerReader) header() error {
	var magic [len(containerMagic)]byte
	if _, err := io.ReadFull(c.r, magic[:]); err != nil {
		return err
	}
	if string(magic[:]) != containerMagic {
		return errors.New("it does not begin as an Avro container does")
	}
	meta, err := c.meta()
	if err != nil {
		return err
	}
	if codec := meta[codecKey]; codec != codecDeflate {
		return fmt.Errorf("its codec is %.40q: a load writes %s", codec, codecDeflate)
	}
	id, err := strconv.ParseUint(meta[schemaIDKey], 10, 32)
	if err != nil {
		return fmt.Errorf("its schema id: %w", err)
	}
	c.id = uint32(id)
	if c.datum, err = avroshape.Parse(meta[schemaKey]); err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	_, err = io.ReadFull(c.r, c.sync[:])
	return err
}

// meta reads the map of the header.
func (c *containerReader) meta() (map[string]string, error) {
	meta := map[string]string{}
	for {
		n, err := binary.ReadVarint(c.r)
		if err == nil && n < 0 {
			n = -n
			_, err = binary.ReadVarint(c.r) // its length in bytes
		}
		if err != nil || n == 0 {
			return meta, err
		}
		if n < 0 || n > maxMetaValues || len(meta) > maxMetaValues {
			return nil, fmt.Errorf("a header of %d values", n)
		}
		for range n {
			var kv [2]string
			for i := range kv {
				size, err := binary.ReadVarint(c.r)
				if err != nil {
					return nil, err
				}
				if size < 0 || size > maxMetaBytes {
					return nil, fmt.Errorf("a value of %d bytes in the header", size)
				}
				b, err := readSized(c.r, nil, size)
				if err != nil {
					return nil, err
				}
				kv[i] = string(b)
			}
			meta[kv[0]] = kv[1]
		}
	}
}

// next reads a block, and returns how many messages it holds: none at the end.
func (c *containerReader) next() (int64, error) {
	messages, err := binary.ReadVarint(c.r)
	if err != nil {
		return 0, err
	}
	size, err := binary.ReadVarint(c.r)
	if err != nil {
		return 0, err
	}
	if messages < 0 || messages > pieceMessages || size < 0 || size > 2*maxBlockBytes {
		return 0, fmt.Errorf("a block of %d messages and %d bytes", messages, size)
	}
	if c.packed, err = readSized(c.r, c.packed[:0], size); err != nil {
		return 0, err
	}
	var sync [len(c.sync)]byte
	if _, err := io.ReadFull(c.r, sync[:]); err != nil {
		return 0, err
	}
	if sync != c.sync {
		return 0, errors.New("a block does not end with the sync marker")
	}
	in := bytes.NewReader(c.packed)
	if c.z == nil {
		c.z = flate.NewReader(in)
	} else if err := c.z.(flate.Resetter).Reset(in, nil); err != nil {
		return 0, err
	}
	var block bytes.Buffer
	block.Grow(min(len(c.packed), pieceBytes))
	n, err := block.ReadFrom(io.LimitReader(c.z, maxBlockBytes+1))
	switch {
	case err != nil:
		return 0, err
	case n > maxBlockBytes:
		return 0, fmt.Errorf("a block holds more than %d bytes", maxBlockBytes)
	case messages == 0 && n > 0:
		return 0, fmt.Errorf("the last block holds %d bytes", n)
	}
	c.block = block.Bytes()
	return messages, nil
}
