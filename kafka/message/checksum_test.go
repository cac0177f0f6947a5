package message

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// TestChecksum: it is that of the standard library, whatever the length.
func TestChecksum(t *testing.T) {
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(i*i + 7*i)
	}
	for from := range 20 {
		for to := from; to <= len(b); to++ {
			if got, want := checksum(b[from:to]), crc32.ChecksumIEEE(b[from:to]); got != want {
				t.Fatalf("of %d bytes: %08x, want %08x", to-from, got, want)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "bytes")
		if got, want := checksum(p), crc32.ChecksumIEEE(p); got != want {
			rt.Fatalf("of %d bytes: %08x, want %08x", len(p), got, want)
		}
	})
}

// BenchmarkChecksum is the checksum of a message of 200 bytes, beside that of the
// standard library.
func BenchmarkChecksum(b *testing.B) {
	p := make([]byte, 200)
	for name, sum := range map[string]func([]byte) uint32{"ours": checksum, "library": crc32.ChecksumIEEE} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				sum(p)
			}
		})
	}
}
