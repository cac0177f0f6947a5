package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/storage"
)

// BenchmarkConsume reads a log of 200-byte messages from a broker in this
// process; an operation is one message.
func BenchmarkConsume(b *testing.B) {
	const n = 500_000
	srv := kafkatest.Start(b, func(c *broker.Config) {
		c.Storage.FlushMessages = 0
		c.Storage.FlushInterval = time.Second
	})
	ctx := context.Background()
	p, err := producer.New(ctx, producer.Config{Brokers: []string{srv.HostPort()}})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 200)
	for range n {
		if err := p.Send(ctx, "t", 0, payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		b.Fatal(err)
	}
	run := func(b *testing.B, fetchBytes int, read func(*consumer.Stream) (int, error)) {
		s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: srv.HostPort(), Topic: "t", FetchBytes: fetchBytes})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		// The whole log is visible once its last message is.
		if err := s.SeekTo((n - 1) * 209); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
		if err := s.SeekTo(0); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(209)
		b.ReportAllocs()
		b.ResetTimer()
		for i, inLog := 0, 0; i < b.N; {
			got, err := read(s)
			if err != nil {
				b.Fatal(err)
			}
			i += got
			if inLog += got; inLog >= n {
				inLog = 0
				if err := s.SeekTo(0); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	next := func(s *consumer.Stream) (int, error) {
		_, err := s.Next(ctx)
		return 1, err
	}
	chunk := func(s *consumer.Stream) (int, error) {
		it, err := s.NextChunk(ctx)
		got := 0
		for it.Next() {
			got++
		}
		if err == nil {
			err = it.Err()
		}
		return got, err
	}
	b.Run("next/200K", func(b *testing.B) { run(b, 200<<10, next) })
	b.Run("chunk/200K", func(b *testing.B) { run(b, 200<<10, chunk) })
	b.Run("chunk/1M", func(b *testing.B) { run(b, 1<<20, chunk) })
}

// BenchmarkEndToEnd sends messages of 200 bytes through a broker in this process and
// receives them at the same time; an operation is one message, from the call of
// Send to the return of Next.
func BenchmarkEndToEnd(b *testing.B) {
	for _, batch := range []int{1, 50} {
		b.Run(fmt.Sprintf("batch %d", batch), func(b *testing.B) {
			srv := kafkatest.Start(b, func(c *broker.Config) {
				c.Storage.FlushMessages, c.Storage.Visible = 0, storage.VisibleAppended
				c.Storage.SegmentBytes, c.Storage.RetentionBytes, c.Storage.CleanupInterval = 64<<20, 1<<30, time.Second
			})
			ctx := context.Background()
			p, err := producer.New(ctx, producer.Config{Brokers: []string{srv.HostPort()}})
			if err != nil {
				b.Fatal(err)
			}
			s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: srv.HostPort(), Topic: "t", Reset: consumer.ResetFail})
			if err != nil {
				b.Fatal(err)
			}
			payloads := make([][]byte, batch)
			for i := range payloads {
				payloads[i] = make([]byte, 200)
			}
			n := (b.N + batch - 1) / batch * batch
			b.SetBytes(209)
			b.ReportAllocs()
			b.ResetTimer()
			var sending sync.WaitGroup
			sending.Go(func() {
				for range n / batch {
					if err := p.Send(ctx, "t", 0, payloads...); err != nil {
						b.Error(err)
						return
					}
				}
				if err := p.Close(ctx); err != nil {
					b.Error(err)
				}
			})
			for range n {
				if _, err := s.Next(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			sending.Wait()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
