package message_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"
	"pgregory.net/rapid"

	"kafkalab/kafka/message"
)

// drawDeepSet draws a set of plain and compressed entries, and returns what a
// reader should see of it, and the position behind each entry.
func drawDeepSet(t *rapid.T, depth int) (set []byte, payloads [][]string, ends []int) {
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		if depth >= 3 {
			kind %= 2
		}
		var here []string
		switch kind {
		case 0, 1:
			p := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "payload")
			here = []string{string(p)}
			if kind == 0 {
				set = message.Append(set, p)
			} else {
				set = message.Append1(set, p, message.CodecNone)
			}
		default:
			inner, innerPayloads, _ := drawDeepSet(t, depth+1)
			for _, p := range innerPayloads {
				here = append(here, p...)
			}
			codec := codecs[kind%2]
			if kind == 4 && len(inner) > 0 {
				set = message.Append1(set, snappy.Encode(nil, inner), message.CodecSnappy)
				break
			}
			var err error
			if set, err = message.Compress(set, inner, codec); err != nil {
				t.Fatal(err)
			}
			if len(inner) == 0 {
				continue // gave no entry
			}
		}
		payloads, ends = append(payloads, here), append(ends, len(set))
	}
	return set, payloads, ends
}

// However plain and compressed entries are mixed and nested, and wherever the
// set is cut, exactly the messages of its complete entries come, in order, with
// the offsets of Kafka 0.7 §2.3.
func TestCompressedSetsCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, payloads, ends := drawDeepSet(t, 0)
		base := rapid.Int64Range(0, 1<<60).Draw(t, "base")
		cut := rapid.IntRange(0, len(set)).Draw(t, "cut")
		var want, wantShallow []seen
		valid := 0
		for i, end := range ends {
			if end > cut {
				break
			}
			start := base + int64(valid)
			for j, p := range payloads[i] {
				next := start
				if j == len(payloads[i])-1 {
					next = base + int64(end)
				}
				want = append(want, seen{p, start, next})
			}
			wantShallow = append(wantShallow, seen{offset: start, next: base + int64(end)})
			valid = end
		}
		got, it := walk(set[:cut], base)
		if !slices.Equal(got, want) || it.Err() != nil || it.ValidBytes() != valid || it.NextOffset() != base+int64(valid) || !bytes.Equal(it.Rest(), set[valid:cut]) {
			t.Fatalf("deep: %v, %d valid bytes, %v; want %v, %d", got, it.ValidBytes(), it.Err(), want, valid)
		}
		got, it = walkShallow(set[:cut], base)
		for i := range got {
			got[i].payload = ""
		}
		if !slices.Equal(got, wantShallow) || it.Err() != nil || it.ValidBytes() != valid {
			t.Fatalf("shallow: %v, %d valid bytes, %v; want %v, %d", got, it.ValidBytes(), it.Err(), wantShallow, valid)
		}
		n, messages, err := message.Check(set[:cut], message.Limits{})
		if incomplete := valid == 0 && cut > 0; incomplete != errors.Is(err, message.ErrIncomplete) || n != valid || messages != len(want) {
			t.Fatalf("checked %d bytes, %d messages, %v; want %d, %d", n, messages, err, valid, len(want))
		}
	})
}

// repair writes the checksum that each entry of b should have, so that a fuzzer
// gets behind it.
func repair(b []byte) {
	for {
		h, err := message.ParseHeader(b)
		if err != nil || h.Size == 0 || h.Size > len(b) {
			return
		}
		binary.BigEndian.PutUint32(b[h.Overhead-message.CRCSize:], crc32.ChecksumIEEE(b[h.Overhead:h.Size]))
		b = b[h.Size:]
	}
}

