package message_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	"kafkalab/kafka/message"
)

// Bytes as Kafka 0.7 wrote them: v24 compressed with either codec, and a segment
// file that holds v1, v2, v25 and "last".
const (
	v25 = `0000003f 01 01 4539a073
		1f8b0800000000000000636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf0772b81919dc8edef85a9251949a0a000da421ea29
		000000`
	v26 = `00000045 01 02 24873405
		82534e415050590000000001000000010000002b29a00000000901007a6c86f16f6e6500000009010011ca8a6674776f0000000b0100
		46c5d8f57468726565`
	v27 = `00000015004f673ce474657374206d65737361676520737472 0000001601004f673ce474657374206d65737361676520737472
		0000003f01014539a0731f8b0800000000000000636060e06464a8ca69fb989f97ca00e6089eea4a2b29cf0772b81919dc8edef85a92
		51949a0a000da421ea29000000 0000000a01004adba9a06c617374`
)

var codecs = []message.Codec{message.CodecGzip, message.CodecSnappy}

func compress(t testing.TB, set []byte, codec message.Codec) []byte {
	t.Helper()
	entry, err := message.Compress(nil, set, codec)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func walkShallow(set []byte, offset int64) (got []seen, it message.Iterator) {
	it = message.Set(set).IterateShallow(offset)
	for it.Next() {
		got = append(got, seen{string(it.Message().Payload), it.Offset(), it.NextOffset()})
	}
	return got, it
}

// gzipped is one member with b, made by another implementation.
func gzipped(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := stdgzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// V24 to V26: what Kafka 0.7 compressed is read, and what we compress is the same
// when it is read.
func TestGoldenCompressedSets(t *testing.T) {
	v24 := unhex(t, v24)
	for name, entry := range map[string][]byte{
		"V25":                          unhex(t, v25),
		"V26":                          unhex(t, v26),
		"ours, gzip":                   compress(t, v24, message.CodecGzip),
		"ours, snappy":                 compress(t, v24, message.CodecSnappy),
		"snappy, a bare block":         message.Append1(nil, snappy.Encode(nil, v24), message.CodecSnappy),
		"gzip, another implementation": message.Append1(nil, gzipped(t, v24), message.CodecGzip),
	} {
		end := 1000 + int64(len(entry))
		got, it := walk(entry, 1000)
		want := []seen{{"one", 1000, 1000}, {"two", 1000, 1000}, {"three", 1000, end}}
		if !reflect.DeepEqual(got, want) || it.Err() != nil || it.ValidBytes() != len(entry) {
			t.Errorf("%s: %v, %d valid bytes, %v", name, got, it.ValidBytes(), it.Err())
		}
		if valid, n, err := message.Check(entry, message.Limits{}); valid != len(entry) || n != 3 || err != nil {
			t.Errorf("%s: checked %d bytes, %d messages, %v", name, valid, n, err)
		}
		m, size, err := message.Parse(entry)
		if err != nil || size != len(entry) || m.Size() != size || m.Magic != message.Magic1 || m.Codec() == message.CodecNone {
			t.Errorf("%s: parsed %+v of %d bytes, %v", name, m, size, err)
		}
		if set, err := m.Decompress(0); err != nil || !bytes.Equal(set, v24) {
			t.Errorf("%s: holds %x, %v", name, set, err)
		}
	}
	if got := compress(t, v24, message.CodecSnappy)[message.Overhead1:]; !bytes.HasPrefix(got, unhex(t, "82534e41505059 00 00000001 00000001")) {
		t.Errorf("snappy stream begins with %x", got[:16])
	}
	if got := compress(t, v24, message.CodecGzip)[message.Overhead1:]; !bytes.HasPrefix(got, unhex(t, "1f8b 08 00 00000000")) {
		t.Errorf("gzip member begins with %x", got[:8])
	}
}

// V27: a whole segment, read deep and shallow.
func TestGoldenMixedSegment(t *testing.T) {
	segment := unhex(t, v27)
	got, it := walk(segment, 0)
	want := []seen{{"test message str", 0, 25}, {"test message str", 25, 51}, {"one", 51, 51}, {"two", 51, 51}, {"three", 51, 118}, {"last", 118, 132}}
	if !reflect.DeepEqual(got, want) || it.Err() != nil || it.ValidBytes() != 132 {
		t.Errorf("deep: %v, %d valid bytes, %v", got, it.ValidBytes(), it.Err())
	}
	got, it = walkShallow(segment, 0)
	want = []seen{{"test message str", 0, 25}, {"test message str", 25, 51}, {string(unhex(t, v25)[10:]), 51, 118}, {"last", 118, 132}}
	if !reflect.DeepEqual(got, want) || it.Err() != nil || it.ValidBytes() != 132 {
		t.Errorf("shallow: %v, %d valid bytes, %v", got, it.ValidBytes(), it.Err())
	}
	if valid, n, err := message.Check(segment, message.Limits{}); valid != 132 || n != 6 || err != nil {
		t.Errorf("checked %d bytes, %d messages, %v", valid, n, err)
	}
	// Cut or damaged as by a crash, it ends where recovery cuts it.
	for _, c := range []struct {
		name  string
		set   []byte
		valid int
	}{
		{"cut to 130 bytes", segment[:130], 118},
		{"byte 40", flipped(segment, 40), 25},
		{"byte 60", flipped(segment, 60), 51},
	} {
		_, deep := walk(c.set, 0)
		_, shallow := walkShallow(c.set, 0)
		if deep.ValidBytes() != c.valid || shallow.ValidBytes() != c.valid {
			t.Errorf("%s: sound up to %d deep, %d shallow, want %d", c.name, deep.ValidBytes(), shallow.ValidBytes(), c.valid)
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 0xff
	return b
}

// Kafka 0.7 KAFKA-109, KAFKA-111: nothing compresses to nothing, and an entry
// without messages, as others may write it, advances by its size without a word.
func TestEmptyCompressedSets(t *testing.T) {
	for _, codec := range append(codecs, message.CodecNone) {
		if got, err := message.Compress([]byte("x"), nil, codec); err != nil || string(got) != "x" {
			t.Errorf("%v: empty set became %x, %v", codec, got, err)
		}
	}
	one := unhex(t, v1)
	for name, empty := range map[string][]byte{
		"gzip":         message.Append1(nil, gzipped(t, nil), message.CodecGzip),
		"snappy":       message.Append1(nil, unhex(t, "82534e4150505900 00000001 00000001"), message.CodecSnappy),
		"snappy, bare": message.Append1(nil, []byte{0}, message.CodecSnappy),
		"nested":       compress(t, message.Append1(nil, gzipped(t, nil), message.CodecGzip), message.CodecSnappy),
	} {
		n := int64(len(empty))
		got, it := walk(slices.Concat(empty, one, empty, empty, one, empty), 100)
		want := []seen{{"test message str", 100 + n, 125 + n}, {"test message str", 125 + 3*n, 150 + 3*n}}
		if !reflect.DeepEqual(got, want) || it.Err() != nil || it.NextOffset() != 150+4*n {
			t.Errorf("%s: %v, ends at %d, %v", name, got, it.NextOffset(), it.Err())
		}
		if valid, messages, err := message.Check(empty, message.Limits{}); valid != len(empty) || messages != 0 || err != nil {
			t.Errorf("%s: checked %d bytes, %d messages, %v", name, valid, messages, err)
		}
	}
}

// nest compresses set so many times, with the codecs in turn.
func nest(t testing.TB, set []byte, times int) []byte {
	for i := range times {
		set = compress(t, set, codecs[i%2])
	}
	return set
}

func TestNesting(t *testing.T) {
	v24 := unhex(t, v24)
	deepest := nest(t, v24, message.MaxNesting)
	got, it := walk(deepest, 0)
	if want := []seen{{"one", 0, 0}, {"two", 0, 0}, {"three", 0, int64(len(deepest))}}; !reflect.DeepEqual(got, want) || it.Err() != nil {
		t.Errorf("%v, %v", got, it.Err())
	}
	// Entries of all depths in one: only the last message has the next offset.
	var inner []byte
	var want []seen
	for depth := range message.MaxNesting {
		inner = append(inner, nest(t, v24, depth)...)
		want = append(want, seen{"one", 7, 7}, seen{"two", 7, 7}, seen{"three", 7, 7})
	}
	mixed := compress(t, inner, message.CodecGzip)
	want[len(want)-1].next = 7 + int64(len(mixed))
	if got, it = walk(mixed, 7); !reflect.DeepEqual(got, want) || it.Err() != nil {
		t.Errorf("%v, %v", got, it.Err())
	}
	if _, n, err := message.Check(mixed, message.Limits{}); n != len(want) || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}

	tooDeep := nest(t, v24, message.MaxNesting+1)
	got, it = walk(tooDeep, 7)
	if _, _, err := message.Check(tooDeep, message.Limits{}); !errors.Is(err, message.ErrDecompress) || !errors.Is(it.Err(), message.ErrDecompress) || len(got) > 0 {
		t.Errorf("too deep: checked %v, walked %v, %v", err, got, it.Err())
	}
	if got, it := walkShallow(tooDeep, 7); len(got) != 1 || it.Err() != nil {
		t.Errorf("too deep, shallow: %v, %v", got, it.Err())
	}
}

// An entry with damage inside is handed out not at all, and its offset is named.
func TestDamagedCompressedSets(t *testing.T) {
	v24 := unhex(t, v24)
	member, stream := gzipped(t, v24), []byte(unhex(t, v26)[message.Overhead1:])
	isize := func(n uint32) []byte {
		return append(slices.Clone(member[:len(member)-4]), binary.LittleEndian.AppendUint32(nil, n)...)
	}
	block := func(length uint32, block string) []byte {
		return append(append([]byte(unhex(t, "82534e4150505900 00000001 00000001")), binary.BigEndian.AppendUint32(nil, length)...), block...)
	}
	for _, c := range []struct {
		name    string
		payload []byte
		codec   message.Codec
		want    error
	}{
		{"gzip, a byte", []byte("a"), message.CodecGzip, message.ErrDecompress},
		{"gzip, nothing", nil, message.CodecGzip, message.ErrDecompress},
		{"gzip, other bytes", bytes.Repeat([]byte("a"), 50), message.CodecGzip, message.ErrDecompress},
		{"gzip, checksum", flipped(member, len(member)-5), message.CodecGzip, message.ErrDecompress},
		{"gzip, claims less", isize(uint32(len(v24)) - 1), message.CodecGzip, message.ErrDecompress},
		{"gzip, claims more", isize(uint32(len(v24)) + 1), message.CodecGzip, message.ErrDecompress},
		{"gzip, claims nothing", isize(0), message.CodecGzip, message.ErrDecompress},
		{"gzip, claims 4 GiB", isize(1<<32 - 1), message.CodecGzip, message.ErrDecompress},
		{"gzip, bytes behind", append(slices.Clone(member), member[len(member)-8:]...), message.CodecGzip, message.ErrDecompress},
		{"gzip, a second member", append(slices.Clone(member), member...), message.CodecGzip, message.ErrDecompress},
		{"snappy, nothing", nil, message.CodecSnappy, message.ErrDecompress},
		{"snappy, a byte", []byte("a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, header cut", stream[:15], message.CodecSnappy, message.ErrDecompress},
		{"snappy, later version", append([]byte(unhex(t, "82534e4150505900 00000002 00000002")), stream[16:]...), message.CodecSnappy, message.ErrDecompress},
		{"snappy, length of a block cut", append(slices.Clone(stream), 0, 0, 0), message.CodecSnappy, message.ErrDecompress},
		{"snappy, block beyond the end", block(100, "\x01\x00a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, block of -1", block(1<<32-1, "\x01\x00a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, block of 0", block(0, ""), message.CodecSnappy, message.ErrDecompress},
		{"snappy, claims 4 GiB", []byte("\xff\xff\xff\xff\x0f\x00a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, claims 2^63", []byte("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, claims more", []byte("\x05\x00a"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, claims less", []byte("\x01\x04ab"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, copy from before the beginning", []byte("\x05\x00a\x01\x02"), message.CodecSnappy, message.ErrDecompress},
		{"snappy, the copy that only s2 knows", []byte("\x0a\x00a\x15\x00"), message.CodecSnappy, message.ErrDecompress},

		{"gzip, first message cut", gzipped(t, v24[:10]), message.CodecGzip, message.ErrLength},
		{"gzip, last message cut", gzipped(t, v24[:40]), message.CodecGzip, message.ErrLength},
		{"gzip, stray bytes", gzipped(t, append(slices.Clone(v24), 0, 0)), message.CodecGzip, message.ErrLength},
		{"gzip, negative length", gzipped(t, append(slices.Clone(v24), 0xff, 0xff, 0xff, 0xff)), message.CodecGzip, message.ErrLength},
		{"gzip, unknown magic", gzipped(t, append(slices.Clone(v24), unhex(t, "00000005 02 00000000")...)), message.CodecGzip, message.ErrMagic},
		{"gzip, unknown codec", gzipped(t, append(slices.Clone(v24), unhex(t, "00000006 01 03 00000000")...)), message.CodecGzip, message.ErrCodec},
		{"snappy, CRC", snappy.Encode(nil, flipped(v24, len(v24)-1)), message.CodecSnappy, message.ErrCRC},
		{"snappy, CRC of what is compressed inside", snappy.Encode(nil, flipped(unhex(t, v25), 60)), message.CodecSnappy, message.ErrCRC},
	} {
		set := slices.Concat(unhex(t, v1), message.Append1(nil, c.payload, c.codec), unhex(t, v1))
		var ce *message.CorruptError
		got, it := walk(set, 100)
		if len(got) != 1 || !errors.Is(it.Err(), c.want) || !errors.As(it.Err(), &ce) || ce.Offset != 125 || it.ValidBytes() != 25 {
			t.Errorf("%s: %v, %d valid bytes, %v; want %v", c.name, got, it.ValidBytes(), it.Err(), c.want)
		}
		if it.Next() {
			t.Errorf("%s: Next after damage", c.name)
		}
		if valid, n, err := message.Check(set, message.Limits{}); !errors.Is(err, c.want) || valid != 0 || n != 0 || !errors.As(err, &ce) || ce.Offset != 25 {
			t.Errorf("%s: checked %d bytes, %d messages, %v", c.name, valid, n, err)
		}
		// As it is stored there is nothing wrong with it.
		if got, it := walkShallow(set, 100); len(got) != 3 || it.Err() != nil {
			t.Errorf("%s: shallow %v, %v", c.name, got, it.Err())
		}
	}
}

// Whatever a payload is cut to, or whichever byte of it is changed, it never
// reads as other messages.
func TestCompressedPayloadCutOrChangedAnywhere(t *testing.T) {
	v24 := unhex(t, v24)
	for _, codec := range codecs {
		payload := compress(t, v24, codec)[message.Overhead1:]
		for n := range payload {
			set, err := messageOf(payload[:n], codec).Decompress(0)
			if err == nil && !(codec == message.CodecSnappy && n == 16 && len(set) == 0) { // a stream without a block
				t.Errorf("%v, cut to %d of %d bytes: %x", codec, n, len(payload), set)
			}
			if codec == message.CodecSnappy {
				continue // it has no checksum of its own
			}
			if set, err := messageOf(flipped(payload, n), codec).Decompress(0); err == nil && !bytes.Equal(set, v24) {
				t.Errorf("%v, byte %d changed: %x", codec, n, set)
			}
		}
	}
}

func messageOf(payload []byte, codec message.Codec) message.Message {
	return message.Message{Magic: message.Magic1, Attributes: byte(codec), Payload: payload}
}

// An entry that holds more than is allowed is refused for it, at the byte.
func TestLimitOfDecompressed(t *testing.T) {
	inner := compress(t, message.Append(nil, make([]byte, 10_000)), message.CodecGzip)
	outer := compress(t, slices.Concat(inner, unhex(t, v1)), message.CodecSnappy)
	for _, c := range []struct {
		name  string
		entry []byte
		holds int
	}{
		{"gzip", inner, 10_009},
		{"snappy", compress(t, message.Append(nil, make([]byte, 100_000)), message.CodecSnappy), 100_009},
		{"nested: the sum of its levels", outer, len(inner) + 25 + 10_009},
	} {
		for limit, want := range map[int]error{c.holds: nil, c.holds - 1: message.ErrTooLarge, 1: message.ErrTooLarge} {
			if _, _, err := message.Check(c.entry, message.Limits{MaxDecompressed: limit}); !errors.Is(err, want) {
				t.Errorf("%s, limit %d: checked %v", c.name, limit, err)
			}
			it := message.Set(c.entry).Iterate(0)
			it.LimitDecompressed(limit)
			for it.Next() {
			}
			if !errors.Is(it.Err(), want) {
				t.Errorf("%s, limit %d: walked %v", c.name, limit, it.Err())
			}
		}
		// The limit is that of each entry, not of the set.
		if _, n, err := message.Check(bytes.Repeat(c.entry, 3), message.Limits{MaxDecompressed: c.holds}); err != nil || n < 3 {
			t.Errorf("%s, three times: %d messages, %v", c.name, n, err)
		}
	}
	// The payload as it is stored has a limit of its own.
	if _, _, err := message.Check(inner, message.Limits{MaxPayload: len(inner) - message.Overhead1}); err != nil {
		t.Error(err)
	}
	if _, _, err := message.Check(inner, message.Limits{MaxPayload: len(inner) - message.Overhead1 - 1}); !errors.Is(err, message.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := messageOf(inner[message.Overhead1:], message.CodecGzip).Decompress(10_008); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("Decompress: %v", err)
	}
	if _, err := messageOf(inner, message.CodecNone).Decompress(0); !errors.Is(err, message.ErrCodec) {
		t.Errorf("Decompress of a plain message: %v", err)
	}
}

// A bomb costs no more memory than the limit, whether it tells its size or lies.
func TestBombsAreCheap(t *testing.T) {
	const limit = 4 << 20
	zeros := compress(t, message.Append(nil, make([]byte, 60<<20)), message.CodecGzip)
	lies := func(n uint32) []byte { // about its size
		payload := slices.Clone(zeros[message.Overhead1:])
		binary.LittleEndian.PutUint32(payload[len(payload)-4:], n)
		return message.Append1(nil, payload, message.CodecGzip)
	}
	snappyZeros := compress(t, message.Append(nil, make([]byte, 60<<20)), message.CodecSnappy)
	for _, c := range []struct {
		name   string
		entry  []byte
		want   error
		memory uint64
	}{
		{"gzip", zeros, message.ErrTooLarge, 1 << 20},
		{"gzip that claims little", lies(limit - 1), message.ErrDecompress, limit + 1<<20},
		{"gzip that claims nothing", lies(0), message.ErrDecompress, 1 << 20},
		{"gzip in gzip", compress(t, zeros, message.CodecGzip), message.ErrTooLarge, 1 << 20},
		{"snappy", snappyZeros, message.ErrTooLarge, 1 << 20},
		{"snappy that claims what it cannot hold", message.Append1(nil, []byte("\x80\x80\x80\x01\x00a"), message.CodecSnappy), message.ErrDecompress, 1 << 20},
	} {
		var before, after runtime.MemStats
		runtime.GC() // empties the pools: what follows includes a reader
		runtime.ReadMemStats(&before)
		_, _, err := message.Check(c.entry, message.Limits{MaxDecompressed: limit})
		it := message.Set(c.entry).Iterate(0)
		it.LimitDecompressed(limit)
		for it.Next() {
		}
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) || !errors.Is(it.Err(), c.want) {
			t.Errorf("%s: checked %v, walked %v", c.name, err, it.Err())
		}
		// Both the check and the walk.
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*c.memory {
			t.Errorf("%s: %d bytes of memory, at most %d are right", c.name, n, 2*c.memory)
		}
	}
}

// What the iterator has handed out stays as it is, unless one buffer is reused.
func TestPayloadsStayValid(t *testing.T) {
	var set []byte
	var want []string
	for i := range 20 {
		inner := message.Append(message.Append(nil, fmt.Appendf(nil, "first of %d", i)), fmt.Appendf(nil, "second of %d", i))
		set = append(set, compress(t, inner, codecs[i%2])...)
		want = append(want, fmt.Sprintf("first of %d", i), fmt.Sprintf("second of %d", i))
	}
	var payloads [][]byte
	it := message.Set(set).Iterate(0)
	for it.Next() {
		payloads = append(payloads, it.Message().Payload)
	}
	for i, p := range payloads {
		if string(p) != want[i] {
			t.Errorf("payload %d is %q in the end, want %q", i, p, want[i])
		}
		if cap(p) != len(p) {
			t.Errorf("payload %d: an append would overwrite what follows", i)
		}
	}
	if len(payloads) != len(want) {
		t.Errorf("%d payloads", len(payloads))
	}

	var buf []byte
	it = message.Set(set).Iterate(0)
	it.ReuseBuffer(&buf)
	for i := 0; it.Next(); i++ {
		if string(it.Message().Payload) != want[i] {
			t.Errorf("payload %d is %q, want %q", i, it.Message().Payload, want[i])
		}
		if !bytes.Contains(buf, it.Message().Payload) {
			t.Errorf("payload %d is not in the buffer", i)
		}
	}
}

// A copy of an iterator goes on by itself, also from inside a compressed entry.
func TestCopiedIterator(t *testing.T) {
	inner := slices.Concat(unhex(t, v24), compress(t, unhex(t, v24), message.CodecGzip), unhex(t, v2))
	set := slices.Concat(compress(t, inner, message.CodecSnappy), unhex(t, v1))
	all, _ := walk(set, 0)
	it := message.Set(set).Iterate(0)
	for i := range len(all) + 1 {
		var got []seen
		for c := it; c.Next(); {
			got = append(got, seen{string(c.Message().Payload), c.Offset(), c.NextOffset()})
		}
		if !slices.Equal(got, all[i:]) {
			t.Errorf("copied behind message %d: %v, want %v", i, got, all[i:])
		}
		if it.Next() != (i < len(all)) {
			t.Errorf("the original ends at message %d", i)
		}
	}
}

func TestCompressRefuses(t *testing.T) {
	v24 := unhex(t, v24)
	for name, c := range map[string]struct {
		set   []byte
		codec message.Codec
		want  error
	}{
		"codec 3":         {v24, 3, message.ErrCodec},
		"cut":             {v24[:40], message.CodecGzip, message.ErrLength},
		"stray bytes":     {append(slices.Clone(v24), 0), message.CodecSnappy, message.ErrLength},
		"negative length": {unhex(t, "ffffffff 00"), message.CodecNone, message.ErrLength},
	} {
		if got, err := message.Compress([]byte("before"), c.set, c.codec); !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := message.Compress([]byte("before"), v24, message.CodecNone); err != nil || string(got) != "before"+string(v24) {
		t.Errorf("none: %q, %v", got, err)
	}
}

// Compressed sets of any size are read back, behind what was there before.
func TestCompressedSizes(t *testing.T) {
	for _, codec := range codecs {
		for _, size := range []int{0, 1, 31, 32, 100, 32<<10 - 9, 32<<10 - 8, 64 << 10, 1 << 20} {
			payload := []byte(strings.Repeat("all work and no play makes Jack a dull boy\n", size/43+1)[:size])
			set := message.Append(message.Append1(nil, payload, message.CodecNone), []byte("end"))
			entry, err := message.Compress(unhex(t, v1), set, codec)
			if err != nil {
				t.Fatal(err)
			}
			got, it := walk(entry, 0)
			if len(got) != 3 || got[1].payload != string(payload) || got[2].payload != "end" || it.Err() != nil || it.ValidBytes() != len(entry) {
				t.Errorf("%v, %d bytes: %d messages, %v", codec, size, len(got), it.Err())
			}
			if size >= 32<<10 && len(entry) > size/2 {
				t.Errorf("%v, %d bytes: compressed to %d", codec, size, len(entry))
			}
		}
	}
}

// A compressed set costs the memory for what it holds, whatever the number of its
// messages.
func TestCompressedSetsAllocateLittle(t *testing.T) {
	var set []byte
	for range 1000 {
		set = message.Append(set, make([]byte, 200))
	}
	for _, codec := range codecs {
		entry := compress(t, set, codec)
		var buf []byte
		for name, f := range map[string]func(){
			"Check":   func() { message.Check(entry, message.Limits{}) },
			"Iterate": func() { walkOnly(entry) },
			"Iterate with a buffer": func() {
				it := message.Set(entry).Iterate(0)
				it.ReuseBuffer(&buf)
				for it.Next() {
				}
			},
			"Compress": func() { entry, _ = message.Compress(entry[:0], set, codec) },
		} {
			// Mostly none or one; under the race detector the pools lose some of
			// what is put into them.
			if n := testing.AllocsPerRun(100, f); n > 10 {
				t.Errorf("%v, %s: %.1f allocations for 1000 messages", codec, name, n)
			}
		}
	}
}
