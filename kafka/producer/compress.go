package producer

import (
	"fmt"
	"sync"

	"kafkalab/kafka/message"
)

// packer holds the memory for one Send to compress in.
type packer struct {
	plain, packed []byte
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// keepBytes is how much memory a packer may keep for the next Send.
const keepBytes = 4 << 20

func (k *packer) release() {
	if cap(k.plain)+cap(k.packed) > keepBytes {
		*k = packer{}
	}
	packers.Put(k)
}

// compress compresses what a Send has taken. Asynchronously only batches are
// compressed: here it finds out whether each payload could go by itself, so that
// one that is too large is refused at once. mu is not held.
func (p *Producer) compress(k *packer, set toSend) (_ toSend, err error) {
	if p.cfg.Async {
		for i, payload := range set.payloads {
			if len(payload) <= p.cfg.MaxMessageBytes {
				continue
			}
			k.plain = message.Append(k.plain[:0], payload)
			if k.packed, err = p.pack(k.packed[:0], k.plain); err != nil {
				return set, fmt.Errorf("payload %d of %d: %w", i+1, len(set.payloads), err)
			}
		}
		return set, nil
	}
	k.plain = k.plain[:0]
	for _, payload := range set.payloads {
		k.plain = message.Append(k.plain, payload)
	}
	k.packed, err = p.pack(k.packed[:0], k.plain)
	set.packed, set.size = k.packed, len(k.packed)
	return set, err
}

// pack appends a message set to dst, which is empty, as compressed entries: one
// or, where that would be larger than the broker takes, one for each half, and so
// on.
func (p *Producer) pack(dst, set []byte) ([]byte, error) {
	packed, err := p.packHalves(dst, set)
	if err == nil && len(packed) > maxSetBytes {
		err = fmt.Errorf("message set of %d bytes, %d when compressed, at most %d fit a request: %w", len(set), len(packed), maxSetBytes, ErrTooLarge)
	}
	return packed, err
}

// maxPlainBytes is how much is compressed into one entry: what brokers and
// consumers are willing to decompress, unless they are told otherwise.
const maxPlainBytes = message.DefaultMaxDecompressed

func (p *Producer) packHalves(dst, set []byte) ([]byte, error) {
	payload := 0
	if len(set) <= maxPlainBytes {
		packed, err := message.Compress(dst, set, p.cfg.Codec)
		if err != nil {
			return dst, err
		}
		if payload = len(packed) - len(dst) - message.Overhead1; payload <= p.cfg.MaxMessageBytes {
			return packed, nil
		}
		dst = packed[:len(dst)]
	}
	middle, err := middleOf(set)
	if err != nil {
		return dst, err
	}
	if middle < len(set) {
		if dst, err = p.packHalves(dst, set[:middle]); err != nil {
			return dst, err
		}
		return p.packHalves(dst, set[middle:])
	}
	plain := len(set) - message.Overhead0
	switch {
	case plain <= p.cfg.MaxMessageBytes:
		return append(dst, set...), nil // its compression has made it larger
	case payload == 0:
		return dst, fmt.Errorf("payload of %d bytes, at most %d are compressed: %w", plain, maxPlainBytes-message.Overhead0, ErrTooLarge)
	}
	return dst, fmt.Errorf("payload of %d bytes, %d when compressed with %v, at most %d are allowed: %w", plain, payload, p.cfg.Codec, p.cfg.MaxMessageBytes, ErrTooLarge)
}

// middleOf returns the end of the message that reaches to the middle of a set, or
// that of the one before it if there would be nothing behind: the end of the set
// if it holds one message.
func middleOf(set []byte) (int, error) {
	for at := 0; ; {
		n, err := message.Peek(set[at:])
		next := at + n
		switch {
		case err != nil:
			return 0, err
		case at > 0 && next >= len(set):
			return at, nil
		case 2*next >= len(set):
			return next, nil
		}
		at = next
	}
}