// FuzzIterate: whatever the bytes are, the deep walk, the shallow walk and the
// check agree about them.
func FuzzIterate(f *testing.F) {
	for _, sums := range []bool{false, true} {
		f.Add(unhex(f, v1+v2+v3+v4+v24), int64(0), sums)
		f.Add(unhex(f, v1+"00000000"), int64(1<<62), sums)
		f.Add(unhex(f, v27), int64(0), sums)
		f.Add(unhex(f, v26+v25), int64(5), sums)
		f.Add(nest(f, unhex(f, v24), 3), int64(1), sums)
		f.Add(nest(f, unhex(f, v24), message.MaxNesting+1), int64(1), sums)
		f.Add(message.Append1(nil, []byte{0}, message.CodecSnappy), int64(1), sums)
	}
	f.Fuzz(func(t *testing.T, b []byte, offset int64, sums bool) {
		if sums {
			b = slices.Clone(b)
			repair(b)
		}
		const limit = 1 << 20
		offset &= 1<<62 - 1
		deep, shallow := message.Set(b).Iterate(offset), message.Set(b).IterateShallow(offset)
		deep.LimitDecompressed(limit)
		n, start := 0, 0
		for ; deep.Next(); n++ {
			switch here := int(deep.Offset() - offset); {
			case here < start, here > deep.ValidBytes(), deep.NextOffset() != offset+int64(deep.ValidBytes()):
				t.Fatalf("message %d at %d after %d, next offset %d, %d valid bytes", n, here, start, deep.NextOffset(), deep.ValidBytes())
			case deep.Message().Codec() != message.CodecNone:
				t.Fatalf("message %d has codec %v", n, deep.Message().Codec())
			default:
				start = here
			}
		}
		for before := 0; shallow.Next(); before = shallow.ValidBytes() {
			if shallow.Offset() != offset+int64(before) || shallow.ValidBytes()-before != shallow.Message().Size() {
				t.Fatalf("entry of %d bytes from %d to %d", shallow.Message().Size(), before, shallow.ValidBytes())
			}
		}
		if deep.ValidBytes() > shallow.ValidBytes() || deep.Err() == nil && deep.ValidBytes() != shallow.ValidBytes() {
			t.Fatalf("%d valid bytes deep (%v), %d shallow", deep.ValidBytes(), deep.Err(), shallow.ValidBytes())
		}
		valid, messages, err := message.Check(b, message.Limits{MaxDecompressed: limit})
		switch {
		case deep.Err() != nil || deep.ValidBytes() == 0 && len(b) > 0:
			if err == nil || valid != 0 || messages != 0 {
				t.Fatalf("checked %d bytes, %d messages, %v; the walk ended with %v", valid, messages, err, deep.Err())
			}
		case err != nil || valid != deep.ValidBytes() || messages != n:
			t.Fatalf("checked %d bytes, %d messages, %v; want %d, %d", valid, messages, err, deep.ValidBytes(), n)
		}
	})
}

// FuzzInside: a compressed entry gives the messages of the set that is in it, of
// any bytes, or none if that is not whole and sound.
func FuzzInside(f *testing.F) {
	for _, sums := range []bool{false, true} {
		f.Add(unhex(f, v1+v2+v3+v4+v24), sums)
		f.Add(unhex(f, v27), sums)
		f.Add(unhex(f, v1+"00000000"), sums)
		f.Add(nest(f, unhex(f, v24), 3), sums)
		f.Add(append(unhex(f, v1), message.Append1(nil, []byte{0}, message.CodecSnappy)...), sums)
	}
	f.Fuzz(func(t *testing.T, set []byte, sums bool) {
		const limit = 1 << 20
		set = slices.Clone(set)
		if sums {
			repair(set)
		}
		alone := message.Set(set).Iterate(0)
		alone.LimitDecompressed(limit - len(set)) // what the levels below have left
		var want []seen
		for alone.Next() {
			want = append(want, seen{payload: string(alone.Message().Payload)})
		}
		entry := message.Append1(nil, snappy.Encode(nil, set), message.CodecSnappy)
		it := message.Set(entry).Iterate(0)
		it.LimitDecompressed(limit)
		var got []seen
		for it.Next() {
			got = append(got, seen{string(it.Message().Payload), it.Offset(), it.NextOffset()})
		}
		if alone.Err() != nil || alone.ValidBytes() != len(set) {
			if it.Err() == nil || len(got) > 0 || it.NextOffset() != 0 {
				t.Fatalf("%d messages, up to %d, %v, of a set that is not sound: %v", len(got), it.NextOffset(), it.Err(), alone.Err())
			}
			return
		}
		if len(want) > 0 {
			want[len(want)-1].next = int64(len(entry))
		}
		// Two sets inside may be too much together, or too deep, where each alone is not.
		if it.Err() != nil && (errors.Is(it.Err(), message.ErrTooLarge) || errors.Is(it.Err(), message.ErrDecompress)) && len(got) == 0 {
			return
		}
		if it.Err() != nil || !slices.Equal(got, want) || it.NextOffset() != int64(len(entry)) {
			t.Fatalf("%v up to %d, %v; want %v up to %d", got, it.NextOffset(), it.Err(), want, len(entry))
		}
	})
}

