package consumer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// A log of many small segments, read while it grows: ranges come short at the
// end of every segment and of the log, and nothing is lost, doubled or torn.
func TestSmallSegmentsAndAGrowingLog(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	sizes := make([]int, 5000)
	for i := range sizes {
		sizes[i] = 8 + rng.IntN(300)
		if i%1000 == 500 {
			sizes[i] = 20_000 // larger than a fetch, and than a segment
		}
	}
	payload := func(i int) []byte {
		p := make([]byte, sizes[i])
		for j := range p {
			p[j] = byte(i + j)
		}
		binary.BigEndian.PutUint64(p, uint64(i))
		return p
	}
	for _, sendfile := range []bool{true, false} {
		t.Run(fmt.Sprintf("sendfile %v", sendfile), func(t *testing.T) {
			b := kafkatest.Start(t, func(c *broker.Config) {
				c.Storage.SegmentBytes = 10_000
				c.Storage.FlushMessages = 10
				c.Storage.FlushInterval = 2 * time.Millisecond
				c.Sendfile = sendfile
			})
			p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}})
			if err != nil {
				t.Fatal(err)
			}
			produced := make(chan error, 1)
			go func() {
				for i := range sizes {
					if err := p.Send(testContext(t), "t", 0, payload(i)); err != nil {
						produced <- err
						return
					}
					if i%500 == 0 { // let the reader reach the end of the log
						if err := p.Flush(testContext(t)); err != nil {
							produced <- err
							return
						}
					}
				}
				produced <- p.Close(testContext(t))
			}()
			s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.FetchBytes = 1500 })
			end := expect(t, s, 0, len(sizes), payload, 0)
			if err := <-produced; err != nil {
				t.Fatal(err)
			}
			t.Logf("while it grew: %+v", s.Stats())

			// Once more, now that there is always enough to be asked for ahead.
			s = open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start, c.FetchBytes = consumer.Earliest, 700 })
			if got := expect(t, s, 0, len(sizes), payload, 0); got != end {
				t.Errorf("end at %d, then at %d", end, got)
			}
			t.Logf("at rest: %+v", s.Stats())
			if s.Stats().Discarded == 0 {
				t.Error("no range that was asked for ahead came after a short one: this test does not test that")
			}
		})
	}
}

