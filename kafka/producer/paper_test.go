package producer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// The statements of the paper about a producer.

// TestPaperR02ASetInOneRequest: a producer can send many messages in one request,
// whatever bytes they are; the serialisation is the user's (NetDB'11 §3).
func TestPaperR02ASetInOneRequest(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}})
	payloads := [][]byte{[]byte("text"), {}, {0, 0xff, '\n', 0x80}, noise(10_000)}
	mustSend(t, p, "t", 0, payloads...)
	mustClose(t, p)
	if p.Stats().Requests != 1 || len(s.sets) != 1 {
		t.Fatalf("%d requests, %d sets", p.Stats().Requests, len(s.sets))
	}
	got := s.got("t-0")
	if len(got) != len(payloads) {
		t.Fatalf("%d messages, want %d", len(got), len(payloads))
	}
	for i, payload := range payloads {
		if got[i] != string(payload) {
			t.Errorf("payload %d is %.50q, want %.50q", i, got[i], payload)
		}
	}
}

// TestPaperR25NetworkErrorAfterProduce: the checksum of each message shows what
// the network has damaged on the way to the broker; the message is not stored,
// and who has asked for acknowledgements learns of it (NetDB'11 §3.3).
func TestPaperR25NetworkErrorAfterProduce(t *testing.T) {
	b := kafkatest.Start(t)
	line := kafkatest.NoisyLine(t, b.HostPort(), kafkatest.ToBroker, "damage me")
	p := newProducer(t, producer.Config{Brokers: []string{line}, Acks: producer.AcksFlushed})
	mustSend(t, p, "t", 0, []byte("sound"))
	if err := p.Send(testContext(t), "t", 0, []byte("good"), []byte("damage me")); !errors.Is(err, wire.CodeInvalidMessage) {
		t.Errorf("damaged on its way: %v", err)
	}
	mustSend(t, p, "t", 0, []byte("sound, too"))
	mustClose(t, p)

	// Without acknowledgements the broker can only hang up, and Flush counts what
	// is in doubt.
	p = newProducer(t, producer.Config{Brokers: []string{line}})
	mustSend(t, p, "t", 0, []byte("damage me"))
	var notSent *producer.NotSentError
	if err := p.Flush(testContext(t)); !errors.As(err, &notSent) || notSent.Messages != 1 {
		t.Errorf("damaged on its way, without acks: %v", err)
	}
	mustClose(t, p)
	if got, want := countLog(t, b.HostPort()), int64(2); got != want {
		t.Errorf("%d messages in the log, want %d", got, want)
	}
}

