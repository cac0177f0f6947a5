package consumer_test

import (
	"context"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
)

// BenchmarkGroupStream reads logs of 200-byte messages from a broker in this
// process through a stream of a group, beside the stream of one partition; an
// operation is one message. The lease is one comparison with the clock.
func BenchmarkGroupStream(b *testing.B) {
	const n, partitions = 200_000, 4
	srv := kafkatest.Start(b, func(c *broker.Config) {
		c.Storage.FlushMessages = 0
		c.Storage.FlushInterval = time.Second
		c.Storage.DefaultPartitions = partitions
	})
	ctx := context.Background()
	p, err := producer.New(ctx, producer.Config{Brokers: []string{srv.HostPort()}})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 200)
	for i := range n * partitions {
		if err := p.Send(ctx, "t", int32(i%partitions), payload); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		b.Fatal(err)
	}
	for partition := range int32(partitions) { // all of it is visible
		s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: srv.HostPort(), Topic: "t", Partition: partition, Start: (n - 1) * 209})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("partition", func(b *testing.B) {
		s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: srv.HostPort(), Topic: "t"})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		b.SetBytes(209)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%n == 0 {
				if err := s.SeekTo(0); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := s.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	group := func(b *testing.B, from int, read func(*consumer.GroupStream) int) {
		s := consumer.NewGroupStream()
		started := time.Now()
		var feeds []*consumer.Feed
		for partition := range int32(from) {
			f := consumer.NewFeed(consumer.FeedConfig{
				PartitionConfig: consumer.PartitionConfig{Broker: srv.HostPort(), Topic: "t", Partition: partition},
				Lease:           func() bool { return time.Since(started) < time.Hour },
			}, s)
			defer f.Stop(ctx)
			feeds = append(feeds, f)
		}
		b.SetBytes(209)
		b.ReportAllocs()
		b.ResetTimer()
		for i, inLog := 0, 0; i < b.N; {
			got := read(s)
			i += got
			if inLog += got; inLog >= n*from {
				inLog = 0
				for _, f := range feeds {
					f.SeekTo(0)
				}
			}
		}
	}
	next := func(s *consumer.GroupStream) int {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
		return 1
	}
	chunk := func(s *consumer.GroupStream) int {
		c, err := s.NextChunk(ctx)
		got := 0
		for c.Next() {
			got++
		}
		if err != nil || c.Err() != nil {
			b.Fatal(err, c.Err())
		}
		return got
	}
	b.Run("group/1", func(b *testing.B) { group(b, 1, next) })
	b.Run("group/4", func(b *testing.B) { group(b, partitions, next) })
	b.Run("group/4/chunk", func(b *testing.B) { group(b, partitions, chunk) })
}
