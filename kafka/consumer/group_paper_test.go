package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// The statements of the paper about consumer groups. Those about one stream are in
// groupstream_paper_test.go.

// TestPaperR04GroupsShareOrCopy: the consumers of one group share one copy of the
// messages, and each group has a copy of its own (NetDB'11 §3).
func TestPaperR04GroupsShareOrCopy(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 4)
	g.produce("t", 0, 100)
	a, b := g.join(nil), g.join(nil)
	g.awaitAll("t", 100)
	a.leave()
	b.leave()
	g.checkExactly("t", 100)

	var other ledger
	c := g.open(func(c *consumer.GroupConfig) { c.Group = "another" })
	for range 400 {
		m, err := c.streams[0].Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		other.record(t, c.ID(), m)
	}
	if n := other.total(); n != 400 {
		t.Errorf("another group got %d messages", n)
	}
}

// TestPaperR17PartitionHasOneConsumer: the partition is the smallest unit of
// parallelism; at any time one consumer of a group reads it. Of more consumers than
// partitions some get nothing (NetDB'11 §3.2).
func TestPaperR17PartitionHasOneConsumer(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 3)
		g.produce("t", 0, 10)
		stop := g.produceMeanwhile("t", 10)
		var members []*groupMember
		for range 5 {
			members = append(members, g.join(nil))
			g.awaitOwners("t", threads(members...)...)
		}
		idle := 0
		for _, m := range members {
			if st := m.Stats(); st.Owned == 0 {
				idle++
			} else if st.Owned != 1 {
				t.Errorf("%s owns %d of 3 partitions among 5 consumers", m.ID(), st.Owned)
			}
		}
		if idle != 2 {
			t.Errorf("%d of 5 consumers are idle with 3 partitions", idle)
		}
		for len(members) > 1 {
			members[0].leave()
			members = members[1:]
			g.awaitOwners("t", threads(members...)...)
		}
		n := stop()
		g.awaitAll("t", n)
		// That each message came once and in order, over all those owners, says that
		// there were never two of them.
		g.checkExactly("t", n)
	})
}

// TestPaperR18CoordinationThroughZooKeeper: consumers notice brokers and consumers
// that come and go, and rebalance then (NetDB'11 §3.2).
func TestPaperR18CoordinationThroughZooKeeper(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		a := g.join(nil)
		g.awaitOwners("t", threads(a)...)
		b := g.join(nil) // a consumer comes
		g.awaitOwners("t", threads(a, b)...)
		g.startBroker(1) // a broker comes, with partitions of the topic
		g.produce("t", 10, 10)
		g.awaitOwners("t", threads(a, b)...)
		a.leave() // a consumer goes
		g.awaitOwners("t", threads(b)...)
		gone := g.brokers[0]
		g.brokers = g.brokers[1:] // a broker goes
		gone.Stop()
		g.awaitOwners("t", threads(b)...)
		if err := b.Settled(testContext(t)); err != nil {
			t.Error(err)
		}
		if st := b.Stats(); st.Rebalances < 3 || st.Owned != 4 {
			t.Errorf("after all that: %+v", st)
		}
	})
}

