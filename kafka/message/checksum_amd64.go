package message

import (
	"hash/crc32"

	"golang.org/x/sys/cpu"
)

// fastSum says that this processor has what sumFast and sumCopyFast take.
var fastSum = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41 && cpu.X86.HasSSSE3

// factors are what carries a block over 64, 48, 32 and 16 bytes: for its first half
// and its second; then what carries 32 bits over 64; and, for Barrett's reduction,
// the polynomial and the quotient of x^64 by it. All are in reflected order.
var factors = [12]uint64{
	power(512 + 32), power(512 - 32),
	power(384 + 32), power(384 - 32),
	power(256 + 32), power(256 - 32),
	power(128 + 32), power(128 - 32),
	power(64), 0,
	crc32.IEEE<<1 | 1, 0x1f7011641,
}

// power returns x^n modulo the polynomial, in reflected order and 33 bits.
func power(n int) uint64 {
	p := uint32(1 << 31)
	for range n {
		p = p>>1 ^ crc32.IEEE*(p&1)
	}
	return uint64(p) << 1
}

// sumFast returns the checksum of n bytes, at least fastBytes.
//
//go:noescape
func sumFast(p *byte, n int) uint32

// sumCopyFast copies them, too. The copy may not overlap them.
//
//go:noescape
func sumCopyFast(dst, src *byte, n int) uint32
