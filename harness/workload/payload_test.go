package workload

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
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
	for _, n := range []int{MinPayloadBytes, 11, 16, 23, LargeBytes, 25, 31, 200, 4115, 4116, 4117, 100_000} {
		g := newGenerator(t, 77, n)
		for want := range uint64(50) {
			p := g.Next()
			if len(p) != n {
				t.Fatalf("payload of %d bytes, want %d", len(p), n)
			}
			h, err := Parse(p, 77)
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
	for _, n := range []int{10, 11, 23, 24, 61} {
		p := newGenerator(t, 1<<63+1, n).Next()
		for i := range p {
			for bit := range 8 {
				p[i] ^= 1 << bit
				if h, err := Parse(p, 1<<63+1); !errors.Is(err, ErrChecksum) {
					t.Errorf("%d bytes, bit %d of byte %d changed: Parse = %+v, %v, want a checksum error", n, bit, i, h, err)
				}
				p[i] ^= 1 << bit
			}
		}
		if _, err := Parse(p[:MinPayloadBytes-1], 1<<63+1); !errors.Is(err, ErrShort) {
			t.Errorf("9 bytes: Parse = %v, want ErrShort", err)
		}
		if n == MinPayloadBytes {
			continue
		}
		if _, err := Parse(p[:n-1], 1<<63+1); !errors.Is(err, ErrChecksum) {
			t.Errorf("%d bytes, last byte cut off: Parse = %v, want a checksum error", n, err)
		}
	}
}

// Results of different versions are compared, and a backlog may be older than
// the program that checks it: what a payload is must not change.
func TestPayloadsStayWhatTheyAre(t *testing.T) {
	for n, want := range map[int]string{
		10: "d3b164e6b01b8ad4", 23: "dc341776bee70f84",
		24: "d2bab8ae51ef2c7d", 25: "1ee945edb988aa38", 200: "16166a73ce535590", 5000: "16db9cbff3f6db80",
	} {
		g, sum := newGenerator(t, 0x0123456789abcdef, n), sha256.New()
		for range 1000 {
			sum.Write(g.Next())
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)[:8]); got != want {
			t.Errorf("1000 payloads of %d bytes have the sum %s, want %s", n, got, want)
		}
	}
}

// The run's id is not in a small payload, but takes part in its checksum.
func TestSmallPayloadsBelongToTheirRun(t *testing.T) {
	for n := MinPayloadBytes; n < LargeBytes; n++ {
		p := newGenerator(t, 77, n).Next()
		for _, other := range []uint64{76, 78, 77<<32 | 1, 1 << 63} {
			if _, err := Parse(p, other); !errors.Is(err, ErrChecksum) {
				t.Errorf("%d bytes of run 77, Parse for run %d = %v, want a checksum error", n, other, err)
			}
		}
	}
	c := NewChecker(9)
	if err := c.Check(newGenerator(t, 8, 10).Next()); err != nil {
		t.Fatal(err)
	}
	if got := c.Result(0); got != (Result{Received: 1, Damaged: 1}) {
		t.Errorf("a small payload of another run: %+v, want it damaged", got)
	}
}

// What takes a stream apart and puts it together again has no run's id, only a
// payload.
func TestSmallPayloadsAreMadeAgainFromOne(t *testing.T) {
	for n := MinPayloadBytes; n < LargeBytes; n++ {
		first := newGenerator(t, 0xfeedface_deadbeef, n)
		first.Seek(1000)
		h, ok := Peek(first.Next())
		if !ok || h != (Header{Sequence: 1000, RunID: uint64(Mark(0xfeedface_deadbeef))}) {
			t.Fatalf("Peek of %d bytes = %+v, %v", n, h, ok)
		}
		again := newGenerator(t, h.RunID, n)
		again.Seek(h.Sequence + 1)
		if !bytes.Equal(again.Next(), first.Next()) {
			t.Errorf("%d bytes: message 1001 is not the same when it is made from message 1000", n)
		}
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
	for _, n := range []int{-1, 0, 9, MaxPayloadBytes + 1} {
		if _, err := NewGenerator(1, n); err == nil {
			t.Errorf("a generator of %d bytes was made", n)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	for _, size := range []int{MinPayloadBytes, 200} {
		g, c := newGenerator(t, 1, size), NewChecker(1)
		if err := c.Check(g.Next()); err != nil { // makes the first chunk
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if c.Check(g.Next()) != nil {
				t.Fail()
			}
		}); n != 0 {
			t.Errorf("%v allocations a message of %d bytes", n, size)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{10, 200, 1000} {
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