// TestPaperR18QuietWhileNothingChanges: coordination is needed on a rebalance alone.
// While messages are consumed ZooKeeper is asked for nothing but the commits and the
// proofs of the lease; while none come, for the proofs alone (NetDB'11 §3.2; claim
// C18).
func TestPaperR18QuietWhileNothingChanges(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		t.Parallel() // it waits for sessions to end
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 1)
		// A proof comes every third of the time-out.
		m := g.join(func(c *consumer.GroupConfig) { c.ZooKeeper.SessionTimeout = shortSession })
		awaitCommits := func(n int) {
			await(t, "the commits", func() bool {
				for _, o := range m.Owned() {
					if o.Consumed != o.Committed || len(g.ledger.of("t", o.Partition)) != n {
						return false
					}
				}
				return m.Stats().Owned == 4
			})
		}
		awaitCommits(1)
		during := func(f func()) map[zktest.Op]int64 {
			before := m.line.RequestsByKind()
			f()
			after := m.line.RequestsByKind()
			for op := range after {
				if after[op] -= before[op]; after[op] == 0 || op == zktest.OpPing {
					delete(after, op)
				}
			}
			return after
		}
		busy := during(func() {
			for i := 1; i < 20; i++ {
				g.produce("t", i, 1)
			}
			awaitCommits(20)
		})
		if n := busy[zktest.OpMulti]; n == 0 {
			t.Error("no commit was seen: the test does not see what it counts")
		}
		delete(busy, zktest.OpMulti)
		delete(busy, zktest.OpSync)
		if len(busy) > 0 {
			t.Errorf("while messages were consumed ZooKeeper was asked for %v", busy)
		}
		quiet := during(func() {
			syncs := m.line.RequestsByKind()[zktest.OpSync]
			await(t, "two proofs of the lease", func() bool { return m.line.RequestsByKind()[zktest.OpSync] >= syncs+2 })
		})
		delete(quiet, zktest.OpSync)
		if len(quiet) > 0 {
			t.Errorf("while nothing was consumed ZooKeeper was asked for %v", quiet)
		}
	})
}

// TestPaperR20Algorithm1: each consumer sorts the partitions of all brokers and the
// consumers of the group, takes the range at its own place, and is the owner of that;
// it pulls from the offset in the offset registry (NetDB'11 §3.2, Algorithm 1).
func TestPaperR20Algorithm1(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 2, 12)
		g.produce("t", 0, 5)
		// The offset registry says that two messages of 0-10 are consumed.
		p := registry.Partition{Broker: 0, Partition: 10}
		at := int64(0)
		for i := range 2 {
			at += int64(9 + len(fmt.Sprintf("t 0-10 %d", i)))
		}
		if err := g.nodes.SetOffset(testContext(t), "g", "t", p, at); err != nil {
			t.Fatal(err)
		}
		named := func(id string, streams int) *groupMember {
			return g.join(func(c *consumer.GroupConfig) {
				c.ConsumerID = id
				c.Topics = map[string]int{"t": streams}
			})
		}
		members := []*groupMember{named("c", 1), named("a", 2), named("b", 2)}
		g.awaitOwners("t", "g_a-0", "g_a-1", "g_b-0", "g_b-1", "g_c-0")
		// 24 partitions over 5 threads, in the order of their names.
		owners := g.owners("t")
		for name, want := range map[string]string{
			"0-0": "g_a-0", "0-1": "g_a-0", "0-10": "g_a-0", "0-11": "g_a-0", "0-2": "g_a-0",
			"0-3": "g_a-1", "0-7": "g_a-1", "0-8": "g_b-0", "1-9": "g_c-0",
		} {
			p, err := registry.ParsePartition(name)
			if err != nil {
				t.Fatal(err)
			}
			if owners[p] != want {
				t.Errorf("%s is owned by %s, not %s", name, owners[p], want)
			}
		}
		await(t, "all messages", func() bool { return g.ledger.total() == 24*5-2 })
		if log := g.ledger.of("t", p); len(log) != 3 || log[0].number != 2 {
			t.Errorf("0-10 was read from %v on, not from the offset registry's", log)
		}
		for _, m := range members {
			for _, o := range m.Owned() {
				if owners[o.Partition] != o.Thread {
					t.Errorf("%s believes to own %v by %s, the registry says %s", m.ID(), o.TopicPartition, o.Thread, owners[o.Partition])
				}
			}
		}
	})
}

