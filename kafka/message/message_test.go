package message_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"kafkalab/kafka/message"
)

// unhex reads hexadecimal digits; spaces and line breaks only separate fields.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bytes as Kafka 0.7 and, with magic 0, the system of the paper wrote them.
const (
	v1 = "00000015 00 4f673ce4 74657374206d65737361676520737472"
	v2 = "00000016 01 00 4f673ce4 74657374206d65737361676520737472"
	v3 = "00000006 01 00 00000000"
	v4 = "00000005 00 00000000"
	// second is the second message of v10, the first being v2.
	second = "0000000c 01 00 b61f1169 7365636f6e64"
	v24    = `00000009 01 00 7a6c86f1 6f6e65 00000009 01 00 11ca8a66 74776f
		0000000b 01 00 46c5d8f5 7468726565`
)

// NetDB'11 §5 gives the overhead of a message as 9 bytes: its length, its magic
// and its checksum.
func TestOverheadIsNineBytes(t *testing.T) {
	fields := [...]int{message.LengthSize, message.MagicSize, message.CRCSize}
	if fields != [...]int{4, 1, 4} {
		t.Errorf("length, magic, CRC of %v bytes, want 4, 1, 4", fields)
	}
	if n := message.Overhead0; n != 9 {
		t.Errorf("overhead %d, want 9 = 4 + 1 + 4", n)
	}
	if n := len(message.Append(nil, make([]byte, 200))); n != 209 || n != message.EntrySize(200) {
		t.Errorf("200 bytes become %d, want 209", n)
	}
	if message.Overhead1 != 10 || len(message.Append1(nil, nil, message.CodecNone)) != 10 {
		t.Errorf("overhead of magic 1: %d, want 10", message.Overhead1)
	}
}

func TestGoldenEntries(t *testing.T) {
	p := []byte("test message str")
	for _, c := range []struct {
		name    string
		want    string
		got     []byte
		magic   byte
		payload []byte
	}{
		{"V1", v1, message.Append(nil, p), 0, p},
		{"V2", v2, message.Append1(nil, p, message.CodecNone), 1, p},
		{"V3", v3, message.Append1(nil, nil, message.CodecNone), 1, []byte{}},
		{"V4", v4, message.Append(nil, nil), 0, []byte{}},
	} {
		want := unhex(t, c.want)
		if !bytes.Equal(c.got, want) {
			t.Errorf("%s: wrote %x, want %x", c.name, c.got, want)
		}
		m, size, err := message.Parse(want)
		if err != nil || size != len(want) || m.Magic != c.magic || !bytes.Equal(m.Payload, c.payload) {
			t.Errorf("%s: read %+v of %d bytes, %v", c.name, m, size, err)
		}
		if m.Size() != len(want) || m.CRC != crc32.ChecksumIEEE(c.payload) || m.Codec() != message.CodecNone {
			t.Errorf("%s: size %d, CRC %08x, codec %v", c.name, m.Size(), m.CRC, m.Codec())
		}
		if n, err := message.Peek(want); n != len(want) || err != nil {
			t.Errorf("%s: peeked %d, %v", c.name, n, err)
		}
	}
	for payload, crc := range map[string]uint32{"test message str": 0x4f673ce4, strings.Repeat("x", 100): 0x5e0e5d8f, "testing": 0xe8f35a06} {
		if m, _, err := message.Parse(message.Append(nil, []byte(payload))); err != nil || m.CRC != crc {
			t.Errorf("CRC of %.20q: %08x, want %08x (%v)", payload, m.CRC, crc, err)
		}
	}
}

type seen struct {
	payload string
	offset  int64
	next    int64
}

func walk(set []byte, offset int64) (got []seen, it message.Iterator) {
	it = message.Set(set).Iterate(offset)
	for it.Next() {
		got = append(got, seen{string(it.Message().Payload), it.Offset(), it.NextOffset()})
	}
	return got, it
}

func TestGoldenSets(t *testing.T) {
	v10 := unhex(t, v2+second)
	for _, c := range []struct {
		name   string
		set    []byte
		offset int64
		want   []seen
		valid  int
	}{
		{"V10", v10, 0, []seen{{"test message str", 0, 26}, {"second", 26, 42}}, 42},
		{"V14, the second cut", v10[:36], 0, []seen{{"test message str", 0, 26}}, 26},
		{"V15, the first cut", v10[:20], 0, nil, 0},
		{"V24", unhex(t, v24), 0, []seen{{"one", 0, 13}, {"two", 13, 26}, {"three", 26, 41}}, 41},
		{"both magics, from an offset", unhex(t, v1+v2), 1000, []seen{{"test message str", 1000, 1025}, {"test message str", 1025, 1051}}, 51},
		{"empty", nil, 7, nil, 0},
	} {
		got, it := walk(c.set, c.offset)
		if !reflect.DeepEqual(got, c.want) || it.Err() != nil {
			t.Errorf("%s: %v (%v), want %v", c.name, got, it.Err(), c.want)
		}
		if it.ValidBytes() != c.valid || it.NextOffset() != c.offset+int64(c.valid) || len(it.Rest()) != len(c.set)-c.valid {
			t.Errorf("%s: %d valid bytes, next offset %d, %d left", c.name, it.ValidBytes(), it.NextOffset(), len(it.Rest()))
		}
		if it.Next() {
			t.Errorf("%s: Next after the end", c.name)
		}
	}
}

