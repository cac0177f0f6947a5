package message

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// fastBytes is the least that sumFast takes.
	fastBytes = 64
	// libraryBytes is from where on the standard library is asked: of so much it
	// takes wider instructions, where there are any.
	libraryBytes = 1024
)

// checksum is crc32.ChecksumIEEE. That takes about as long to get to its loop, and
// out of it again over the last bytes, as a message of 200 bytes is in it. sumFast
// does the same with less around it.
func checksum(p []byte) uint32 {
	if n := len(p); fastSum && n >= fastBytes && n < libraryBytes {
		return sumFast(&p[0], n)
	}
	return sumSlow(p)
}

// sumCopy copies src to dst, which is as long and lies elsewhere, and returns the
// checksum: both in one pass where that is faster.
func sumCopy(dst, src []byte) uint32 {
	if n := len(src); fastSum && n >= fastBytes && n < libraryBytes {
		return sumCopyFast(&dst[:n][0], &src[0], n)
	}
	copy(dst, src)
	return sumSlow(src)
}

// sumSlow has the library take whole blocks of 16 bytes, for which it has the
// processor's own instructions. It would take the up to 15 that are left a byte at
// a time. Here eight of them are looked up at once (slicing-by-8).
func sumSlow(p []byte) uint32 {
	whole := len(p) &^ 15
	sum := crc32.ChecksumIEEE(p[:whole])
	tail := p[whole:]
	if len(tail) >= 8 {
		low := binary.LittleEndian.Uint32(tail) ^ ^sum
		high := binary.LittleEndian.Uint32(tail[4:])
		sum = ^(slices8[0][high>>24] ^ slices8[1][high>>16&0xff] ^ slices8[2][high>>8&0xff] ^ slices8[3][high&0xff] ^
			slices8[4][low>>24] ^ slices8[5][low>>16&0xff] ^ slices8[6][low>>8&0xff] ^ slices8[7][low&0xff])
		tail = tail[8:]
	}
	for _, b := range tail {
		sum = ^(crc32.IEEETable[byte(^sum)^b] ^ ^sum>>8)
	}
	return sum
}

// slices8[k][b] is the checksum's change by the byte b with k more bytes behind it.
var slices8 = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for k := 1; k < len(t); k++ {
		for b, sum := range t[k-1] {
			t[k][b] = t[0][byte(sum)] ^ sum>>8
		}
	}
	return t
}()
