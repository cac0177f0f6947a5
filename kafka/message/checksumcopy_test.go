package message

import (
	"bytes"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// checkSums compares all that computes a checksum with the standard library.
func checkSums(t interface{ Fatalf(string, ...any) }, p []byte) {
	want := crc32.ChecksumIEEE(p)
	if got := checksum(p); got != want {
		t.Fatalf("of %d bytes: %08x, want %08x", len(p), got, want)
	}
	if got := sumSlow(p); got != want {
		t.Fatalf("without sumFast, of %d bytes: %08x, want %08x", len(p), got, want)
	}
	const around = 16
	to := bytes.Repeat([]byte{0xa5}, around+len(p)+around)
	before, after := bytes.Clone(to[:around]), bytes.Clone(to[around+len(p):])
	if got := sumCopy(to[around:around+len(p)], p); got != want {
		t.Fatalf("while %d bytes are copied: %08x, want %08x", len(p), got, want)
	}
	if !bytes.Equal(to[around:around+len(p)], p) {
		t.Fatalf("the copy of %d bytes differs", len(p))
	}
	if !bytes.Equal(to[:around], before) || !bytes.Equal(to[around+len(p):], after) {
		t.Fatalf("the copy of %d bytes has changed what lies around it", len(p))
	}
}

// TestSums: each is that of the standard library, and the copy is one.
func TestSums(t *testing.T) {
	b := make([]byte, 1200)
	for i := range b {
		b[i] = byte(i*i + 7*i + i>>8)
	}
	for from := range 20 {
		for to := from; to <= len(b); to++ {
			checkSums(t, b[from:to])
		}
	}
	// Behind whole blocks each of the last bytes, alone, at every place and value.
	for tail := range 16 {
		for at := range tail {
			p := make([]byte, fastBytes+16+tail)
			for v := range 256 {
				p[fastBytes+16+at] = byte(v)
				checkSums(t, p)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		checkSums(rt, rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "bytes"))
	})
}

// TestChecksumOfDamage: every bit counts.
func TestChecksumOfDamage(t *testing.T) {
	p := bytes.Repeat([]byte("damaged?"), 26)[:203]
	whole := checksum(p)
	for i := range 8 * len(p) {
		p[i/8] ^= 1 << (i % 8)
		if checksum(p) == whole {
			t.Errorf("bit %d of %d does not count", i, 8*len(p))
		}
		p[i/8] ^= 1 << (i % 8)
	}
}

// BenchmarkSumCopy is the checksum of a message of 200 bytes with the copy of it.
func BenchmarkSumCopy(b *testing.B) {
	p, to := make([]byte, 200), make([]byte, 200)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		sumCopy(to, p)
	}
}
