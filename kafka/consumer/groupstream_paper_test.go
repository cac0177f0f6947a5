package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
)

// The statements of the paper about the streams of a group, as far as they do not
// need more than one member.

// TestPaperR03GroupStreamNeverEndsAndBlocks: each of a consumer's streams gives one
// message after the other of what is its share, and makes the application wait when
// there is none (NetDB'11 §3).
func TestPaperR03GroupStreamNeverEndsAndBlocks(t *testing.T) {
	const partitions, streams, n = 6, 3, 50
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.DefaultPartitions = partitions })
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed})
	if err != nil {
		t.Fatal(err)
	}
	send := func(from, n int) {
		for i := from; i < from+n; i++ {
			for partition := range int32(partitions) {
				if err := p.Send(testContext(t), "t", partition, numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var group [streams]*consumer.GroupStream
	for i := range group {
		group[i] = consumer.NewGroupStream()
		for j := range partitions / streams {
			startFeed(t, group[i], b.HostPort(), 0, func(c *consumer.FeedConfig) { c.Partition = int32(i*partitions/streams + j) })
		}
	}
	var got [partitions]int
	for round := range 2 {
		send(round*n, n)
		for i, s := range group {
			for range n * partitions / streams {
				m := next(t, s)
				if int(m.Partition)*streams/partitions != i || string(m.Payload) != string(numbered(got[m.Partition])) {
					t.Errorf("stream %d: %q of partition %d, want number %d", i, m.Payload, m.Partition, got[m.Partition])
				}
				got[m.Partition]++
			}
			if m, err := s.Next(endedAfter(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stream %d at its end: %q, %v", i, m.Payload, err)
			}
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// TestPaperR09GroupOffsetAcknowledgesAllBefore: consumption is sequential within
// each partition, and what a group would write down acknowledges all before it and
// nothing that the application may still be handling (NetDB'11 §3.1).
func TestPaperR09GroupOffsetAcknowledgesAllBefore(t *testing.T) {
	b := paperLog(t, 300)
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, b.HostPort(), 0, fetchBytes(1000))
	for range 120 {
		if m := next(t, s); feed.Consumed() != m.Offset {
			t.Fatalf("with the message at %d in hand, consumed up to %d", m.Offset, feed.Consumed())
		}
	}
	stopFeed(t, feed)
	again := consumer.NewGroupStream()
	startFeed(t, again, b.HostPort(), 0, func(c *consumer.FeedConfig) { c.Start = feed.Consumed() })
	for i := 119; i < 300; i++ {
		if m := next(t, again); string(m.Payload) != string(numbered(i)) {
			t.Fatalf("%q, want number %d", m.Payload, i)
		}
	}
}

// TestPaperR11GroupPullsFetchManyMessages: the iterator of a group, too, hands out
// one message at a time, while each pull fetches hundreds of kilobytes
// (NetDB'11 §3.1).
func TestPaperR11GroupPullsFetchManyMessages(t *testing.T) {
	const n = 20_000 // some 430 kB
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, paperLog(t, n).HostPort(), 0, nil)
	for range n {
		next(t, s)
	}
	if st := feed.Stats(); st.Fetches > 6 {
		t.Errorf("%d pulls for %d messages (%d bytes)", st.Fetches, st.Messages, st.Bytes)
	}
}

// TestPaperR15GroupRewind: an application whose sink loses what it has not flushed
// goes back to the smallest offset that is not flushed, in one partition of its
// stream, and consumes that again; the others go on (NetDB'11 §3.1).
func TestPaperR15GroupRewind(t *testing.T) {
	const n = 1000
	s := consumer.NewGroupStream()
	var feeds [2]*consumer.Feed
	for i := range feeds {
		feeds[i] = startFeed(t, s, paperLog(t, n).HostPort(), int32(i), func(c *consumer.FeedConfig) {
			c.FetchBytes, c.MaxWait = 500, time.Minute // longer than the test may take
		})
	}
	var sink [2][]string
	var flushed [2]int // messages of the sink that are safe
	var checkpoint [2]int64
	for lost := 0; len(sink[0]) < n || len(sink[1]) < n; {
		m := next(t, s)
		i := m.Broker
		sink[i] = append(sink[i], string(m.Payload))
		if len(sink[i])%100 == 0 {
			flushed[i], checkpoint[i] = len(sink[i]), m.NextOffset
		}
		if lost < 5 && len(sink[i])%150 == 149 {
			lost++
			sink[i] = sink[i][:flushed[i]]
			feeds[i].SeekTo(checkpoint[i])
		}
	}
	for i := range sink {
		for j, payload := range sink[i] {
			if payload != string(numbered(j)) {
				t.Fatalf("partition %d: message %d of the sink is %q", i, j, payload)
			}
		}
	}
	// Also from the ends of the logs, where the brokers hold requests back.
	if m, err := s.Next(endedAfter(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("at the end: %q, %v", m.Payload, err)
	}
	feeds[1].SeekTo(0)
	for i := range n {
		if m := next(t, s); m.Broker != 1 || string(m.Payload) != string(numbered(i)) {
			t.Fatalf("%q of partition %d, want number %d of 1", m.Payload, m.Broker, i)
		}
	}
}

// TestPaperR24GroupOrderInAPartition: what comes out of one stream is, partition by
// partition, in the order in which it was sent, whatever comes of others in between
// (NetDB'11 §3.3).
func TestPaperR24GroupOrderInAPartition(t *testing.T) {
	const partitions, n = 5, 2000
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.DefaultPartitions = partitions })
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Async: true, BatchMessages: 7})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := p.Send(testContext(t), "t", int32(i%partitions), fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	s := consumer.NewGroupStream()
	want := [partitions]int{}
	for i := range want {
		want[i] = i
		startFeed(t, s, b.HostPort(), 0, func(c *consumer.FeedConfig) { c.Partition, c.FetchBytes = int32(i), 300 })
	}
	for range n {
		m := next(t, s)
		if string(m.Payload) != fmt.Sprint(want[m.Partition]) {
			t.Fatalf("partition %d: %q, want %d", m.Partition, m.Payload, want[m.Partition])
		}
		want[m.Partition] += partitions
	}
}
