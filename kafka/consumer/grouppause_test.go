package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// nextChunk returns the next chunk of a member's stream.
func nextChunk(t *testing.T, m *groupMember) consumer.Chunk {
	t.Helper()
	c, err := m.streams[0].NextChunk(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPause: of a partition that is paused nothing is handed out, neither what waits
// already nor what comes, and the others go on; behind the pause nothing is missing.
func TestPause(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 10)
	m := g.open(nil)
	if err := m.Settled(testContext(t)); err != nil {
		t.Fatal(err)
	}
	paused := registry.Partition{Broker: 0, Partition: 0}
	await(t, "the partition to be read", func() bool { return m.Pause("t", paused) == nil })
	count := map[int32]int{}
	take := func() {
		c := nextChunk(t, m)
		for c.Next() {
			count[c.Partition]++
		}
	}
	// One pull of each may have been in the queue before; none is from now on.
	for from := 10; count[1] < 50; from += 10 {
		take()
		g.produce("t", from, 10)
	}
	if count[0] > 0 {
		t.Errorf("%d messages of the partition that is paused were handed out", count[0])
	}
	if !m.Holds("t", paused) {
		t.Error("a partition that is paused is not held any more")
	}
	if err := m.Resume("t", paused); err != nil {
		t.Fatal(err)
	}
	for count[0] < 50 {
		take()
	}
	// Twice is once, and what is not owned is an error.
	for _, change := range []func(string, registry.Partition) error{m.Pause, m.Pause, m.Resume, m.Resume} {
		if err := change("t", paused); err != nil {
			t.Error(err)
		}
		if err := change("other", paused); !errors.Is(err, registry.ErrNotOwner) {
			t.Errorf("error %v of a partition that is not owned", err)
		}
	}
	if m.Holds("other", paused) {
		t.Error("a partition that is not owned is held")
	}
}

// TestPauseWithinCompressedMessages: a partition that is paused in the middle of a
// compressed message goes on there, whatever others have decompressed meanwhile.
func TestPauseWithinCompressedMessages(t *testing.T) {
	log, want := mixedLog(t)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	other := newFake(t, nil)
	for n := range want {
		s := consumer.NewGroupStream()
		r := &reading{want: want, end: int64(len(log))}
		r.feed = startFeed(t, s, f.addr, 0, nil)
		for range n {
			m := next(t, s)
			r.got(t, m.Payload, m.Offset, m.NextOffset)
		}
		r.feed.SetPaused(true)
		from := int64(len(other.log))
		o := startFeed(t, s, other.addr, 1, func(c *consumer.FeedConfig) { c.Start = from })
		other.append(compressed(t, encode(1000, 10, numbered), message.CodecGzip))
		for i := range 10 {
			if m := next(t, s); m.Broker != 1 || string(m.Payload) != string(numbered(1000+i)) {
				t.Fatalf("while it is paused: %q of partition %d", m.Payload, m.Broker)
			}
		}
		stopFeed(t, o)
		r.feed.SetPaused(false)
		for r.next < len(want) {
			m := next(t, s)
			r.got(t, m.Payload, m.Offset, m.NextOffset)
		}
		stopFeed(t, r.feed)
	}
}

// TestHoldsEndsWithTheLease: a member that is cut off from ZooKeeper knows by its own
// clock when it may not act for a partition any more.
func TestHoldsEndsWithTheLease(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 1)
	m := g.open(func(c *consumer.GroupConfig) { c.ZooKeeper.SessionTimeout = shortSession })
	p := registry.Partition{Broker: 0, Partition: 0}
	await(t, "the lease", func() bool { return m.Holds("t", p) })
	m.line.Cut()
	await(t, "the end of the lease", func() bool { return !m.Holds("t", p) })
	m.line.Mend()
	await(t, "the lease of the next session", func() bool { return m.Holds("t", p) })
	m.leave()
	if m.Holds("t", p) {
		t.Error("a partition is held after the group was left")
	}
}

