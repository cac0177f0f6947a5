package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
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

// TestPaperR03StreamNeverEndsAndBlocks: a stream is an iterator that never ends
// and blocks when there is nothing (NetDB'11 §3).
func TestPaperR03StreamNeverEndsAndBlocks(t *testing.T) {
	s := open(t, paperLog(t, 100).HostPort(), nil)
	expect(t, s, 0, 100, numbered, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if m, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end: %v, %v", m, err)
	}
}

// TestPaperR08NextOffsetIsOffsetAndLength: a message is addressed by its offset in
// the log; offsets grow and are not consecutive; the next one is this one and the
// length of the message (NetDB'11 §3.1).
func TestPaperR08NextOffsetIsOffsetAndLength(t *testing.T) {
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

// TestPaperR09OffsetAcknowledgesAllBefore: consumption is sequential, and
// acknowledging an offset means that all messages before it have been received
// (NetDB'11 §3.1).
func TestPaperR09OffsetAcknowledgesAllBefore(t *testing.T) {
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

// TestPaperR09PullsAreAsynchronous: a buffer is made ready ahead of use. While the
// application holds the first message of a pull, the request for the bytes behind
// it has already been sent (NetDB'11 §3.1).
func TestPaperR09PullsAreAsynchronous(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1000, numbered) })
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = 1000 })
	expect(t, s, 0, 1, numbered, 0)
	await(t, "a request behind the first, which holds 50 messages", func() bool { return len(f.asked()) >= 2 })
	if r := f.asked()[1]; r.offset != 1000 {
		t.Errorf("the second request begins at %d", r.offset)
	}
}

// TestPaperR11OnePullFetchesManyMessages: the iterator hands out one message at a
// time, but each pull fetches many, typically hundreds of kilobytes
// (NetDB'11 §3.1).
func TestPaperR11OnePullFetchesManyMessages(t *testing.T) {
	const n = 20_000 // some 430 kB
	s := open(t, paperLog(t, n).HostPort(), nil)
	expect(t, s, 0, n, numbered, 0)
	if st := s.Stats(); st.Fetches > 6 {
		t.Errorf("%d pulls for %d messages (%d bytes)", st.Fetches, st.Messages, st.Bytes)
	}
}

// TestPaperR15Rewind: a consumer can deliberately go back to an old offset and
// consume again, such as to the smallest that its own sink has not flushed
// (NetDB'11 §3.1).
func TestPaperR15Rewind(t *testing.T) {
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

// TestPaperR23AtLeastOnce: consumers that crash are followed by others, each of
// which starts at the last offset that was committed. Every message is handled;
// what is handled again are those behind that offset, and nothing is as long as
// all end well (NetDB'11 §3.3).
func TestPaperR23AtLeastOnce(t *testing.T) {
	const n = 2000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	addr := paperLog(t, n).HostPort()
	for _, crashes := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(seed, 0))
		handled := make([]int, n)
		var committed int64 // what a registry of offsets would hold
		next, end, repeats, again := 0, 0, 0, 0
		for end < n {
			s := open(t, addr, func(c *consumer.PartitionConfig) { c.Start, c.FetchBytes = committed, 1000 })
			for range 1 + rng.IntN(300) {
				m, err := s.Next(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				if string(m.Payload) != string(numbered(next)) {
					t.Fatalf("message %q, want number %d", m.Payload, next)
				}
				handled[next]++
				if next++; next == n {
					break
				}
				if crashes && rng.IntN(100) == 0 {
					// The message in hand is handled, but nobody has said so.
					committed, again = s.ConsumedOffset(), next-1
				}
			}
			end = max(end, next)
			if !crashes || end == n {
				committed, again = committed+int64(len(encode(again, next-again, numbered))), next
			}
			repeats += next - again
			next = again
		}
		total := 0
		for i, times := range handled {
			if total += times; times == 0 {
				t.Errorf("crashes %v: message %d was not handled", crashes, i)
			}
		}
		if total != n+repeats || crashes != (repeats > 0) {
			t.Errorf("crashes %v: %d handled, %d of them again, as %d were not committed", crashes, total, total-n, repeats)
		}
	}
}

