package producer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
)

func partitions(n int32) kafkatest.Option {
	return func(c *broker.Config) { c.Storage.DefaultPartitions = n }
}

func TestClusterArguments(t *testing.T) {
	s := newSink(t, nil)
	r := &registry.Registry{}
	for name, cfg := range map[string]producer.ClusterConfig{
		"no source":   {},
		"two sources": {StaticBrokers: []string{s.addr}, Registry: r},
		"brokers":     {StaticBrokers: []string{s.addr}, Config: producer.Config{Brokers: []string{s.addr}}},
		"partitioner": {StaticBrokers: []string{s.addr}, Partitioner: producer.HashPartitioner{}},
		"twice":       {StaticBrokers: []string{s.addr, s.addr}},
		"limit":       {StaticBrokers: []string{s.addr}, Config: producer.Config{MaxBufferBytes: -1}},
		"zookeeper":   {ZooKeeper: coord.Config{Servers: "/"}},
		"nobody":      {StaticBrokers: []string{closedAddr(t), closedAddr(t)}},
	} {
		if c, err := producer.OpenCluster(testContext(t), cfg); err == nil {
			t.Errorf("%s: accepted", name)
			_ = c.Close(testContext(t))
		}
	}
	c := openCluster(t, producer.ClusterConfig{StaticBrokers: []string{s.addr}})
	if err := c.Send(testContext(t), "a/b", nil, []byte("x")); err == nil {
		t.Error("topic a/b accepted")
	}
	mustPublish(t, c, "t", nil)
	mustPublish(t, c, "t", []byte("keys are ignored"), []byte("x"))
	mustEnd(t, c)
	if err := c.Send(testContext(t), "t", nil, []byte("x")); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	if err := c.Flush(testContext(t)); !errors.Is(err, producer.ErrClosed) {
		t.Errorf("flush after close: %v", err)
	}
	mustEnd(t, c)
	st := c.Stats()
	if balanced(t, st); st.Sent != 3 || st.Delivered != 1 || st.Failed != 2 || st.Pending != 0 {
		t.Errorf("stats %+v", st)
	}
}

// A cluster with a session of its own finds brokers that register themselves, and
// their partitions, which the first message makes.
func TestClusterFindsBrokers(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		start := func(id int32) *kafkatest.Broker {
			return kafkatest.Start(t, partitions(3), func(c *broker.Config) {
				c.ID, c.ZooKeeper.Servers = id, zk.Connect()
			})
		}
		first := start(1)
		c := openCluster(t, producer.ClusterConfig{ZooKeeper: coord.Config{Servers: zk.Connect()}})
		brokers := []*kafkatest.Broker{first, start(2)}
		await(t, "the second broker", func() bool { return c.Stats().Brokers == 2 })
		sent := 0
		await(t, "messages in all six partitions", func() bool {
			for range 20 {
				sent++
				mustPublish(t, c, "t", nil, fmt.Appendf(nil, "message %d", sent))
			}
			if err := c.Flush(testContext(t)); err != nil {
				t.Fatal(err)
			}
			for _, b := range brokers {
				for p := range int32(3) {
					if len(payloadsOf(t, b.HostPort(), "t", p)) == 0 {
						return false
					}
				}
			}
			return true
		})
		// One goes cleanly: what it was sent is confirmed, and the other one goes on.
		first.Stop()
		var lost *producer.NotSentError
		await(t, "the end of the first", func() bool {
			sent++
			if err := c.Send(testContext(t), "t", nil, []byte("x")); err != nil && !errors.As(err, &lost) {
				t.Fatal(err)
			}
			return c.Stats().Brokers == 1
		})
		if err := c.Close(testContext(t)); err != nil && !errors.As(err, &lost) {
			t.Fatal(err)
		}
		if st := c.Stats(); st.Sent != int64(sent) || st.Pending != 0 || st.Sent != st.Delivered+st.Failed {
			t.Errorf("%d sent: stats %+v", sent, st)
		}
	})
}

// Of a topic that no broker has, partition 0 of every broker is assumed, until they
// have registered it.
func TestClusterNewTopic(t *testing.T) {
	f := newFleet(t)
	a, b := newSink(t, nil), newSink(t, nil)
	f.enter(1, a.addr, nil)
	f.enter(2, b.addr, nil)
	c := f.open(producer.Config{})
	for _, s := range []*sink{a, b} {
		await(t, "a message", func() bool {
			mustPublish(t, c, "t", nil, []byte("x"))
			return len(s.got("t-0")) > 0
		})
	}
	f.enterTopic(2, "t", 2)
	await(t, "a message in the second partition", func() bool {
		mustPublish(t, c, "t", nil, []byte("x"))
		return len(b.got("t-1")) > 0
	})
	// Broker 1 does not have the topic.
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	before := len(a.got("t-0"))
	for range 50 {
		mustPublish(t, c, "t", nil, []byte("x"))
	}
	mustEnd(t, c)
	if got := len(a.got("t-0")) - before; got != 0 {
		t.Errorf("%d messages went to a broker that does not have the topic", got)
	}
}

// A broker that has a partition and is not registered itself is looked for again,
// and then named.
func TestClusterMissingBroker(t *testing.T) {
	f := newFleet(t)
	s := newSink(t, nil)
	f.entries[7] = f.connect()
	f.enterTopic(7, "t", 1)
	c := f.open(producer.Config{})
	var missing *producer.NoBrokerError
	if err := c.Send(testContext(t), "t", nil, []byte("x")); !errors.As(err, &missing) || missing.Broker != 7 || !strings.Contains(err.Error(), "broker 7") {
		t.Errorf("without broker 7: %v", err)
	}
	if err := f.entries[7].Close(); err != nil {
		t.Fatal(err)
	}
	f.enter(7, s.addr, map[string]int32{"t": 1})
	await(t, "broker 7", func() bool { return c.Send(testContext(t), "t", []byte("key"), []byte("y")) == nil })
	mustEnd(t, c)
	if got := s.got("t-0"); !slices.Equal(got, []string{"y"}) {
		t.Errorf("messages %q", got)
	}
	balanced(t, c.Stats())
}