// TestChunkSet: a chunk of a shallow group gives its entries as they lie in the log,
// those that are left, and says where they begin.
func TestChunkSet(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	conn, err := client.Dial(testContext(t), g.brokers[0].HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var inner, log []byte
	for i := range 10 {
		inner = message.Append(inner, fmt.Appendf(nil, "inner %d", i))
	}
	log = message.Append(log, []byte("first"))
	second := len(log)
	if log, err = message.Compress(log, inner, message.CodecGzip); err != nil {
		t.Fatal(err)
	}
	third := len(log)
	log = message.Append1(log, []byte("third"), message.CodecNone)
	if _, err := conn.AckedProduce(testContext(t), "t", 0, log, wire.AcksFlushed, time.Minute); err != nil {
		t.Fatal(err)
	}
	m := g.open(func(c *consumer.GroupConfig) { c.Feed.Shallow = true })
	check := func(c *consumer.Chunk, from int) {
		t.Helper()
		set, offset := c.Set()
		if offset != int64(from) || !bytes.Equal(set, log[from:]) {
			t.Errorf("the set has %d bytes from offset %d on, not the log's %d from %d on", len(set), offset, len(log)-from, from)
		}
	}
	// The first message by itself, so that the chunk is one that was begun.
	if _, err := m.streams[0].Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	c := nextChunk(t, m)
	check(&c, second)
	if !c.Next() || c.Message().Codec() != message.CodecGzip {
		t.Fatalf("the second message is %v", c.Message())
	}
	check(&c, third)
	if !c.Next() || c.Next() {
		t.Error("one more message is wanted")
	}
	check(&c, len(log))
}

// TestStopOutOfRange: without an offset the policy of resetting says where a group
// begins, and an offset that is gone is an error all the same, which says what the log
// holds. Nothing is committed until the application goes on elsewhere.
func TestStopOutOfRange(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 0, 1)
	g.startBroker(0, func(c *broker.Config) {
		c.Storage.SegmentBytes, c.Storage.RetentionBytes, c.Storage.CleanupInterval = 1<<10, 2<<10, 10*time.Millisecond
	})
	g.produce("t", 0, 10)
	stop := func(c *consumer.GroupConfig) { c.StopOutOfRange = true }
	m := g.open(stop)
	c := nextChunk(t, m)
	for c.Next() {
	}
	end := c.NextOffset()
	m.streams[0].Done()
	m.leave()
	p := registry.Partition{Broker: 0, Partition: 0}
	if at := g.stored("t", p); at != end {
		t.Fatalf("offset %d is stored, not %d", at, end)
	}
	for from := 10; from < 1000; from += 10 {
		g.produce("t", from, 10)
	}
	conn, err := client.Dial(testContext(t), g.brokers[0].HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var first, last int64
	// All that it will ever delete: with one segment less there would be too little.
	await(t, "retention", func() bool {
		states, err := conn.Topics(testContext(t), "t")
		if err != nil {
			t.Fatal(err)
		}
		first, last = states[0].First, states[0].Watermark
		return first > end && states[0].Bytes < 3000
	})
	m = g.open(stop)
	_, err = m.streams[0].NextChunk(testContext(t))
	var out *consumer.OutOfRangeError
	if !errors.As(err, &out) || !errors.Is(err, wire.CodeOffsetOutOfRange) {
		t.Fatalf("error %v", err)
	}
	if out.Offset != end || out.First <= end || out.First > first || out.End != last {
		t.Errorf("error %+v, with a log of %d up to %d and offset %d", out, first, last, end)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := m.streams[0].NextChunk(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a partition that stands still gives %v", err)
	}
	if at := g.stored("t", p); at != end {
		t.Errorf("offset %d is stored, not %d", at, end)
	}
	if err := m.Seek("t", p, first); err != nil {
		t.Fatal(err)
	}
	c = nextChunk(t, m)
	if !c.Next() || c.Offset() != first {
		t.Errorf("it goes on at offset %d, not %d", c.Offset(), first)
	}
}
