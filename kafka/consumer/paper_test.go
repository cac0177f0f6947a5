package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
)

// The statements of the paper about a consumer of one partition.

func paperLog(t *testing.T, n int) *kafkatest.Broker {
	b := kafkatest.Start(t)
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 100 {
		payloads := make([][]byte, 100)
		for j := range payloads {
			payloads[j] = numbered(i + j)
		}
		if err := p.Send(testContext(t), "t", 0, payloads...); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return b
}

// NetDB'11 §3 (R3): a stream is an iterator that never ends and blocks when
// there is nothing.
func TestPaperStreamNeverEndsAndBlocks(t *testing.T) {
	s := open(t, paperLog(t, 100).HostPort(), nil)
	expect(t, s, 0, 100, numbered, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if m, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end: %v, %v", m, err)
	}
}

// NetDB'11 §3.1 (R8): a message is addressed by its offset in the log; offsets
// grow and are not consecutive; the next one is this one and the length of the
// message.
func TestPaperNextOffsetIsOffsetAndLength(t *testing.T) {
	b := paperLog(t, 300)
	s := open(t, b.HostPort(), nil)
	offset := int64(0)
	offsets := make([]int64, 300)
	for i := range offsets {
		m, err := s.Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Offset != offset || m.NextOffset != m.Offset+4+1+4+int64(len(m.Payload)) {
			t.Fatalf("message %d at %d, next %d", i, m.Offset, m.NextOffset)
		}
		offset, offsets[i] = m.NextOffset, m.Offset
	}
	// The offset is all that it takes to find a message again.
	for _, i := range []int{299, 0, 150} {
		s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start = offsets[i] })
		expect(t, s, i, 1, numbered, offsets[i])
	}
}

// NetDB'11 §3.1 (R9): consumption is sequential, and acknowledging an offset
// means that all messages before it have been received.
func TestPaperOffsetAcknowledgesAllBefore(t *testing.T) {
	b := paperLog(t, 100)
	s := open(t, b.HostPort(), nil)
	for i := range 50 {
		before := s.ConsumedOffset()
		m, err := s.Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		// Holding message i, the application has acknowledged those before it.
		if s.ConsumedOffset() != m.Offset || before > m.Offset {
			t.Fatalf("message %d at %d: acknowledged %d, before that %d", i, m.Offset, s.ConsumedOffset(), before)
		}
	}
	// So whoever goes on from there gets message 49 again, and misses none.
	next := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start = s.ConsumedOffset() })
	expect(t, next, 49, 51, numbered, s.ConsumedOffset())
}

// NetDB'11 §3.1 (R9): pulling is asynchronous: a buffer is made ready ahead of
// use. While the application holds the first message of a pull, the request for
// the bytes behind it has already been sent.
func TestPaperPullsAreAsynchronous(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1000, numbered) })
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = 1000 })
	expect(t, s, 0, 1, numbered, 0)
	await(t, "a request behind the first, which holds 50 messages", func() bool { return len(f.asked()) >= 2 })
	if r := f.asked()[1]; r.offset != 1000 {
		t.Errorf("the second request begins at %d", r.offset)
	}
}

// NetDB'11 §3.1 (R11): the iterator hands out one message at a time, but each
// pull fetches many, typically hundreds of kilobytes.
func TestPaperOnePullFetchesManyMessages(t *testing.T) {
	const n = 20_000 // some 430 kB
	s := open(t, paperLog(t, n).HostPort(), nil)
	expect(t, s, 0, n, numbered, 0)
	if st := s.Stats(); st.Fetches > 6 {
		t.Errorf("%d pulls for %d messages (%d bytes)", st.Fetches, st.Messages, st.Bytes)
	}
}

// NetDB'11 §3.1 (R15): a consumer can deliberately go back to an old offset and
// consume again.
func TestPaperRewind(t *testing.T) {
	s := open(t, paperLog(t, 1000).HostPort(), func(c *consumer.PartitionConfig) {
		c.FetchBytes, c.MaxWait = 500, time.Minute // longer than the test may take
	})
	var checkpoint int64
	for i := range 700 {
		at := expect(t, s, i, 1, numbered, s.ConsumedOffset()+sizeBefore(i))
		if i == 299 {
			checkpoint = at // what the application's own sink has flushed
		}
	}
	for range 3 {
		if err := s.SeekTo(checkpoint); err != nil {
			t.Fatal(err)
		}
		expect(t, s, 300, 700, numbered, checkpoint)
	}
	// Also from the end of the log, where the broker holds a request back.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("at the end: %v", err)
	}
	if err := s.SeekTo(0); err != nil {
		t.Fatal(err)
	}
	expect(t, s, 0, 1000, numbered, 0)
}

// sizeBefore returns the size of the message before number i, which a stream
// counts as consumed only when number i is asked for.
func sizeBefore(i int) int64 {
	if i == 0 {
		return 0
	}
	return int64(9 + len(numbered(i-1)))
}
