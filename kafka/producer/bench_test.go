package producer_test

import (
	"context"
	"io"
	"net"
	"testing"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// drain accepts connections and throws away what they send.
func drain(t testing.TB) (addr string) {
	return kafkatest.Peer(t, func(nc net.Conn) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{nc}, make([]byte, 1<<20))
	})
}

// sendCosts runs f on a producer whose connection swallows everything.
func sendCosts(t testing.TB, cfg producer.Config, f func(p *producer.Producer)) {
	cfg.Brokers = []string{drain(t)}
	p, err := producer.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f(p)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody answers, so there is nothing to wait for
	_ = p.Close(ctx)
}

func TestSendAllocatesNothingPerMessage(t *testing.T) {
	payload := make([]byte, 200)
	batch := make([][]byte, 50)
	for i := range batch {
		batch[i] = payload
	}
	for name, cfg := range map[string]producer.Config{"sync": {}, "async": {Async: true}, "async snappy": {Async: true, Codec: message.CodecSnappy}} {
		sendCosts(t, cfg, func(p *producer.Producer) {
			send := func() {
				for range 1000 {
					if err := p.Send(context.Background(), "topic", 0, payload); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.Send(context.Background(), "topic", 0, batch...); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				send() // the buffers grow to their size
			}
			// The few that are left come from waiting for a full buffer.
			if n := testing.AllocsPerRun(50, send); n > 20 {
				t.Errorf("%s: %.0f allocations for 1050 messages", name, n)
			}
		})
	}
}

func BenchmarkSend(b *testing.B) {
	payload := make([]byte, 200)
	for name, cfg := range map[string]producer.Config{
		"sync1": {}, "async200": {Async: true}, "noCoalesce1": {NoCoalesce: true},
		"asyncGzip200": {Async: true, Codec: message.CodecGzip}, "asyncSnappy200": {Async: true, Codec: message.CodecSnappy},
	} {
		b.Run(name, func(b *testing.B) {
			sendCosts(b, cfg, func(p *producer.Producer) {
				b.ReportAllocs()
				b.SetBytes(int64(wire.ProduceHeaderSize("topic") + 209))
				for b.Loop() {
					if err := p.Send(context.Background(), "topic", 0, payload); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
	b.Run("sync50", func(b *testing.B) {
		batch := make([][]byte, 50)
		for i := range batch {
			batch[i] = payload
		}
		sendCosts(b, producer.Config{}, func(p *producer.Producer) {
			b.SetBytes(int64(wire.ProduceHeaderSize("topic") + 50*209))
			for b.Loop() {
				if err := p.Send(context.Background(), "topic", 0, batch...); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