// FuzzDecompress: what is decompressed is within the limit, and what other
// decoders make of it.
func FuzzDecompress(f *testing.F) {
	for _, codec := range codecs {
		f.Add(byte(codec), compress(f, unhex(f, v24), codec)[message.Overhead1:])
		f.Add(byte(codec), compress(f, message.Append(nil, make([]byte, 70_000)), codec)[message.Overhead1:])
	}
	f.Add(byte(message.CodecGzip), unhex(f, v25)[message.Overhead1:])
	f.Add(byte(message.CodecSnappy), unhex(f, v26)[message.Overhead1:])
	f.Add(byte(message.CodecSnappy), snappy.Encode(nil, unhex(f, v24)))
	f.Add(byte(message.CodecSnappy), []byte("\xff\xff\xff\xff\x0f\x00a"))
	f.Add(byte(message.CodecSnappy), []byte("\x0a\x00a\x15\x00"))
	f.Fuzz(func(t *testing.T, codec byte, payload []byte) {
		const limit = 1 << 20
		m := message.Message{Magic: message.Magic1, Attributes: 1 + codec%2, Payload: payload}
		before := slices.Clone(payload)
		set, err := m.Decompress(limit)
		if !bytes.Equal(before, payload) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			if !errors.Is(err, message.ErrDecompress) && !errors.Is(err, message.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		if len(set) > limit {
			t.Fatalf("%d bytes", len(set))
		}
		if m.Codec() == message.CodecGzip {
			r, err := stdgzip.NewReader(bytes.NewReader(payload))
			if err != nil {
				t.Fatalf("the standard library: %v", err)
			}
			want, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(set, want) {
				t.Fatalf("%d bytes, the standard library has %d, %v", len(set), len(want), err)
			}
		} else if want, err := snappy.Decode(nil, payload); err == nil && !bytes.HasPrefix(payload, []byte("\x82SNAPPY\x00")) && !bytes.Equal(set, want) {
			t.Fatalf("%d bytes, the other decoder has %d", len(set), len(want))
		}
	})
}

// FuzzCompress: any set that is whole comes back as it was.
func FuzzCompress(f *testing.F) {
	f.Add(unhex(f, v24), byte(1))
	f.Add(unhex(f, v1+v25), byte(2))
	f.Add(message.Append(nil, make([]byte, 40_000)), byte(2))
	f.Fuzz(func(t *testing.T, set []byte, codec byte) {
		codec = 1 + codec%2
		entry, err := message.Compress(nil, set, message.Codec(codec))
		if err != nil {
			if !errors.Is(err, message.ErrLength) || entry != nil {
				t.Fatalf("%d bytes, %v", len(entry), err)
			}
			return
		}
		if len(set) == 0 {
			if len(entry) > 0 {
				t.Fatalf("nothing became %x", entry)
			}
			return
		}
		m, size, err := message.Parse(entry)
		if err != nil || size != len(entry) || m.Codec() != message.Codec(codec) {
			t.Fatalf("%v entry of %d bytes, %v", m.Codec(), size, err)
		}
		if got, err := m.Decompress(len(set)); err != nil || !bytes.Equal(got, set) {
			t.Fatalf("%x became %x, %v", set, got, err)
		}
	})
}