// TestPaperR21ReleaseWaitTryAgain: a partition may still be owned by another
// consumer; then all that was taken is released, and it is tried again after a
// little; a few tries suffice (NetDB'11 §3.2).
func TestPaperR21ReleaseWaitTryAgain(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		other := connect(t, zk.Direct())
		s, err := other.Session(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		held := []registry.Claim{{Topic: "t", Partition: registry.Partition{Partition: 3}, Thread: "g_other-0"}}
		if _, err := g.nodes.ClaimAll(testContext(t), s, "g", held); err != nil {
			t.Fatal(err)
		}
		m := g.join(func(c *consumer.GroupConfig) { c.RebalanceTries = 1000 })
		await(t, "tries", func() bool { return m.Stats().Tries >= 3 })
		if st := m.Stats(); st.Rebalances != 0 || st.Owned != 0 || st.Unowned != 4 {
			t.Errorf("while a partition is held: %+v", st)
		}
		if owners := g.owners("t"); len(owners) != 1 {
			t.Errorf("owners between the tries: %v", owners)
		}
		if err := g.nodes.Release(testContext(t), s, "g", held); err != nil {
			t.Fatal(err)
		}
		g.awaitOwners("t", threads(m)...)
		if err := m.Settled(testContext(t)); err != nil {
			t.Error(err)
		}
		if st := m.Stats(); st.Rebalances != 1 || st.LastTries < 4 || st.Unowned != 0 {
			t.Errorf("after it: %+v", st)
		}
		g.awaitAll("t", 10)
	})
}

// TestPaperR22NewGroup: a group without offsets starts at the smallest or at the
// largest, as it is configured (NetDB'11 §3.2). Where that is stands in the offset
// registry at once, so a consumer that crashes then loses nothing.
func TestPaperR22NewGroup(t *testing.T) {
	for _, reset := range []consumer.Reset{consumer.ResetSmallest, consumer.ResetLargest, consumer.ResetFail} {
		t.Run(reset.String(), func(t *testing.T) {
			g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
			g.produce("t", 0, 10)
			p := registry.Partition{}
			m := g.open(func(c *consumer.GroupConfig) { c.OffsetReset, c.AutoCommit = reset, -1 })
			first := 0
			switch reset {
			case consumer.ResetSmallest:
				await(t, "the offset", func() bool { return g.stored("t", p) == 0 })
			case consumer.ResetLargest:
				await(t, "the offset", func() bool { return g.stored("t", p) > 0 })
				g.produce("t", 10, 1)
				first = 10
			default:
				var bad *consumer.PartitionError
				if _, err := m.streams[0].Next(testContext(t)); !errors.As(err, &bad) || bad.Temporary {
					t.Errorf("without an offset: %v", err)
				}
				if at := g.stored("t", p); at != -1 {
					t.Errorf("offset %d was stored", at)
				}
				if err := m.Seek("t", p, 0); err != nil {
					t.Error(err)
				}
			}
			msg, err := m.streams[0].Next(testContext(t))
			if want := fmt.Sprintf("t 0-0 %d", first); err != nil || string(msg.Payload) != want {
				t.Errorf("first message %q, %v; want %q", msg.Payload, err, want)
			}
		})
	}
}

// TestPaperR23GroupAtLeastOnce: after a crash the next owner may repeat messages after the
// last committed offset, and no others; after a clean end none (NetDB'11 §3.3).
func TestPaperR23GroupAtLeastOnce(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		t.Parallel() // it waits for sessions to end
		g := newGroupTest(t, zk, 1, 1)
		g.produce("t", 0, 100)
		p := registry.Partition{}
		read := func(m *groupMember, from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				msg, err := m.streams[0].Next(testContext(t))
				if want := fmt.Sprintf("t 0-0 %d", i); err != nil || string(msg.Payload) != want {
					t.Fatalf("message %q, %v; want %q", msg.Payload, err, want)
				}
			}
		}
		settings := func(c *consumer.GroupConfig) {
			c.ZooKeeper.SessionTimeout = shortSession
			c.AutoCommit = time.Hour
		}
		a := g.open(settings)
		read(a, 0, 41)
		if err := a.Commit(testContext(t)); err != nil { // 40 is in hand
			t.Fatal(err)
		}
		committed := g.stored("t", p)
		read(a, 41, 70)
		a.crash()
		if at := g.stored("t", p); at != committed {
			t.Errorf("offset %d after the crash, committed was %d", at, committed)
		}
		b := g.open(settings)
		read(b, 40, 90)
		b.streams[0].Done()
		b.leave() // cleanly: with a commit
		c := g.open(settings)
		read(c, 90, 100)
	})
}

