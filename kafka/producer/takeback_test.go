package producer

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/message"
)

// Whatever was sent, what is taken back is all of it, in its order for each topic
// and key; and what is not of the selection stays.
func TestTakeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, err := Config{
			Brokers: []string{"nobody:1"}, Async: rapid.Bool().Draw(t, "async"), BatchMessages: 3,
			Acks:  rapid.SampledFrom([]Acks{AcksNone, AcksAppended}).Draw(t, "acks"),
			Codec: rapid.SampledFrom([]message.Codec{message.CodecNone, message.CodecSnappy}).Draw(t, "codec"),
		}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.writesInSend() {
			cfg.Acks = AcksNone
		}
		p := newProducer(cfg, &member{cluster: &Cluster{}})
		defer p.cancel()
		want := map[string][]string{}
		sent, keyed := 0, int64(0)
		for i := range rapid.IntRange(0, 40).Draw(t, "sends") {
			r := room{ctx: t.Context(), routing: routing{topic: &topicRoute{}}}
			topic := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
			if r.keyed = rapid.Bool().Draw(t, "keyed"); r.keyed {
				r.key = []byte(rapid.SampledFrom([]string{"", "k", "another key"}).Draw(t, "key"))
			}
			name := fmt.Sprintf("%s %v %q", topic, r.keyed, r.key)
			var payloads [][]byte
			for k := range rapid.IntRange(1, 5).Draw(t, "payloads") {
				payload := fmt.Sprintf("%d.%d", i, k)
				payloads = append(payloads, []byte(payload))
				want[name] = append(want[name], payload)
			}
			if _, err := p.sendRouted(&r, topic, 0, payloads); err != nil {
				t.Fatal(err)
			}
			if sent += len(payloads); r.keyed {
				keyed += int64(len(payloads))
			}
		}
		got, n := map[string][]string{}, 0
		take := func(of selection) {
			for _, pc := range p.takeUnwritten(of) {
				name := fmt.Sprintf("%s %v %q", pc.topic, pc.keyed, pc.key)
				for _, payload := range pc.payloads {
					got[name] = append(got[name], string(payload))
					n++
				}
			}
		}
		take(func(_ []byte, keyed bool) bool { return !keyed })
		if p.held() != keyed || int64(n) != int64(sent)-keyed {
			t.Fatalf("%d messages are held, %d taken, of %d with keys and %d in all", p.held(), n, keyed, sent)
		}
		take(everything)
		if p.held() != 0 || p.movedOut != int64(sent) || p.openBytes != 0 || len(p.fill.b) != 0 {
			t.Fatalf("%d messages are held, %d have moved, %d bytes are open, %d in the buffer", p.held(), p.movedOut, p.openBytes, len(p.fill.b))
		}
		for name, payloads := range want {
			if !slices.Equal(got[name], payloads) {
				t.Fatalf("%s: %q, want %q", name, got[name], payloads)
			}
		}
	})
}