// countLog counts the visible messages of partition 0 of topic t.
func countLog(t *testing.T, addr string) (messages int64) {
	t.Helper()
	c, err := client.Dial(testContext(t), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for offset := int64(0); ; {
		set, err := c.Fetch(testContext(t), wire.FetchEntry{Topic: "t", Offset: offset, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(set) == 0 {
			return messages
		}
		it := set.Iterate(offset)
		for it.Next() {
			if it.Message().Codec() != message.CodecNone {
				t.Errorf("a compressed message at %d was not taken apart", it.Offset())
			}
			messages++
		}
		if it.Err() != nil || it.ValidBytes() == 0 {
			t.Fatalf("log at offset %d: %d bytes of messages, %v", offset, it.ValidBytes(), it.Err())
		}
		offset += int64(it.ValidBytes())
	}
}

// TestPaperR01AStreamForEachTopic: producers publish to topics, and brokers store the
// messages of each (NetDB'11 §3).
func TestPaperR01AStreamForEachTopic(t *testing.T) {
	brokers := []*kafkatest.Broker{kafkatest.Start(t), kafkatest.Start(t)}
	c := openCluster(t, producer.ClusterConfig{StaticBrokers: []string{brokers[0].HostPort(), brokers[1].HostPort()}})
	topics := []string{"clicks", "searches", "clicks.mobile"}
	const n = 100
	for i := range n {
		for _, topic := range topics {
			mustPublish(t, c, topic, nil, fmt.Appendf(nil, "%s %d", topic, i))
		}
	}
	mustEnd(t, c)
	for _, topic := range topics {
		var got []string
		for _, b := range brokers {
			got = append(got, payloadsOf(t, b.HostPort(), topic, 0)...)
		}
		for _, payload := range got {
			if !strings.HasPrefix(payload, topic+" ") {
				t.Errorf("%s holds %q", topic, payload)
			}
		}
		if len(got) != n {
			t.Errorf("%s has %d messages, want %d", topic, len(got), n)
		}
	}
}

// TestPaperR05ManyProducersPartitionsAndBrokers: a topic has several partitions, each
// broker stores some of them, and many producers publish at once (NetDB'11 §3).
func TestPaperR05ManyProducersPartitionsAndBrokers(t *testing.T) {
	f := newFleet(t)
	counts := []int32{3, 2}
	var brokers []*kafkatest.Broker
	for i, n := range counts {
		b := kafkatest.Start(t, partitions(n), func(c *broker.Config) { c.Storage.FlushMessages = 1000 })
		brokers = append(brokers, b)
		f.enter(int32(i), b.HostPort(), map[string]int32{"t": n})
	}
	const producers, n = 5, 400
	var senders sync.WaitGroup
	for i := range producers {
		c := f.open(producer.Config{Async: i%2 == 0, QueueInterval: 10 * time.Millisecond})
		senders.Go(func() {
			for k := range n {
				if err := c.Send(testContext(t), "t", nil, fmt.Appendf(nil, "%d of %d", k, i)); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	seen := map[string]bool{}
	for i, b := range brokers {
		b.Restart() // so that everything is visible
		for p := range counts[i] {
			got := payloadsOf(t, b.HostPort(), "t", p)
			for _, payload := range got {
				seen[payload] = true
			}
			// Of 2,000 messages 400 are expected, and the deviation is 18.
			if len(got) < 250 || len(got) > 550 {
				t.Errorf("partition %d-%d has %d of %d messages", i, p, len(got), producers*n)
			}
		}
	}
	if len(seen) != producers*n {
		t.Errorf("%d messages arrived, want %d", len(seen), producers*n)
	}
}

// TestPaperR16PartitionByChanceOrByKey: a message goes to a partition that is chosen
// at random, or by a key and a function that the user may give (NetDB'11 §3.2).
func TestPaperR16PartitionByChanceOrByKey(t *testing.T) {
	f := newFleet(t)
	a, b := newSink(t, nil), newSink(t, nil)
	// By number, broker 2 comes before broker 10.
	f.enter(10, b.addr, map[string]int32{"t": 1})
	f.enter(2, a.addr, map[string]int32{"t": 3})
	list := []struct {
		s   *sink
		key string
	}{{a, "t-0"}, {a, "t-1"}, {a, "t-2"}, {b, "t-0"}}
	total := func() (n int) {
		for _, l := range list {
			n += len(l.s.got(l.key))
		}
		return n
	}
	t.Run("at random", func(t *testing.T) {
		c := f.open(producer.Config{})
		before := make([]int, len(list))
		for i, l := range list {
			before[i] = len(l.s.got(l.key))
		}
		for range 2000 {
			mustPublish(t, c, "t", nil, []byte("x"))
		}
		mustEnd(t, c)
		for i, l := range list {
			// 500 are expected, and the deviation is 19.
			if n := len(l.s.got(l.key)) - before[i]; n < 350 || n > 650 {
				t.Errorf("partition %d of 4 got %d of 2000 messages", i, n)
			}
		}
	})
	t.Run("by key", func(t *testing.T) {
		c := f.open(producer.Config{})
		// Java's hashes of these are 106079 and -868034334.
		for key, index := range map[string]int{"key": 106079 % 4, "topic1": 868034334 % 4} {
			l := list[index]
			before := len(l.s.got(l.key))
			for range 50 {
				mustPublish(t, c, "t", []byte(key), []byte(key))
			}
			if err := c.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if n := len(l.s.got(l.key)) - before; n != 50 {
				t.Errorf("key %s: %d of 50 messages are in partition %d of 4", key, n, index)
			}
		}
		mustEnd(t, c)
	})
	t.Run("by a function of the user", func(t *testing.T) {
		c := openCluster(t, producer.ClusterConfig{Registry: f.registry, Partitioner: byLength{}})
		before, all := len(b.got("t-0")), total()
		for range 50 {
			mustPublish(t, c, "t", []byte("7 bytes"), []byte("x"))
		}
		mustEnd(t, c)
		if n := len(b.got("t-0")) - before; n != 50 || total()-all != 50 {
			t.Errorf("%d of 50 messages are in the last partition", n)
		}
	})
}

type byLength struct{}

func (byLength) Partition(_ string, key []byte, n int) int { return len(key) % n }

// TestPaperR27BehindALoadBalancer: front ends publish in batches to one plain address
// behind which a load balancer deals connections to several brokers. Each broker gets
// a share from each producer, and when one stops the others get everything
// (NetDB'11 §4).
func TestPaperR27BehindALoadBalancer(t *testing.T) {
	for _, acks := range []producer.Acks{producer.AcksNone, producer.AcksFlushed} {
		t.Run(acks.String(), func(t *testing.T) {
			brokers := []*kafkatest.Broker{kafkatest.Start(t), kafkatest.Start(t)}
			balancer := startBalancer(t, brokers)
			c := openCluster(t, producer.ClusterConfig{
				Config:        producer.Config{Async: true, BatchMessages: 10, QueueInterval: time.Hour, Acks: acks, ReconnectRequests: 5},
				StaticBrokers: []string{balancer},
			})
			var l ledger
			publish := func() {
				for i := range 400 {
					_ = l.send(testContext(t), c, nil, []byte("payload"))
					if i%50 == 49 {
						l.report(c.Flush(testContext(t)))
					}
				}
			}
			publish()
			for i, b := range brokers {
				if n := visible(t, b); n < 50 {
					t.Errorf("broker %d has %d of 400 messages: stats %+v", i, n, c.Stats())
				}
			}
			if l.failed.Load() != 0 {
				t.Errorf("%d messages failed though nothing did", l.failed.Load())
			}
			brokers[0].Stop()
			publish()
			failed := l.failed.Load()
			publish()
			if got := l.failed.Load() - failed; got != 0 {
				t.Errorf("%d messages failed with one broker", got)
			}
			brokers[0].Restart()
			before := visible(t, brokers[0])
			publish()
			if n := visible(t, brokers[0]) - before; n < 50 {
				t.Errorf("the broker that is back has %d of 400 messages", n)
			}
			l.report(c.Close(testContext(t)))
			l.check(t, c, inLogs(t, brokers...))
		})
	}
}