// TestPaperR24OrderOverOwners: messages of a partition come in order, also over a
// change of its owner; between partitions there is none (NetDB'11 §3.3).
func TestPaperR24OrderOverOwners(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 2, 4)
	g.produce("t", 0, 10)
	stop := g.produceMeanwhile("t", 10)
	rng := testRand(t)
	var members []*groupMember
	for range 12 {
		if len(members) < 2 || len(members) < 5 && rng.IntN(2) == 0 {
			members = append(members, g.join(nil))
		} else {
			i := rng.IntN(len(members))
			members[i].leave()
			members = slices.Delete(members, i, i+1)
		}
		g.awaitOwners("t", threads(members...)...)
	}
	n := stop()
	g.awaitAll("t", n)
	g.checkExactly("t", n)
	changed := 0
	for _, p := range g.names() {
		changed += len(tenures(g.ledger.of("t", p))) - 1
	}
	if changed == 0 {
		t.Error("no partition has changed its owner")
	}
}

// TestPaperR15OffsetsOfTheApplication: an application may keep offsets itself, go
// back to an old one, and store the smallest that it has not flushed (NetDB'11 §3.1).
func TestPaperR15OffsetsOfTheApplication(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 20)
	offsets := map[registry.Partition]int64{} // where each partition's message 5 is
	for _, p := range g.names() {
		for i := range 5 {
			offsets[p] += int64(9 + len(fmt.Sprintf("t %v %d", p, i)))
		}
	}
	start := maps.Clone(offsets)
	delete(start, registry.Partition{Partition: 1}) // the group's offset, for that
	m := g.open(func(c *consumer.GroupConfig) {
		c.AutoCommit = -1
		c.StartOffset = func(topic string, p registry.Partition) (int64, bool) {
			at, ok := start[p]
			return at, ok && topic == "t"
		}
	})
	first := map[int32]string{}
	for range 35 {
		msg, err := m.streams[0].Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if first[msg.Partition] == "" {
			first[msg.Partition] = string(msg.Payload)
		}
	}
	if first[0] != "t 0-0 5" || first[1] != "t 0-1 0" {
		t.Errorf("began with %v", first)
	}
	// What the application has flushed it may also store in the offset registry.
	var flushed []consumer.PartitionOffset
	for p, at := range offsets {
		flushed = append(flushed, consumer.PartitionOffset{TopicPartition: consumer.TopicPartition{Topic: "t", Partition: p}, Offset: at})
	}
	if err := m.CommitOffsets(testContext(t), flushed); err != nil {
		t.Error(err)
	}
	for p, at := range offsets {
		if got := g.stored("t", p); got != at {
			t.Errorf("%v: offset %d is stored, not %d", p, got, at)
		}
	}
	for p, at := range offsets { // and consume again from there
		if err := m.Seek("t", p, at); err != nil {
			t.Error(err)
		}
	}
	again := map[string]bool{}
	for range 30 {
		msg, err := m.streams[0].Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		again[string(msg.Payload)] = true
	}
	if len(again) != 30 || !again["t 0-0 5"] || !again["t 0-1 5"] || again["t 0-1 4"] {
		t.Errorf("after going back: %d messages", len(again))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if msg, err := m.streams[0].Next(ctx); err == nil {
		t.Errorf("there is one more: %q", msg.Payload)
	}
}
