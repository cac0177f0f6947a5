package workload

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"testing"
)

func newGenerator(t testing.TB, runID uint64, n int) *Generator {
	t.Helper()
	g, err := NewGenerator(runID, n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPayloadSaysWhatItIs(t *testing.T) {
	for _, n := range []int{MinPayloadBytes, 25, 31, 200, 4115, 4116, 4117, 100_000} {
		g := newGenerator(t, 77, n)
		for want := range uint64(50) {
			p := g.Next()
			if len(p) != n {
				t.Fatalf("payload of %d bytes, want %d", len(p), n)
			}
			h, err := Parse(p)
			if err != nil || h != (Header{Sequence: want, RunID: 77}) {
				t.Fatalf("n = %d: Parse = %+v, %v; want sequence %d of run 77", n, h, err, want)
			}
		}
	}
}

// A receiver, or a replay by a driver, must be able to make the same payload
// again from what the payload says about itself.
func TestPayloadDependsOnRunSequenceAndSizeAlone(t *testing.T) {
	first := newGenerator(t, 5, 200)
	var sent [][]byte
	for range 20 {
		sent = append(sent, bytes.Clone(first.Next()))
	}
	again := newGenerator(t, 5, 200)
	again.Seek(13)
	if !bytes.Equal(again.Next(), sent[13]) {
		t.Error("sequence 13 of run 5 is not the same the second time")
	}
	other := newGenerator(t, 6, 200)
	other.Seek(13)
	if bytes.Equal(other.Next()[HeaderBytes:], sent[13][HeaderBytes:]) {
		t.Error("runs 5 and 6 have the same filler")
	}
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	g := newGenerator(t, 1, 61)
	p := g.Next()
	for i := range p {
		p[i] ^= 0x10
		if _, err := Parse(p); !errors.Is(err, ErrChecksum) {
			t.Errorf("byte %d changed: Parse = %v, want a checksum error", i, err)
		}
		p[i] ^= 0x10
	}
	if _, err := Parse(p[:MinPayloadBytes-1]); !errors.Is(err, ErrShort) {
		t.Errorf("23 bytes: Parse = %v, want ErrShort", err)
	}
	if _, err := Parse(p[:60]); !errors.Is(err, ErrChecksum) {
		t.Errorf("last byte cut off: Parse = %v, want a checksum error", err)
	}
}

// A system that compresses must not gain by it.
func TestPayloadsDoNotCompress(t *testing.T) {
	for _, n := range []int{200, 20_000} {
		g := newGenerator(t, 99, n)
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		raw := 0
		for raw < 400_000 {
			p := g.Next()
			raw += len(p)
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		// Of 200 bytes, 14 of the header are alike from message to message.
		if packed.Len() < raw*92/100 {
			t.Errorf("payloads of %d bytes: %d bytes compress to %d", n, raw, packed.Len())
		}
	}
}

func TestGeneratorRefusesSizes(t *testing.T) {
	for _, n := range []int{-1, 0, 23, MaxPayloadBytes + 1} {
		if _, err := NewGenerator(1, n); err == nil {
			t.Errorf("a generator of %d bytes was made", n)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	g, c := newGenerator(t, 1, 200), NewChecker(1)
	if err := c.Check(g.Next()); err != nil { // makes the first chunk
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if c.Check(g.Next()) != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{200, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := newGenerator(b, 1, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				g.Next()
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	g := newGenerator(b, 1, 200)
	p := g.Next()
	c := NewChecker(1)
	b.SetBytes(200)
	for b.Loop() {
		if err := c.Check(p); err != nil {
			b.Fatal(err)
		}
	}
}
