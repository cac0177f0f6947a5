package message_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/message"
)

// drawSet draws a set of entries of both magics, with the position behind each.
func drawSet(t *rapid.T) (set []byte, payloads [][]byte, ends []int) {
	payloads = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 50), 0, 20).Draw(t, "payloads")
	for _, p := range payloads {
		if rapid.Bool().Draw(t, "magic 1") {
			set = message.Append1(set, p, message.CodecNone)
		} else {
			set = message.Append(set, p)
		}
		ends = append(ends, len(set))
	}
	return set, payloads, ends
}

// A set that is cut anywhere gives exactly its complete entries, each at its
// offset, and the rest is left.
func TestCutSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, payloads, ends := drawSet(t)
		base := rapid.Int64Range(0, 1<<60).Draw(t, "base")
		cut := rapid.IntRange(0, len(set)).Draw(t, "cut")
		it := message.Set(set[:cut]).Iterate(base)
		start, n := 0, 0
		for ; it.Next(); n++ {
			if it.Offset() != base+int64(start) || it.NextOffset() != base+int64(ends[n]) || !bytes.Equal(it.Message().Payload, payloads[n]) {
				t.Fatalf("entry %d: offset %d, next %d, payload %x", n, it.Offset(), it.NextOffset(), it.Message().Payload)
			}
			if it.Message().Size() != ends[n]-start {
				t.Fatalf("entry %d: size %d, want %d", n, it.Message().Size(), ends[n]-start)
			}
			start = ends[n]
		}
		if it.Err() != nil || it.ValidBytes() != start || !bytes.Equal(it.Rest(), set[start:cut]) {
			t.Fatalf("%d valid bytes of %d, %v", it.ValidBytes(), cut, it.Err())
		}
		if n < len(ends) && ends[n] <= cut {
			t.Fatalf("entry %d is complete and was not given", n)
		}
		valid, messages, err := message.Check(set[:cut], message.Limits{})
		if incomplete := n == 0 && cut > 0; incomplete != errors.Is(err, message.ErrIncomplete) {
			t.Fatalf("check: %v", err)
		}
		if valid != start || messages != n {
			t.Fatalf("check: %d bytes, %d messages; want %d, %d", valid, messages, start, n)
		}
	})
}

// A flipped bit outside the attributes is found, or turns the length into one
// that the set does not hold; entries before it are not touched by it.
func TestFlippedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, payloads, ends := drawSet(t)
		if len(set) == 0 {
			return
		}
		bit := rapid.IntRange(0, 8*len(set)-1).Draw(t, "bit")
		hit := 0
		for ends[hit] <= bit/8 {
			hit++
		}
		start := 0
		if hit > 0 {
			start = ends[hit-1]
		}
		if set[start+4] == message.Magic1 && bit/8 == start+5 {
			return // the attributes are in no checksum
		}
		set[bit/8] ^= 1 << (bit % 8)
		it := message.Set(set).Iterate(0)
		n := 0
		for ; it.Next(); n++ {
			if n >= hit {
				// A longer or shorter entry has another checksum, but for a
				// chance of 2^-32.
				t.Fatalf("entry %d was given, damaged in bit %d", n, bit)
			}
			if !bytes.Equal(it.Message().Payload, payloads[n]) {
				t.Fatalf("entry %d has changed", n)
			}
		}
		if n != hit {
			t.Fatalf("%d entries before the damage, want %d", n, hit)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{v1, v2, v3, v4, second, v24, "00000005 02 00000000", "7fffffff", "ffffffff"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, size, err := message.Parse(b)
		peeked, peekErr := message.Peek(b)
		switch {
		case err != nil && size != 0, size < 0, size > len(b):
			t.Fatalf("size %d of %d bytes, %v", size, len(b), err)
		case err == nil && peekErr != nil:
			t.Fatalf("parsed what cannot be peeked at: %v", peekErr)
		case size > 0:
			if peeked != size || m.Size() != size {
				t.Fatalf("sizes %d, %d, %d", size, peeked, m.Size())
			}
			again := message.Append(nil, m.Payload)
			if m.Magic == message.Magic1 {
				again = message.Append1(nil, m.Payload, message.Codec(m.Attributes))
			}
			if !bytes.Equal(again, b[:size]) {
				t.Fatalf("%x read and written is %x", b[:size], again)
			}
		}
	})
}

func FuzzCheckTopic(f *testing.F) {
	f.Add("t")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, name string) {
		if message.CheckTopic(name) == nil && (name == "" || len(name) > message.MaxTopicLength || strings.ContainsAny(name, "/\x00\n") || name == "." || name == "..") {
			t.Fatalf("%q is legal", name)
		}
	})
}