// Messages with keys that wait for a broker go to the partitions that are chosen
// for them when it has gone, in their order, and new ones do not overtake them.
func TestClusterKeysFollow(t *testing.T) {
	for _, cfg := range []producer.Config{
		{}, {Codec: message.CodecSnappy}, {Async: true, BatchMessages: 7}, {Async: true, BatchMessages: 1000},
		{Async: true, BatchMessages: 7, Acks: producer.AcksAppended}, {Async: true, BatchMessages: 7, Codec: message.CodecGzip},
	} {
		t.Run(fmt.Sprintf("async %v %d acks %v codec %v", cfg.Async, cfg.BatchMessages, cfg.Acks, cfg.Codec), func(t *testing.T) {
			f := newFleet(t)
			s := newSink(t, nil)
			f.enter(0, closedAddr(t), map[string]int32{"t": 1})
			f.enter(1, s.addr, map[string]int32{"t": 2})
			c := f.open(cfg)
			hash := producer.HashPartitioner{}
			var want, free []string
			key := []byte("a")
			for i := byte(0); hash.Partition("t", key, 3) != 0; i++ {
				key = []byte{'a' + i}
			}
			for i := range 200 {
				want = append(want, fmt.Sprintf("message %d", i))
				mustPublish(t, c, "t", key, []byte(want[i]))
				free = append(free, fmt.Sprintf("free %d", i))
				mustPublish(t, c, "t", nil, []byte(free[i]))
			}
			f.leave(0)
			for i := range 200 {
				want = append(want, fmt.Sprintf("message %d", 200+i))
				mustPublish(t, c, "t", key, []byte(want[200+i]))
			}
			mustEnd(t, c)
			chosen := fmt.Sprintf("t-%d", hash.Partition("t", key, 2))
			var got, others []string
			for _, k := range []string{"t-0", "t-1"} {
				for _, m := range s.got(k) {
					switch {
					case strings.HasPrefix(m, "free"):
						others = append(others, m)
					case k == chosen:
						got = append(got, m)
					default:
						t.Errorf("%q is in %s", m, k)
					}
				}
			}
			slices.Sort(others)
			slices.Sort(free)
			if !slices.Equal(got, want) || !slices.Equal(others, free) {
				t.Errorf("%d messages with a key, %d without: want %d in order, %d", len(got), len(others), len(want), len(free))
			}
			st := c.Stats()
			if balanced(t, st); st.Delivered != 600 || st.Failed != 0 || st.Moved < 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// evil is a partitioner that chooses what there is not.
type evil struct{}

func (evil) Partition(_ string, key []byte, n int) int {
	if bytes.Equal(key, []byte("negative")) {
		return -1
	}
	return n
}

func TestClusterPartitionerIsChecked(t *testing.T) {
	f := newFleet(t)
	s := newSink(t, nil)
	f.enter(1, s.addr, nil)
	c := openCluster(t, producer.ClusterConfig{Registry: f.registry, Partitioner: evil{}})
	for _, key := range []string{"negative", "beyond"} {
		var wrong *producer.PartitionError
		if err := c.Send(testContext(t), "t", []byte(key), []byte("x")); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", key, err)
		}
	}
	mustPublish(t, c, "t", nil, []byte("x"))
	mustEnd(t, c)
}

// Without any broker Send waits as if there were no room.
func TestClusterWithoutBrokers(t *testing.T) {
	for _, policy := range []producer.QueuePolicy{producer.QueueWait, producer.QueueWaitAtMost, producer.QueueDrop, producer.QueueError} {
		t.Run(policy.String(), func(t *testing.T) {
			f := newFleet(t)
			cfg := producer.Config{QueueFull: policy}
			if policy == producer.QueueWaitAtMost {
				cfg.QueueTimeout = 20 * time.Millisecond
			}
			c := f.open(cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if policy != producer.QueueWait {
				ctx = testContext(t)
			}
			err := c.Send(ctx, "t", nil, []byte("x"))
			st := c.Stats()
			balanced(t, st)
			switch policy {
			case producer.QueueWait:
				if !errors.Is(err, context.DeadlineExceeded) || st.Failed != 1 {
					t.Errorf("%v, stats %+v", err, st)
				}
			case producer.QueueDrop:
				if err != nil || st.Dropped != 1 {
					t.Errorf("%v, stats %+v", err, st)
				}
			default:
				if !errors.Is(err, producer.ErrQueueFull) || st.Failed != 1 {
					t.Errorf("%v, stats %+v", err, st)
				}
			}
			s := newSink(t, nil)
			sent := make(chan error, 1)
			if policy == producer.QueueWait {
				go func() { sent <- c.Send(testContext(t), "t", nil, []byte("y")) }()
			}
			f.enter(1, s.addr, nil)
			if policy == producer.QueueWait {
				if err := <-sent; err != nil {
					t.Error(err)
				}
			} else {
				await(t, "a broker", func() bool { return c.Stats().Brokers == 1 })
				mustPublish(t, c, "t", nil, []byte("y"))
			}
			mustEnd(t, c)
			if got := s.got("t-0"); !slices.Equal(got, []string{"y"}) {
				t.Errorf("messages %q", got)
			}
		})
	}
}
