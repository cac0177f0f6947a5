package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Whatever the partitions are and the order in which they are sent to, empty batches
// keep little memory for them, and no message is lost over that.
func TestEmptyBatchesKeepLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, err := Config{
			Brokers: []string{"nobody:1"}, Async: true, BatchMessages: rapid.IntRange(1, 20).Draw(t, "batch"),
			MaxBufferBytes: 4000, QueueFull: QueueError,
		}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		p := newProducer(cfg, nil)
		defer p.cancel()
		want, got := map[string][]string{}, map[string][]string{}
		drain := func() { // as the writer does
			appendFrames(got, p.fill.b)
			p.fill.reset(cfg.MaxBufferBytes)
			p.closeFull()
		}
		most := rapid.SampledFrom([]int{3, 60, 2000}).Draw(t, "partitions")
		for i := range rapid.IntRange(1, 300).Draw(t, "sends") {
			partition, size := rapid.IntRange(0, most).Draw(t, "partition"), rapid.IntRange(1, 900).Draw(t, "size")
			name := fmt.Sprintf("t-%d", partition)
			for k := range rapid.IntRange(1, 6).Draw(t, "messages") {
				payload := fmt.Sprintf("%d.%d%*s", i, k, size, "")
				err := p.Send(t.Context(), "t", int32(partition), []byte(payload))
				for ; errors.Is(err, ErrQueueFull); err = p.Send(t.Context(), "t", int32(partition), []byte(payload)) {
					drain()
				}
				if err != nil {
					t.Fatal(err)
				}
				want[name] = append(want[name], payload)
			}
			open, kept, empty := 0, 0, 0
			for _, b := range p.batches {
				if open += b.size(); b.messages == 0 {
					kept += p.large(b)
					empty += b.memory()
				}
			}
			if most := (keptBuffers*smallPart + len(p.batches)) * cfg.MaxBufferBytes / smallPart; empty > most {
				t.Fatalf("%d batches, of which the empty ones keep %d bytes; at most %d may be kept", len(p.batches), empty, most)
			}
			if open != p.openBytes || kept != p.kept || kept > keptBuffers*cfg.MaxBufferBytes {
				t.Fatalf("%d bytes are open and %d kept, by its own count %d and %d, and at most %d may be kept",
					open, kept, p.openBytes, p.kept, keptBuffers*cfg.MaxBufferBytes)
			}
		}
		for p.closeAll(); p.openBytes > 0; p.closeAll() {
			drain()
		}
		drain()
		for name, payloads := range want {
			if !slices.Equal(got[name], payloads) {
				t.Fatalf("%s got %d messages, not the %d that were sent in their order", name, len(got[name]), len(payloads))
			}
		}
	})
}

// Batches to a thousand partitions in turn, one open at a time, make no garbage, though
// all of them together keep more than the large ones may.
func TestManyBatchesAllocateNothing(t *testing.T) {
	cfg, err := Config{Brokers: []string{"nobody:1"}, Async: true, BatchMessages: 50, QueueFull: QueueError}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := newProducer(cfg, nil)
	defer p.cancel()
	payload, ctx := make([]byte, 200), context.Background()
	round := func() {
		for partition := range int32(1000) {
			for range cfg.BatchMessages {
				if err := p.Send(ctx, "t", partition, payload); err != nil {
					t.Fatal(err)
				}
			}
			if p.fill.frames > 10 { // as the writer does
				p.fill.reset(cfg.MaxBufferBytes)
			}
		}
	}
	round()
	if allocs := testing.AllocsPerRun(3, round); allocs > 10 {
		t.Errorf("%v allocations for 1000 batches", allocs)
	}
	kept := 0
	for _, b := range p.batches {
		kept += b.memory()
	}
	if kept <= keptBuffers*cfg.MaxBufferBytes {
		t.Errorf("%d bytes are kept: too little to be a test", kept)
	}
}

// appendFrames takes a buffer of requests apart.
func appendFrames(to map[string][]string, b []byte) {
	for ; len(b) > 0; b = b[frameSize(b):] {
		_, body, _ := wire.SplitRequest(b[wire.SizeSize:frameSize(b)])
		req, _ := wire.ParseProduce(body)
		name := fmt.Sprintf("%s-%d", req.Topic, req.Partition)
		it := message.Set(req.Set).Iterate(0)
		for it.Next() {
			to[name] = append(to[name], string(it.Message().Payload))
		}
	}
}