// The golden magic 0 segment of the original test suite: 100 messages of 100
// bytes, 10900 bytes in all.
func TestGoldenSegment(t *testing.T) {
	segment := bytes.Repeat(append(unhex(t, "00000069 00 5e0e5d8f"), bytes.Repeat([]byte{0x78}, 100)...), 100)
	got, it := walk(segment, 0)
	if len(got) != 100 || it.Err() != nil || it.NextOffset() != 10900 {
		t.Fatalf("%d messages, next offset %d, %v", len(got), it.NextOffset(), it.Err())
	}
	for i, m := range got {
		if m.offset != int64(109*i) || m.next != m.offset+109 {
			t.Errorf("message %d at %d, next %d", i, m.offset, m.next)
		}
	}
}

func TestDamagedEntries(t *testing.T) {
	for _, c := range []struct {
		name, entry string
		want        error
	}{
		{"length 0", "00000000 00 00000000", message.ErrLength},
		{"length -1", "ffffffff 00 00000000", message.ErrLength},
		{"length 4", "00000004 00 000000 00", message.ErrLength},
		{"length 0, nothing else", "00000000", message.ErrLength},
		{"magic 1 with the length of an empty magic 0", "00000005 01 00 0000 00", message.ErrLength},
		{"magic 2", "00000005 02 00000000", message.ErrMagic},
		{"CRC of magic 0", "00000006 00 00000000 61", message.ErrCRC},
		{"CRC of magic 1", "00000007 01 00 00000000 61", message.ErrCRC},
		{"CRC of an empty payload", "00000005 00 00000001", message.ErrCRC},
		{"codec 3", "00000007 01 03 e8b7be43 61", message.ErrCodec},
	} {
		b := unhex(t, c.entry)
		var ce *message.CorruptError
		if _, size, err := message.Parse(b); !errors.Is(err, c.want) || size != 0 || !errors.As(err, &ce) {
			t.Errorf("%s: size %d, error %v", c.name, size, err)
		}
		got, it := walk(append(unhex(t, v1), b...), 100)
		if len(got) != 1 || !errors.As(it.Err(), &ce) || ce.Offset != 125 || it.ValidBytes() != 25 {
			t.Errorf("%s behind a good one: %v, %v", c.name, got, it.Err())
		}
		if it.Next() {
			t.Errorf("%s: Next after damage", c.name)
		}
		if valid, n, err := message.Check(append(unhex(t, v1), b...), message.Limits{}); !errors.Is(err, c.want) || valid != 0 || n != 0 {
			t.Errorf("%s: checked %d bytes, %d messages, %v", c.name, valid, n, err)
		}
	}
}

// Other bits of the attributes are not ours to judge (Kafka 0.7 §2.1).
func TestUnknownAttributesAreKept(t *testing.T) {
	m, _, err := message.Parse(unhex(t, "00000007 01 f0 e8b7be43 61"))
	if err != nil || m.Attributes != 0xf0 || m.Codec() != message.CodecNone {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestCheck(t *testing.T) {
	two := unhex(t, v2+second)
	for _, c := range []struct {
		name            string
		set             []byte
		max             int
		valid, messages int
		err             error
	}{
		{"empty", nil, 0, 0, 0, nil},
		{"whole", two, 0, 42, 2, nil},
		{"at the limit", two, 16, 42, 2, nil},
		{"cut", two[:41], 0, 26, 1, nil},
		{"stray bytes", append(unhex(t, v2), 0, 0, 0), 0, 26, 1, nil},
		{"first cut", two[:25], 0, 0, 0, message.ErrIncomplete},
		{"a byte", []byte{0}, 0, 0, 0, message.ErrIncomplete},
		{"too large", two, 15, 0, 0, message.ErrTooLarge},
		{"second too large", append(unhex(t, second), two...), 6, 0, 0, message.ErrTooLarge},
	} {
		valid, n, err := message.Check(c.set, message.Limits{MaxPayload: c.max})
		if valid != c.valid || n != c.messages || !errors.Is(err, c.err) {
			t.Errorf("%s: %d bytes, %d messages, %v", c.name, valid, n, err)
		}
	}
}

// TestB17TopicNames: there is one rule for topic names, which are names of folders
// and nodes (fault B17).
func TestB17TopicNames(t *testing.T) {
	for _, name := range []string{"t", "a.b", "a_b", "A", "a-1", "a b", "...", ".a", "täglich", "話題", strings.Repeat("x", 249)} {
		if err := message.CheckTopic(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "../x", "x/y", "/", "a\x00", "a\nb", "\x1f", "\x7f", "a\u0085b", "\ue000", "\uf8ff", "\ufff0", "\ufffd",
		"\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 250), strings.Repeat("話", 84),
	} {
		if err := message.CheckTopic(name); err == nil {
			t.Errorf("%q: accepted", name)
		}
	}
}

func TestNamesOfCodecs(t *testing.T) {
	for c, want := range map[message.Codec]string{0: "none", 1: "gzip", 2: "snappy", 3: "unknown(3)"} {
		if c.String() != want {
			t.Errorf("codec %d is %q", byte(c), c)
		}
		if got, err := message.ParseCodec(want); (err == nil) != (c < 3) || err == nil && got != c {
			t.Errorf("%q is codec %v, %v", want, got, err)
		}
	}
}

func TestNothingIsAllocatedPerMessage(t *testing.T) {
	payload := make([]byte, 200)
	buf := make([]byte, 0, 1000)
	var set []byte
	for range 100 {
		set = message.Append(set, payload)
	}
	for name, f := range map[string]func(){
		"Append":  func() { message.Append1(message.Append(buf, payload), payload, message.CodecNone) },
		"Parse":   func() { message.Parse(set) },
		"Check":   func() { message.Check(set, message.Limits{MaxPayload: 1000}) },
		"Iterate": func() { walkOnly(set) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %.1f allocations", name, n)
		}
	}
}

func walkOnly(set message.Set) (bytes int) {
	it := set.Iterate(0)
	for it.Next() {
		bytes += len(it.Message().Payload)
	}
	return bytes
}
