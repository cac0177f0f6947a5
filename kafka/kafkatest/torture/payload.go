package torture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A payload says who sent it and as which one:
//
//	0   u32 ledger, a random number
//	4   u32 stream, from 1
//	8   u32 sequence, from 0
//	12  u32 CRC-32C of the 12 bytes before and of what follows
//	16  filler
//
// The checksum is not the one of the message format, so that the broker is not
// checked with its own check.
const payloadHeaderBytes = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is a payload whose checksum does not match.
var errDamaged = errors.New("payload is damaged")

func payloadSum(b []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, b[:12]), castagnoli, b[payloadHeaderBytes:])
}

// appendPayload appends a payload of n bytes, at least [payloadHeaderBytes]. The
// filler depends on stream and sequence, and about half of it compresses.
func appendPayload(dst []byte, ledger, stream, sequence uint32, n int) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, ledger)
	dst = binary.BigEndian.AppendUint32(dst, stream)
	dst = binary.BigEndian.AppendUint32(dst, sequence)
	dst = append(dst, 0, 0, 0, 0)
	x := uint64(stream)<<32 | uint64(sequence)
	for i := payloadHeaderBytes; i < n; i++ {
		if i%16 < 8 {
			x = x*6364136223846793005 + 1442695040888963407
			dst = append(dst, byte(x>>56))
		} else {
			dst = append(dst, byte(i))
		}
	}
	b := dst[start:]
	binary.BigEndian.PutUint32(b[12:], payloadSum(b))
	return dst
}

// parsePayload returns stream and sequence of a payload of the given ledger.
func parsePayload(b []byte, ledger uint32) (stream, sequence uint32, err error) {
	if len(b) < payloadHeaderBytes {
		return 0, 0, fmt.Errorf("%w: %d bytes, %.32q", errDamaged, len(b), b)
	}
	if sum := payloadSum(b); sum != binary.BigEndian.Uint32(b[12:]) {
		return 0, 0, fmt.Errorf("%w: stored checksum %08x, computed %08x over %d bytes, %.32q", errDamaged, b[12:16], sum, len(b), b)
	}
	if l := binary.BigEndian.Uint32(b); l != ledger {
		return 0, 0, fmt.Errorf("payload of another ledger: %08x, %08x wanted", l, ledger)
	}
	return binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), nil
}