// TestPaperR24OrderInAPartition: whatever several producers send at once to
// several partitions, each consumer gets what a producer has sent to a partition
// in the order in which it was sent (NetDB'11 §3.3).
func TestPaperR24OrderInAPartition(t *testing.T) {
	const producers, partitions, n = 4, 3, 2000
	b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.DefaultPartitions = partitions })
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Async: i%2 == 0, BatchMessages: 7})
			if err != nil {
				t.Error(err)
				return
			}
			for j := range n {
				if err := p.Send(testContext(t), "t", int32(j%partitions), fmt.Appendf(nil, "%d %d", i, j)); err != nil {
					t.Error(err)
					break
				}
			}
			if err := p.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	for partition := range partitions {
		for range 2 { // two that know nothing of each other get the same
			all.Go(func() {
				s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Partition, c.FetchBytes = int32(partition), 1000 })
				want := [producers]int{}
				for i := range want {
					want[i] = partition
				}
				for missing := producers * ((n - partition + partitions - 1) / partitions); missing > 0; missing-- {
					m, err := s.Next(testContext(t))
					if err != nil {
						t.Error(err)
						return
					}
					var i, j int
					if _, err := fmt.Sscan(string(m.Payload), &i, &j); err != nil || i < 0 || i >= producers || j != want[i] {
						t.Errorf("partition %d: message %q, %v; want those of the producers %d", partition, m.Payload, err, want)
						return
					}
					want[i] += partitions
				}
			})
		}
	}
	all.Wait()
}

// TestPaperR25NetworkErrorAfterConsume: the checksum of each message shows what
// the network has damaged on the way from the broker: it is not handed out, and as
// the log is sound, another try over a better line gets it (NetDB'11 §3.3).
func TestPaperR25NetworkErrorAfterConsume(t *testing.T) {
	b := paperLog(t, 100)
	line := kafkatest.NoisyLine(t, b.HostPort(), kafkatest.ToClient, "age 50") // message 50
	s := open(t, line, nil)
	at := expect(t, s, 0, 50, numbered, 0)
	for range 2 {
		_, err := s.Next(testContext(t))
		var corrupt *message.CorruptError
		if !errors.Is(err, message.ErrCRC) || !errors.As(err, &corrupt) || corrupt.Offset != at {
			t.Errorf("damaged on its way, at %d: %v", at, err)
		}
	}
	sound := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start = s.ConsumedOffset() })
	expect(t, sound, 50, 50, numbered, at)
}

// TestPaperR26BrokerDown: while a broker is down, what has not been consumed of it
// cannot be had, and what others hold can; when it is back, so is all of that. What
// was on a disk that is destroyed is lost, and the consumer is told so
// (NetDB'11 §3.3).
func TestPaperR26BrokerDown(t *testing.T) {
	down, other := paperLog(t, 200), paperLog(t, 200)
	s := open(t, down.HostPort(), func(c *consumer.PartitionConfig) { c.FetchBytes, c.Reset = 1000, consumer.ResetFail })
	beside := open(t, other.HostPort(), func(c *consumer.PartitionConfig) { c.FetchBytes = 1000 })
	at := expect(t, s, 0, 10, numbered, 0)
	atOther := expect(t, beside, 0, 10, numbered, 0)
	down.Stop()

	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	consumed := 10
	go func() {
		for { // what was fetched ahead before
			m, err := s.Next(ctx)
			if err != nil {
				ended <- err
				return
			}
			if string(m.Payload) != string(numbered(consumed)) {
				t.Errorf("message %q, want number %d", m.Payload, consumed)
			}
			consumed, at = consumed+1, m.NextOffset
		}
	}()
	expect(t, beside, 10, 190, numbered, atOther)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || consumed == 200 {
		t.Fatalf("with the broker down %d messages were consumed, then %v", consumed, err)
	}

	down.Restart()
	expect(t, s, consumed, 200-consumed, numbered, at)

	down.Config.LogDir = t.TempDir()
	down.Restart()
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{down.HostPort()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Send(testContext(t), "t", 0, []byte("new")), p.Close(testContext(t))); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Next(testContext(t)); !errors.Is(err, wire.CodeOffsetOutOfRange) {
		t.Errorf("with an empty disk: %q at offset %d, %v", m.Payload, m.Offset, err)
	}
}
