package message

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestChecksum: it is that of the standard library, whatever the length, wherever in
// memory it begins, and whatever the bytes are.
func TestChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mixed, zeros, ones := make([]byte, 4300), make([]byte, 4300), bytes.Repeat([]byte{0xff}, 4300)
	for i := range mixed {
		mixed[i] = byte(rng.Uint32())
	}
	for name, b := range map[string][]byte{"mixed": mixed, "zeros": zeros, "ones": ones} {
		for from := range 16 {
			for to := from; to <= len(b); to++ {
				if got, want := checksum(b[from:to]), crc32.ChecksumIEEE(b[from:to]); got != want {
					t.Fatalf("%s, of %d bytes from %d on: %08x, want %08x", name, to-from, from, got, want)
				}
			}
		}
	}
	// Behind whole blocks each of the last bytes, alone, at every place and value.
	for tail := range 16 {
		for at := range tail {
			b := make([]byte, 16+tail)
			for v := range 256 {
				b[16+at] = byte(v)
				if got, want := checksum(b), crc32.ChecksumIEEE(b); got != want {
					t.Fatalf("of %d bytes, byte %d is %d: %08x, want %08x", len(b), 16+at, v, got, want)
				}
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
