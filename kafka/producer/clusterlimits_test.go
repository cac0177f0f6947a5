package producer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/producer"
)

// The producer of a broker that has gone is closed in the background, within its
// time, and what that leaves in doubt is reported.
func TestClusterVanishedBrokerIsClosed(t *testing.T) {
	f := newFleet(t)
	frozen, s := newSink(t, nil), newSink(t, nil)
	f.enter(1, frozen.addr, map[string]int32{"t": 1})
	c := f.open(producer.Config{DialTimeout: 100 * time.Millisecond})
	mustPublish(t, c, "t", nil, []byte("arrives"))
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	frozen.stall(true)
	mustPublish(t, c, "t", nil, []byte("one"), []byte("two"))
	await(t, "the writing", func() bool { return c.Stats().Writes >= 2 })
	f.enter(2, s.addr, map[string]int32{"t": 1})
	f.leave(1)
	await(t, "the end of the producer", func() bool { return c.Stats().Brokers == 1 && c.Stats().Producers == 0 })
	var lost *producer.NotSentError
	if err := c.Send(testContext(t), "t", nil, []byte("refused")); !errors.As(err, &lost) || lost.Messages != 2 || lost.Unconfirmed != 2 {
		t.Errorf("send: %v", err)
	}
	mustPublish(t, c, "t", nil, []byte("goes on"))
	mustEnd(t, c)
	st := c.Stats()
	if balanced(t, st); st.Sent != 5 || st.Delivered != 2 || st.Failed != 3 || st.Pending != 0 {
		t.Errorf("stats %+v", st)
	}
}

// However many brokers come and go without taking anything, the memory for what
// waits is bounded.
func TestClusterHoldsABoundedAmount(t *testing.T) {
	const buffer, payload = 10_000, 1000
	f := newFleet(t)
	c := f.open(producer.Config{MaxBufferBytes: buffer, QueueFull: producer.QueueError})
	for id := range int32(15) {
		f.enter(id, closedAddr(t), map[string]int32{"t": 1})
		await(t, "the broker", func() bool { return c.Stats().Brokers == 1 })
		await(t, "a full queue", func() bool {
			return errors.Is(c.Send(testContext(t), "t", nil, make([]byte, payload)), producer.ErrQueueFull)
		})
		f.leave(id)
		await(t, "the end of the broker", func() bool { return c.Stats().Brokers == 0 })
	}
	st := c.Stats()
	// What is on its way, and the last producer's buffers.
	if balanced(t, st); st.Pending*payload > 4*buffer+6*buffer || st.Pending == 0 {
		t.Errorf("%d bytes wait: %+v", st.Pending*payload, st)
	}
	s := newSink(t, nil)
	f.enter(99, s.addr, map[string]int32{"t": 1})
	mustEnd(t, c)
	if st = c.Stats(); st.Sent != st.Delivered+st.Failed || int64(len(s.got("t-0"))) != st.Delivered || st.Delivered == 0 {
		t.Errorf("%d delivered: stats %+v", len(s.got("t-0")), st)
	}
}

// While ZooKeeper is away what it has told holds; topics and brokers that are new are
// found when it is back.
func TestClusterZooKeeperAway(t *testing.T) {
	f := newFleet(t)
	a, b := newSink(t, nil), newSink(t, nil)
	f.enter(1, a.addr, map[string]int32{"t": 1})
	line := f.zk.NewLine()
	c := openCluster(t, producer.ClusterConfig{
		Config:    producer.Config{DialTimeout: 200 * time.Millisecond},
		ZooKeeper: coord.Config{Servers: line.Connect(), SessionTimeout: time.Second},
	})
	mustPublish(t, c, "t", nil, []byte("x"))
	line.Cut()
	mustPublish(t, c, "t", nil, []byte("x"))
	if err := c.Send(context.Background(), "new", nil, []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new topic: %v", err)
	}
	f.enter(2, b.addr, map[string]int32{"t": 1})
	line.Mend()
	mustPublish(t, c, "new", nil, []byte("x"))
	await(t, "a message at the new broker", func() bool {
		mustPublish(t, c, "t", nil, []byte("x"))
		return len(b.got("t-0")) > 0
	})
	mustEnd(t, c)
	st := c.Stats()
	if balanced(t, st); st.Failed != 1 || st.Pending != 0 {
		t.Errorf("stats %+v", st)
	}
}

// Without a broker Close returns within its time and says how much was not sent.
func TestClusterCloseWithoutBrokers(t *testing.T) {
	f := newFleet(t)
	f.enter(1, closedAddr(t), map[string]int32{"t": 1})
	c := f.open(producer.Config{DialTimeout: 200 * time.Millisecond})
	mustPublish(t, c, "t", []byte("key"), []byte("x"))
	mustPublish(t, c, "t", nil, []byte("x"), []byte("y"))
	f.leave(1)
	await(t, "the end of the broker", func() bool { return c.Stats().Brokers == 0 })
	err := c.Close(context.Background()) // no deadline
	var lost *producer.NotSentError
	if !errors.As(err, &lost) || lost.Messages != 3 || lost.Unconfirmed != 0 {
		t.Errorf("close: %v", err)
	}
	st := c.Stats()
	if balanced(t, st); st.Failed != 3 || st.Pending != 0 || st.Moved != 3 {
		t.Errorf("stats %+v", st)
	}
}
