package envelope_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kafkalab/kafka/envelope"
)

var example = envelope.Header{
	Time:     time.UnixMilli(1795955696789).UTC(), // 2026-11-29 12:34:56.789
	Server:   "front7",
	Producer: envelope.ProducerID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10},
	Sequence: 258,
}

// The layout is a promise to all that is stored already: these bytes do not change.
func TestGoldenBytes(t *testing.T) {
	got := hex.EncodeToString(envelope.Append(nil, example, []byte("hello")))
	want := "4b4c41" + "01" + "000001a2274d2495" + "0123456789abcdeffedcba9876543210" + "0000000000000102" + "06" + "66726f6e7437" + "68656c6c6f"
	if got != want {
		t.Errorf("envelope\n%s, want\n%s", got, want)
	}
	if got, want := hex.EncodeToString(envelope.AppendSchema(nil, 0x01020304, []byte("avro"))), "00"+"01020304"+"6176726f"; got != want {
		t.Errorf("payload with a schema %s, want %s", got, want)
	}
}

func drawHeader(t *rapid.T) envelope.Header {
	name := rapid.StringMatching(`[a-zäß日.\-]{1,60}`).Draw(t, "server")
	h := envelope.Header{
		Time:     time.UnixMilli(rapid.Int64Range(0, envelope.MaxTime.UnixMilli()).Draw(t, "time")).UTC(),
		Server:   name,
		Sequence: rapid.Uint64Min(1).Draw(t, "sequence"),
	}
	copy(h.Producer[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "producer"))
	h.Producer[3] |= 1
	return h
}

// What was put into an envelope comes out of it again, by either way of opening, and
// what stood before it in the buffer is left alone.
func TestRoundTrip(t *testing.T) {
	var opener envelope.Opener
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeader(t)
		body := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body")
		before := []byte("before")
		b := envelope.Append(before, h, body)
		payload, ok := bytes.CutPrefix(b, before)
		if !ok || len(payload) != envelope.Size(h, len(body)) || len(payload)-len(body) > envelope.MaxHeaderSize {
			t.Fatalf("%x: %d bytes, want %d", b, len(payload), envelope.Size(h, len(body)))
		}
		for _, open := range []func([]byte) (envelope.Header, []byte, error){envelope.Open, opener.Open} {
			got, gotBody, err := open(payload)
			if err != nil || got != h || !bytes.Equal(gotBody, body) {
				t.Fatalf("opened %+v, body %x, %v; want %+v, %x", got, gotBody, err, h, body)
			}
			if len(body) > 0 && &gotBody[0] != &payload[len(payload)-len(body)] {
				t.Fatal("the body is a copy")
			}
		}
	})
}

// Fractions of a millisecond, and the zone, are not carried.
func TestTimeIsInMilliseconds(t *testing.T) {
	h := example
	h.Time = example.Time.Add(999 * time.Microsecond).In(time.FixedZone("east", 3600))
	got, _, err := envelope.Open(envelope.Append(nil, h, nil))
	if err != nil || got != example {
		t.Errorf("opened %+v, %v; want %+v", got, err, example)
	}
}

// A payload that is cut anywhere behind its magic is malformed, and one that is cut
// before is no envelope; neither is ever read past its end.
func TestCutAnywhere(t *testing.T) {
	whole := envelope.Append(nil, example, nil)
	for n := range whole {
		_, body, err := envelope.Open(whole[:n:n])
		var malformed *envelope.MalformedError
		if body != nil || errors.Is(err, envelope.ErrNotEnvelope) != (n < 3) || errors.As(err, &malformed) != (n >= 3) {
			t.Errorf("cut at %d: body %x, %v", n, body, err)
		}
	}
	framed := envelope.AppendSchema(nil, 7, nil)
	for n := range framed {
		_, _, err := envelope.OpenSchema(framed[:n:n])
		var malformed *envelope.MalformedError
		if errors.Is(err, envelope.ErrNotEnvelope) != (n == 0) || errors.As(err, &malformed) != (n > 0) {
			t.Errorf("schema cut at %d: %v", n, err)
		}
	}
}

