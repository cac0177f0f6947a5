package producer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/message"
)

// Whatever messages there are and whatever the limit is, what is packed holds
// them all, in order, in entries within the limit; it is refused only when a
// message is larger than the limit as it is and compressed.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var payloads []string
		var set []byte
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			payload := make([]byte, rapid.IntRange(0, 300).Draw(t, "bytes"))
			if rapid.Bool().Draw(t, "noise") {
				for i := range payload {
					payload[i] = byte(rnd.Uint32())
				}
			}
			payloads = append(payloads, string(payload))
			set = message.Append(set, payload)
		}
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		codec := rapid.SampledFrom([]message.Codec{message.CodecGzip, message.CodecSnappy}).Draw(t, "codec")
		p := &Producer{cfg: Config{Codec: codec, MaxMessageBytes: limit}}
		packed, err := p.pack(nil, set)
		if err != nil {
			if !errors.Is(err, ErrTooLarge) || !slices.ContainsFunc(payloads, func(s string) bool { return len(s) > limit }) {
				t.Fatal(err)
			}
			return
		}
		var got []string
		it := message.Set(packed).Iterate(0)
		for it.Next() {
			got = append(got, string(it.Message().Payload))
		}
		if !slices.Equal(got, payloads) || it.Err() != nil || it.ValidBytes() != len(packed) {
			t.Fatalf("%d messages of %d, %v", len(got), len(payloads), it.Err())
		}
		for it := message.Set(packed).IterateShallow(0); it.Next(); {
			if n := len(it.Message().Payload); n > limit {
				t.Fatalf("an entry of %d bytes, at most %d are allowed", n, limit)
			}
		}
		if c := countSet(packed); c.messages != int64(len(payloads)) || c.bytes != int64(len(set)) {
			t.Fatalf("%d messages of %d bytes are counted, want %d of %d", c.messages, c.bytes, len(payloads), len(set))
		}
	})
}