// Chunks hold the same messages as the iterator gives, in the same order.
func TestNextChunk(t *testing.T) {
	const n = 5000
	b := kafkatest.Start(t)
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := p.Send(testContext(t), "t", 0, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.FetchBytes = 10_000 })
	at := expect(t, s, 0, 7, numbered, 0)
	for i := 7; i < n; {
		if s.ConsumedOffset() > at {
			t.Fatalf("consumed offset %d is beyond %d", s.ConsumedOffset(), at)
		}
		it, err := s.NextChunk(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if s.ConsumedOffset() != at {
			t.Fatalf("consumed offset %d, want %d", s.ConsumedOffset(), at)
		}
		for ; it.Next(); i++ {
			if it.Offset() != at || string(it.Message().Payload) != string(numbered(i)) {
				t.Fatalf("message %d: %q at %d, want offset %d", i, it.Message().Payload, it.Offset(), at)
			}
			at = it.NextOffset()
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if st := s.Stats(); st.Messages != n || st.Bytes != at {
		t.Errorf("stats %+v", st)
	}
}

func TestStartAtTheEnds(t *testing.T) {
	b := kafkatest.Start(t)
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed})
	if err != nil {
		t.Fatal(err)
	}
	send := func(i int) {
		if err := p.Send(testContext(t), "t", 0, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	send(0)
	size := int64(message.EntrySize(len(numbered(0))))
	latest := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start = consumer.Latest })
	earliest := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start = consumer.Earliest })
	if o := latest.ConsumedOffset(); o != size {
		t.Errorf("latest starts at %d, want %d", o, size)
	}
	send(1)
	expect(t, latest, 1, 1, numbered, size)
	expect(t, earliest, 0, 2, numbered, 0)
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// A stream outlives a restart of its broker.
func TestBrokerRestart(t *testing.T) {
	b := kafkatest.Start(t)
	send := func(from, n int) {
		p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed})
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < from+n; i++ {
			if err := p.Send(testContext(t), "t", 0, numbered(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 10)
	s := open(t, b.HostPort(), nil)
	at := expect(t, s, 0, 10, numbered, 0)
	b.Restart()
	send(10, 10)
	expect(t, s, 10, 10, numbered, at)
}

// The topic is deleted while the stream holds the first part of a message, and
// made anew: that is no damage, and the stream goes on as it is told to.
func TestTopicDeletedInTheMiddleOfAMessage(t *testing.T) {
	b := kafkatest.Start(t)
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksFlushed})
	if err != nil {
		t.Fatal(err)
	}
	send := func(payload string) {
		if err := p.Send(testContext(t), "t", 0, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		send("a message of the old topic")
	}
	s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.FetchBytes = 50 }) // a message and a half
	if _, err := s.Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.DeleteTopic(testContext(t), "t"), conn.Close()); err != nil {
		t.Fatal(err)
	}
	// Until it has seen that nothing is there any more.
	fetches := s.Stats().Fetches
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		defer cancel()
		await(t, "fetches of what is gone", func() bool { return s.Stats().Fetches >= fetches+4 })
	}()
	for err = nil; err == nil; {
		_, err = s.Next(ctx)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("after the deletion: %v", err)
	}
	send("new")
	m, err := s.Next(testContext(t))
	if err != nil || string(m.Payload) != "new" || m.Offset != 0 {
		t.Errorf("%q at offset %d, %v; want the first message of the new topic", m.Payload, m.Offset, err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// TestB09CommittedOffsets: a consumer comes back with an offset that retention
// has overtaken, or with one of a topic that was made anew since. Each policy does
// what it says, once (fault B09, against a broker).
func TestB09CommittedOffsets(t *testing.T) {
	for _, beyond := range []bool{false, true} {
		for _, reset := range []consumer.Reset{consumer.ResetSmallest, consumer.ResetLargest, consumer.ResetFail} {
			t.Run(fmt.Sprintf("beyond %v, %v", beyond, reset), func(t *testing.T) {
				b := kafkatest.Start(t, func(c *broker.Config) {
					c.Storage.SegmentBytes, c.Storage.RetentionBytes = 1000, 2000
					c.Storage.CleanupInterval = time.Millisecond
				})
				conn, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				send := func(from, n int) {
					for i := from; i < from+n; i++ {
						if _, err := conn.AckedProduce(testContext(t), "t", 0, encode(i, 1, numbered), wire.AcksFlushed, time.Minute); err != nil {
							t.Fatal(err)
						}
					}
				}
				state := func() wire.TopicState {
					states, err := conn.Topics(testContext(t), "t")
					if err != nil {
						t.Fatal(err)
					}
					return states[0]
				}
				send(0, 300)
				committed := int64(0)
				if beyond {
					committed = state().Watermark
					if err := conn.DeleteTopic(testContext(t), "t"); err != nil {
						t.Fatal(err)
					}
					send(0, 10)
				} else {
					await(t, "retention", func() bool { st := state(); return st.First > 0 && st.Bytes < 3000 })
				}
				at := state()
				s := open(t, b.HostPort(), func(c *consumer.PartitionConfig) { c.Start, c.Reset = committed, reset })
				switch reset {
				case consumer.ResetFail:
					for range 3 {
						if _, err := s.Next(testContext(t)); !errors.Is(err, wire.CodeOffsetOutOfRange) {
							t.Errorf("error %v", err)
						}
					}
					if st := s.Stats(); st.Fetches != 1 || st.Resets != 0 {
						t.Errorf("stats %+v", st)
					}
					return
				case consumer.ResetLargest:
					var sending sync.WaitGroup
					defer sending.Wait() // before its connection is closed
					sending.Go(func() {
						await(t, "the reset", func() bool { return s.Stats().Resets > 0 })
						if _, err := conn.AckedProduce(testContext(t), "t", 0, encode(300, 1, numbered), wire.AcksFlushed, time.Minute); err != nil {
							t.Error(err)
						}
					})
				}
				want := at.First
				if reset == consumer.ResetLargest {
					want = at.Watermark
				}
				m, err := s.Next(testContext(t))
				if err != nil || m.Offset != want {
					t.Errorf("first message at %d, %v; want %d of %+v", m.Offset, err, want, at)
				}
				if st := s.Stats(); st.Resets != 1 || st.SkippedBytes != max(want-committed, 0) {
					t.Errorf("stats %+v", st)
				}
			})
		}
	}
}
