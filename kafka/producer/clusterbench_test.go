package producer_test

import (
	"context"
	"testing"

	"kafkalab/kafka/producer"
)

// clusterCosts runs f on a cluster of two brokers, with four partitions each, that
// swallow everything.
func clusterCosts(t *testing.T, cfg producer.Config, f func(c *producer.Cluster)) {
	fl := newFleet(t)
	for id := range int32(2) {
		fl.enter(id, drain(t), map[string]int32{"topic": 4})
	}
	c := fl.open(cfg)
	f(c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody answers, so there is nothing to wait for
	_ = c.Close(ctx)
}

func TestClusterSendAllocatesNothingPerMessage(t *testing.T) {
	payload, key := make([]byte, 200), []byte("some key")
	for name, cfg := range map[string]producer.Config{"sync": {}, "async": {Async: true}} {
		clusterCosts(t, cfg, func(c *producer.Cluster) {
			send := func() {
				for range 500 {
					if err := c.Send(context.Background(), "topic", nil, payload); err != nil {
						t.Fatal(err)
					}
					if err := c.Send(context.Background(), "topic", key, payload); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 40 {
				send() // the buffers grow to their size
			}
			// The few that are left come from waiting for a full buffer.
			if n := testing.AllocsPerRun(50, send); n > 40 {
				t.Errorf("%s: %.0f allocations for 1000 messages", name, n)
			}
		})
	}
}

func BenchmarkClusterSend(b *testing.B) {
	payload := make([]byte, 200)
	for name, cfg := range map[string]producer.Config{"sync": {}, "async": {Async: true}} {
		b.Run(name, func(b *testing.B) {
			c, err := producer.OpenCluster(context.Background(), producer.ClusterConfig{Config: cfg, StaticBrokers: []string{drain(b), drain(b)}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if err := c.Send(context.Background(), "topic", nil, payload); err != nil {
					b.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = c.Close(ctx)
		})
	}
}