// What only looks like an envelope is an error that names the field, is short
// however long the payload is, and keeps nothing of it.
func TestMalformed(t *testing.T) {
	good := envelope.Append(nil, example, bytes.Repeat([]byte("secret"), 100_000))
	change := func(at int, bytes ...byte) []byte {
		b := append([]byte(nil), good...)
		copy(b[at:], bytes)
		return b
	}
	zero := make([]byte, 16)
	for _, c := range []struct {
		field   string
		payload []byte
	}{
		{"version", change(3, 2)},
		{"time", change(4, 0xff)}, // before 1970
		{"time", change(4, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)}, // in 292 million years
		{"producer", change(12, zero...)},
		{"sequence", change(28, zero[:8]...)},
		{"server", change(36, 0)},
		{"server", change(37, 0xc3)},       // half a character
		{"server", change(37, '\n')},       // would break a table
		{"server", change(37, 0xc2, 0x85)}, // a control character of two bytes
		{"server", good[:38]},
		{"server", append(good[:36:36], 255, 'a', 'b')},
	} {
		for _, open := range []func([]byte) (envelope.Header, []byte, error){envelope.Open, new(envelope.Opener).Open} {
			h, body, err := open(c.payload)
			var malformed *envelope.MalformedError
			if !errors.As(err, &malformed) || malformed.Field != c.field || malformed.Size != len(c.payload) {
				t.Errorf("%s: %v", c.field, err)
				continue
			}
			if h != (envelope.Header{}) || body != nil {
				t.Errorf("%s: %+v with a body of %d bytes came beside the error", c.field, h, len(body))
			}
			if text := err.Error(); len(text) > 200 || strings.Contains(text, "secret") {
				t.Errorf("%s: error of %d bytes: %.300s", c.field, len(text), text)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*envelope.Header){
		"time before 1970":    func(h *envelope.Header) { h.Time = time.Time{} },
		"time after 9999":     func(h *envelope.Header) { h.Time = envelope.MaxTime.Add(time.Millisecond) },
		"no producer":         func(h *envelope.Header) { h.Producer = envelope.ProducerID{} },
		"no sequence":         func(h *envelope.Header) { h.Sequence = 0 },
		"no server":           func(h *envelope.Header) { h.Server = "" },
		"long server":         func(h *envelope.Header) { h.Server = strings.Repeat("s", envelope.MaxServerLength+1) },
		"server not UTF-8":    func(h *envelope.Header) { h.Server = "\xff" },
		"server over 2 lines": func(h *envelope.Header) { h.Server = "a\nb" },
	} {
		h := example
		change(&h)
		if h.Check() == nil {
			t.Errorf("%s passes", name)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Append has made an envelope that Open refuses", name)
				}
			}()
			envelope.Append(nil, h, nil)
		}()
	}
	for _, server := range []string{"s", strings.Repeat("s", envelope.MaxServerLength), "日本", "\ufffd"} {
		h := example
		h.Server, h.Time = server, envelope.MaxTime
		if got, _, err := envelope.Open(envelope.Append(nil, h, nil)); err != nil || got != h {
			t.Errorf("server %q: opened %+v, %v", server, got, err)
		}
	}
}

func TestProducerID(t *testing.T) {
	a, b := envelope.NewProducerID(), envelope.NewProducerID()
	if a == b || a == (envelope.ProducerID{}) {
		t.Errorf("ids %v and %v", a, b)
	}
	text, err := json.Marshal(map[envelope.ProducerID]envelope.ProducerID{a: b})
	if err != nil {
		t.Fatal(err)
	}
	var back map[envelope.ProducerID]envelope.ProducerID
	if err := json.Unmarshal(text, &back); err != nil || back[a] != b || len(back) != 1 {
		t.Errorf("%s read as %v, %v", text, back, err)
	}
	for _, bad := range []string{"", a.String() + "00", strings.Repeat("x", 32)} {
		if err := new(envelope.ProducerID).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Opening is on the path of each message.
func TestOpenAllocatesNothing(t *testing.T) {
	var opener envelope.Opener
	other := example
	other.Server = "front8"
	payloads := [][]byte{envelope.Append(nil, example, []byte("hello")), envelope.Append(nil, other, []byte("hello"))}
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		for _, p := range payloads {
			if _, _, err := opener.Open(p); err != nil {
				t.Fatal(err)
			}
		}
		dst = envelope.Append(dst[:0], example, payloads[1])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An Opener gives the right name also past what it remembers.
func TestOpenerIsBounded(t *testing.T) {
	var opener envelope.Opener
	for i := range 10_000 {
		h := example
		h.Server = "server" + strings.Repeat("x", i%7) + time.Duration(i).String()
		if got, _, err := opener.Open(envelope.Append(nil, h, nil)); err != nil || got != h {
			t.Fatalf("opened %+v, %v; want %+v", got, err, h)
		}
	}
}

// Whatever the bytes, opening gives an error or a header that makes the same bytes
// again.
func FuzzOpen(f *testing.F) {
	f.Add(envelope.Append(nil, example, []byte("hello")))
	f.Add([]byte("KLA\x01"))
	f.Add(append(envelope.Append(nil, example, nil)[:36], 255))
	var opener envelope.Opener
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, body, err := envelope.Open(payload)
		again, _, err2 := opener.Open(payload)
		if (err == nil) != (err2 == nil) || again != h {
			t.Fatalf("Open %+v, %v; Opener %+v, %v", h, err, again, err2)
		}
		if err != nil {
			if len(err.Error()) > 200 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if back := envelope.Append(nil, h, body); !bytes.Equal(back, payload) {
			t.Fatalf("%x became %x", payload, back)
		}
	})
}

func FuzzOpenSchema(f *testing.F) {
	f.Add(envelope.AppendSchema(nil, 1, []byte{2, 3}))
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		id, avro, err := envelope.OpenSchema(payload)
		if err != nil {
			return
		}
		if back := envelope.AppendSchema(nil, id, avro); !bytes.Equal(back, payload) {
			t.Fatalf("%x became %x", payload, back)
		}
	})
}
