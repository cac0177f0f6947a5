package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"kafkalab/kafka/wire"
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

// Entries and sets as Kafka 0.7 and, with magic 0, the system of the paper
// wrote them.
const (
	entry0 = "00000015 00 4f673ce4 74657374206d65737361676520737472"
	entry1 = "00000016 01 00 4f673ce4 74657374206d65737361676520737472"
	second = "0000000c 01 00 b61f1169 7365636f6e64"
	topic1 = "0006 746f70696331"
	topic2 = "0006 746f70696332"
)

// Requests as clients of Kafka 0.7 send them, to the byte.
func TestGoldenRequests(t *testing.T) {
	set1, set0, setSecond := unhex(t, entry1), unhex(t, entry0), unhex(t, second)
	for _, c := range []struct {
		name  string
		frame string
		typ   wire.Type
		wrote []byte
		parse func(body []byte) (any, error)
		want  any
	}{
		{"V5 Produce", "0000002c 0000" + topic1 + "00000000 0000001a" + entry1, wire.TypeProduce,
			wire.AppendProduce(nil, "topic1", 0, set1), produce,
			wire.Produce{Topic: []byte("topic1"), Set: set1}},
		{"V6 Produce, broker picks", "0000002c 0000" + topic1 + "ffffffff 0000001a" + entry1, wire.TypeProduce,
			wire.AppendProduce(nil, "topic1", -1, set1), produce,
			wire.Produce{Topic: []byte("topic1"), Partition: -1, Set: set1}},
		{"V7 Produce of the paper's message", "0000002b 0000" + topic1 + "00000000 00000019" + entry0, wire.TypeProduce,
			wire.AppendProduce(nil, "topic1", 0, set0), produce,
			wire.Produce{Topic: []byte("topic1"), Set: set0}},
		{"V8 Produce of an empty set", "00000012 0000" + topic1 + "00000000 00000000", wire.TypeProduce,
			wire.AppendProduce(nil, "topic1", 0, nil), produce,
			wire.Produce{Topic: []byte("topic1"), Set: []byte{}}},
		{"V9 Fetch", "0000001a 0001" + topic1 + "00000000 0000000000000000 00100000", wire.TypeFetch,
			wire.AppendFetch(nil, wire.FetchEntry{Topic: "topic1", MaxBytes: 1 << 20}),
			func(b []byte) (any, error) { return wire.ParseFetch(b) },
			wire.Fetch{Topic: []byte("topic1"), MaxBytes: 1 << 20}},
		{"V16 Offsets, latest", "0000001a 0004" + topic1 + "00000000 ffffffffffffffff 00000001", wire.TypeOffsets,
			wire.AppendOffsets(nil, "topic1", 0, wire.TimeLatest, 1), offsets,
			wire.Offsets{Topic: []byte("topic1"), Time: -1, MaxCount: 1}},
		{"V17 Offsets, earliest", "0000001a 0004" + topic1 + "00000000 fffffffffffffffe 00000001", wire.TypeOffsets,
			wire.AppendOffsets(nil, "topic1", 0, wire.TimeEarliest, 1), offsets,
			wire.Offsets{Topic: []byte("topic1"), Time: -2, MaxCount: 1}},
		{"V18 Offsets, a time", "0000001a 0004" + topic1 + "00000000 0000013187b928a0 0000000a", wire.TypeOffsets,
			wire.AppendOffsets(nil, "topic1", 0, 1312242084000, 10), offsets,
			wire.Offsets{Topic: []byte("topic1"), Time: 1312242084000, MaxCount: 10}},
		{"V21 MultiFetch", "00000034 0002 0002" + topic1 + "00000000 0000000000000000 00100000" + topic2 + "00000001 000000000000001a 00100000", wire.TypeMultiFetch,
			wire.AppendMultiFetch(nil, []wire.FetchEntry{{Topic: "topic1", MaxBytes: 1 << 20}, {Topic: "topic2", Partition: 1, Offset: 26, MaxBytes: 1 << 20}}),
			func(b []byte) (any, error) { return wire.ParseMultiFetch(nil, b) },
			wire.FetchMany{Fetches: []wire.Fetch{{Topic: []byte("topic1"), MaxBytes: 1 << 20}, {Topic: []byte("topic2"), Partition: 1, Offset: 26, MaxBytes: 1 << 20}}}},
		{"V23 MultiProduce", "0000004e 0003 0002" + topic1 + "00000000 0000001a" + entry1 + topic2 + "ffffffff 00000010" + second, wire.TypeMultiProduce,
			wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic1", Set: set1}, {Topic: "topic2", Partition: -1, Set: setSecond}}),
			func(b []byte) (any, error) { return wire.ParseMultiProduce(nil, b) },
			[]wire.Produce{{Topic: []byte("topic1"), Set: set1}, {Topic: []byte("topic2"), Partition: -1, Set: setSecond}}},
	} {
		frame := unhex(t, c.frame)
		if !bytes.Equal(c.wrote, frame) {
			t.Errorf("%s: wrote %x, want %x", c.name, c.wrote, frame)
		}
		if n, err := wire.FrameSize(frame, wire.TypeSize, wire.MaxRequestSize); n != len(frame) || err != nil {
			t.Errorf("%s: frame of %d bytes, %v", c.name, n, err)
		}
		typ, body, err := wire.SplitRequest(frame[wire.SizeSize:])
		if err != nil || typ != c.typ {
			t.Fatalf("%s: type %v, %v", c.name, typ, err)
		}
		if got, err := c.parse(body); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: read %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func produce(b []byte) (any, error) { return wire.ParseProduce(b) }
func offsets(b []byte) (any, error) { return wire.ParseOffsets(b) }

// Responses as a broker of Kafka 0.7 sends them, to the byte.
func TestGoldenResponses(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		code        wire.Code
		payload     []byte
	}{
		{"V10 Fetch", "0000002c 0000" + entry1 + second, 0, unhex(t, entry1+second)},
		{"V11 Fetch, empty", "00000002 0000", 0, nil},
		{"V12 out of range", "00000002 0001", wire.CodeOffsetOutOfRange, nil},
		{"V13 unknown", "00000002 ffff", wire.CodeUnknown, nil},
		{"V14 Fetch, second cut", "00000026 0000" + entry1 + "0000000c0100b61f1169", 0, unhex(t, entry1+"0000000c0100b61f1169")},
		{"V15 Fetch, first cut", "00000016 0000 0000001601004f673ce474657374206d65737361", 0, unhex(t, "0000001601004f673ce474657374206d65737361")},
		{"V19 Offsets", "00000016 0000 00000002 000000000000002a 0000000000000000", 0, wire.AppendOffsetList(nil, []int64{42, 0})},
		{"V20 Offsets, none", "00000006 0000 00000000", 0, wire.AppendOffsetList(nil, nil)},
		{"V22 MultiFetch", "00000028 0000 0000001c 0000" + entry1 + "00000002 0001", 0, unhex(t, "0000001c 0000"+entry1+"00000002 0001")},
	} {
		frame := unhex(t, c.frame)
		if got := append(wire.AppendResponseHeader(nil, c.code, len(c.payload)), c.payload...); !bytes.Equal(got, frame) {
			t.Errorf("%s: wrote %x, want %x", c.name, got, frame)
		}
		code, n, err := wire.ParseResponseHeader(frame, len(c.payload))
		if code != c.code || n != len(c.payload) || err != nil {
			t.Errorf("%s: code %v, %d bytes, %v", c.name, code, n, err)
		}
		if n > 0 {
			if _, _, err := wire.ParseResponseHeader(frame, n-1); err == nil {
				t.Errorf("%s: accepted above the limit", c.name)
			}
		}
	}
	if got, err := wire.ParseOffsetList(unhex(t, "00000002 000000000000002a 0000000000000000")); err != nil || !reflect.DeepEqual(got, []int64{42, 0}) {
		t.Errorf("V19: %v, %v", got, err)
	}
	if got, err := wire.ParseOffsetList(unhex(t, "00000000")); err != nil || len(got) != 0 {
		t.Errorf("V20: %v, %v", got, err)
	}
	got, err := wire.ParseFetchResults(nil, unhex(t, "0000001c 0000"+entry1+"00000002 0001"), 2)
	if want := []wire.FetchResult{{Set: unhex(t, entry1)}, {Code: wire.CodeOffsetOutOfRange, Set: []byte{}}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("V22: %+v, %v", got, err)
	}
}

// The sizes that the protocol's description gives in terms of the topic.
func TestSizesOfRequests(t *testing.T) {
	for _, topic := range []string{"t", "topic", "tägliches"} {
		n := len(topic)
		set := make([]byte, 100)
		for name, c := range map[string][2]int{
			"Produce":      {len(wire.AppendProduce(nil, topic, 0, set)), 16 + n + 100},
			"header":       {wire.ProduceHeaderSize(topic), 16 + n},
			"AckedProduce": {len(wire.AppendAckedProduce(nil, topic, 0, set, 1, 1)), 22 + n + 100},
			"acked":        {wire.AckedProduceSize(topic), 22 + n},
			"Fetch":        {len(wire.AppendFetch(nil, wire.FetchEntry{Topic: topic})), 4 + 20 + n},
			"Offsets":      {len(wire.AppendOffsets(nil, topic, 0, 0, 0)), 4 + 20 + n},
		} {
			if c[0] != c[1] {
				t.Errorf("%s to %q: %d bytes, want %d", name, topic, c[0], c[1])
			}
		}
	}
}

func TestFrameSize(t *testing.T) {
	for _, c := range []struct {
		frame string
		want  int
		fails bool
	}{
		{"", 0, false},
		{"000000", 0, false},
		{"00000002", 6, false},
		{"00000064", 104, false},
		{"00000065", 0, true},
		{"00000001", 0, true},
		{"00000000", 0, true},
		{"ffffffff", 0, true},
		{"7fffffff", 0, true},
		{"80000000", 0, true},
	} {
		n, err := wire.FrameSize(unhex(t, c.frame), 2, 100)
		if n != c.want || (err != nil) != c.fails {
			t.Errorf("%q: %d, %v", c.frame, n, err)
		}
	}
}

func TestNamesOfTypesAndCodes(t *testing.T) {
	seen := map[string]bool{}
	for typ := wire.Type(-1); typ < 25; typ++ {
		known := typ >= 0 && typ <= 4 || typ >= 16 && typ <= 20
		if name := typ.String(); seen[name] || strings.HasPrefix(name, "type ") == known {
			t.Errorf("type %d is called %q", int16(typ), name)
		} else {
			seen[name] = true
		}
	}
	for code := wire.Code(-2); code < 25; code++ {
		known := code >= -1 && code <= 4 || code >= 16 && code <= 22
		if text := code.Error(); seen[text] || strings.HasPrefix(text, "error code ") == known {
			t.Errorf("code %d says %q", int16(code), text)
		} else {
			seen[text] = true
		}
		if err := code.Err(); (err == nil) != (code == 0) {
			t.Errorf("code %d as an error: %v", int16(code), err)
		}
	}
}

// What cannot be said in the protocol is a fault of the caller.
func TestLimitsOfRequests(t *testing.T) {
	for name, f := range map[string]func(){
		"topic":   func() { wire.AppendProduce(nil, strings.Repeat("x", math.MaxInt16+1), 0, nil) },
		"entries": func() { wire.AppendMultiFetch(nil, make([]wire.FetchEntry, wire.MaxCount+1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f()
		}()
	}
	if m, err := wire.ParseMultiFetch(nil, wire.AppendMultiFetch(nil, make([]wire.FetchEntry, wire.MaxCount))[6:]); err != nil || len(m.Fetches) != wire.MaxCount {
		t.Errorf("%d entries, %v", len(m.Fetches), err)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	buf := make([]byte, 0, 1000)
	set := make([]byte, 200)
	fetch := wire.AppendMultiFetch(nil, []wire.FetchEntry{{Topic: "topic"}, {Topic: "topic"}})[6:]
	multi := wire.AppendMultiProduce(nil, []wire.ProduceEntry{{Topic: "topic", Set: set}})[6:]
	acked := wire.AppendAckedProduce(nil, "topic", 0, set, 1, 1)[6:]
	results := wire.AppendResponseHeader(nil, 0, 0)
	fetches, produces := make([]wire.Fetch, 0, 8), make([]wire.Produce, 0, 8)
	sets := make([]wire.FetchResult, 0, 8)
	for name, f := range map[string]func(){
		"AppendProduce":      func() { wire.AppendProduce(buf, "topic", 0, set) },
		"AppendAckedProduce": func() { wire.AppendAckedProduce(buf, "topic", 0, set, 1, 1) },
		"AppendFetch":        func() { wire.AppendFetch(buf, wire.FetchEntry{Topic: "topic"}) },
		"header":             func() { wire.ParseResponseHeader(wire.AppendResponseHeader(buf, 0, 100), 100) },
		"ParseProduce":       func() { wire.ParseProduce(acked) },
		"ParseAckedProduce":  func() { wire.ParseAckedProduce(acked) },
		"ParseMultiFetch":    func() { wire.ParseMultiFetch(fetches, fetch) },
		"ParseMultiProduce":  func() { wire.ParseMultiProduce(produces, multi) },
		"ParseFetchResults":  func() { wire.ParseFetchResults(sets, results, 1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %.1f allocations", name, n)
		}
	}
}
