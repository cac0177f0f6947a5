package consumer_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// A list follows topics that come into being, and takes those only that it lets
// through; its streams share the messages of all.
func TestGroupFollowsNewTopics(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 2, 2)
		g.produce("clicks", 0, 5)
		g.produce("internal", 0, 5)
		list := func(c *consumer.GroupConfig) { c.Topics = nil; c.Streams = 2 }
		white := g.join(func(c *consumer.GroupConfig) { list(c); c.WhiteList = "clicks, views.*" })
		black := g.join(func(c *consumer.GroupConfig) { list(c); c.BlackList = "internal" })
		threads := []string{white.ID() + "-0", white.ID() + "-1", black.ID() + "-0", black.ID() + "-1"}
		g.awaitOwners("clicks", threads...)
		g.produce("views-1", 0, 5)
		g.awaitOwners("views-1", threads...)
		g.produce("other", 0, 5)
		g.awaitOwners("other", threads[2:]...)
		for _, topic := range []string{"clicks", "views-1", "other"} {
			g.awaitAll(topic, 5)
			g.checkExactly(topic, 5)
		}
		if owners := g.owners("internal"); len(owners) != 0 {
			t.Errorf("the topic on the black list is owned: %v", owners)
		}
		if white.Streams("clicks") != nil || len(white.FilterStreams()) != 2 {
			t.Error("a list has streams of its own, and none for single topics")
		}
	})
}

// Several topics with several streams each: partitions go to the streams of their own
// topic.
func TestGroupStreamsOfSeveralTopics(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 4)
	g.produce("t", 0, 5)
	g.produce("u", 0, 5)
	m := g.open(func(c *consumer.GroupConfig) { c.Topics = map[string]int{"t": 2, "u": 3, "later": 1} })
	if len(m.Streams("t")) != 2 || len(m.Streams("u")) != 3 || m.Streams("v") != nil || m.FilterStreams() != nil {
		t.Error("not the streams that were asked for")
	}
	g.awaitOwners("t", m.ID()+"-0", m.ID()+"-1")
	g.awaitOwners("u", m.ID()+"-0", m.ID()+"-1", m.ID()+"-2")
	for topic, counts := range map[string][]int{"t": {10, 10}, "u": {10, 5, 5}} {
		for i, s := range m.Streams(topic) {
			for range counts[i] {
				msg, err := s.Next(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				if msg.Topic != topic {
					t.Errorf("a stream of %s gave a message of %s", topic, msg.Topic)
				}
				g.ledger.record(t, m.ID(), msg)
			}
		}
		g.checkExactly(topic, 5)
	}
	g.produce("later", 0, 5) // a topic that is subscribed to before it is there
	if msg, err := m.Streams("later")[0].Next(testContext(t)); err != nil || !strings.HasPrefix(string(msg.Payload), "later ") {
		t.Errorf("%q, %v", msg.Payload, err)
	}
}

// Watches that tell late: members act on what was, are in conflict, and settle; no
// message is lost, none comes twice.
func TestGroupLateWatches(t *testing.T) {
	zk := zktest.Start(t, zktest.Embedded)
	g := newGroupTest(t, zk, 1, 8)
	g.produce("t", 0, 10)
	stop := g.produceMeanwhile("t", 10)
	a := g.join(nil)
	g.awaitOwners("t", threads(a)...)
	zk.Embedded().DelayWatches(300 * time.Millisecond)
	b := g.join(nil)
	c := g.join(nil)
	g.awaitOwners("t", threads(a, b, c)...)
	a.leave()
	g.awaitOwners("t", threads(b, c)...)
	zk.Embedded().DelayWatches(0)
	n := stop()
	g.awaitAll("t", n)
	g.checkExactly("t", n)
	if st := b.Stats(); st.Tries == st.Rebalances {
		t.Logf("no try has failed: %+v", st)
	}
}

// A partition that stays with its owner is not given up for a rebalance.
func TestGroupKeepsWhatStays(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 4)
	g.produce("t", 0, 5)
	a := g.join(func(c *consumer.GroupConfig) { c.ConsumerID = "a" })
	g.awaitOwners("t", threads(a)...)
	born := func() map[string]int64 {
		out := map[string]int64{}
		for _, p := range g.names() {
			st, _, err := g.zkc.Exists(testContext(t), "/consumers/g/owners/t/"+p.String())
			if err != nil {
				t.Fatal(err)
			}
			out[p.String()] = st.Czxid
		}
		return out
	}
	before := born()
	b := g.join(func(c *consumer.GroupConfig) { c.ConsumerID = "b" })
	g.awaitOwners("t", threads(a, b)...)
	after := born()
	for name, kept := range map[string]bool{"0-0": true, "0-1": true, "0-2": false, "0-3": false} {
		if (after[name] == before[name]) != kept {
			t.Errorf("%s: kept %v, want %v", name, !kept, kept)
		}
	}
}

// A broker that comes back at another address is followed, and what was fetched
// before is not lost.
func TestGroupFollowsABrokerToAnotherAddress(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 10)
	m := g.join(nil)
	g.awaitAll("t", 10)
	old := g.brokers[0]
	old.Stop()
	g.brokers = nil
	// Who holds the old port until there is a new one keeps the system from giving it
	// again; if it cannot be had, it is another's already.
	held, err := net.Listen("tcp", old.HostPort())
	g.startBroker(0, func(c *broker.Config) { c.LogDir = old.Config.LogDir })
	if err == nil {
		held.Close()
	}
	g.produce("t", 10, 10)
	g.awaitOwners("t", threads(m)...)
	g.awaitAll("t", 20)
	g.checkExactly("t", 20)
}

// foreign07 is a consumer of Kafka 0.7, as far as the nodes tell: each node is
// written by hand.
type foreign07 struct {
	g *groupTest
	s *coord.Session
}

func (f *foreign07) create(path, value string) bool {
	f.g.Helper()
	_, err := f.s.CreateEphemeral(testContext(f.g.T), path, []byte(value))
	if err != nil && !errors.Is(err, coord.ErrExists) {
		f.g.Fatal(err)
	}
	return err == nil
}

func (f *foreign07) delete(path string) {
	f.g.Helper()
	if err := f.s.Delete(testContext(f.g.T), path, -1); err != nil {
		f.g.Error(err)
	}
}

// A consumer of 0.7 shares a group with ours: each side sees the nodes of the other,
// comes to the same division, and goes on from the other's offsets. That one of 0.7
// commits without being fenced, even what it does not own any more, takes nothing.
func TestGroupSharedWithAForeignMember(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		a := g.join(func(c *consumer.GroupConfig) { c.ConsumerID = "m" })
		g.awaitAll("t", 10)
		if text, _, err := g.zkc.Get(testContext(t), "/consumers/g/ids/g_m"); err != nil || string(text) != `{ "t": 1 }` {
			t.Errorf("our node: %q, %v", text, err)
		}
		s, err := connect(t, zk.Direct()).Session(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		f := &foreign07{g, s}
		owner := func(p int) string { return fmt.Sprintf("/consumers/g/owners/t/0-%d", p) }
		f.create("/consumers/g/ids/g_h-1-2", `{ "t": 1,"u": 3 }`)
		// Its id is the first, so 0-0 and 0-1 are its own. It tries until it has them.
		for p := range 2 {
			await(t, "a partition for the foreign member", func() bool { return f.create(owner(p), "g_h-1-2-0") })
		}
		g.awaitOwners("t", "g_h-1-2-0", "g_m-0")
		end := g.stored("t", registry.Partition{})
		if end <= 0 {
			t.Fatalf("0-0 was given up at offset %d", end)
		}
		g.produce("t", 10, 10)
		await(t, "our half", func() bool { return g.ledger.total() == 4*10+2*10 })

		// It commits what it owns and, late, an old offset of what it does not.
		next := end + 10*int64(9+len("t 0-0 10"))
		for path, offset := range map[string]int64{"0-0": next, "0-1": end, "0-3": 0} {
			if err := g.zkc.Put(testContext(t), "/consumers/g/offsets/t/"+path, fmt.Append(nil, offset)); err != nil {
				t.Fatal(err)
			}
		}
		g.produce("t", 20, 1)
		await(t, "our offset over the foreign one", func() bool { return g.stored("t", registry.Partition{Partition: 3}) > end })

		f.delete(owner(0))
		f.delete(owner(1))
		f.delete("/consumers/g/ids/g_h-1-2")
		g.awaitOwners("t", threads(a)...)
		await(t, "the rest", func() bool { return g.ledger.total() == 4*10+2*10+2+1+11 })
		if log := g.ledger.of("t", registry.Partition{}); log[len(log)-1].number != 20 || len(log) != 11 {
			t.Errorf("0-0 was not read from the foreign member's offset on: %v", log)
		}
		if log := g.ledger.of("t", registry.Partition{Partition: 1}); log[10].number != 10 || len(log) != 21 {
			t.Errorf("0-1 was not read from the foreign member's offset on: %v", log)
		}
	})
}

// An owner node that somebody deletes is a partition lost: a commit finds it, nothing
// is written, and the partition is claimed again.
func TestGroupClaimsAgainWhatIsLost(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 5)
	m := g.join(func(c *consumer.GroupConfig) { c.AutoCommit = -1 })
	g.awaitAll("t", 5)
	await(t, "where the group has begun", func() bool { return m.Stats().Commits == 2 })
	if err := g.zkc.Delete(testContext(t), "/consumers/g/owners/t/0-1", -1); err != nil {
		t.Fatal(err)
	}
	at := m.Consumed()
	for i := range at {
		at[i].Offset++ // not what the reset has stored already
	}
	if err := m.CommitOffsets(testContext(t), at); !errors.Is(err, registry.ErrNotOwner) {
		t.Errorf("commit of a lost partition: %v", err)
	}
	if stored := g.stored("t", at[0].Partition); stored != at[0].Offset {
		t.Errorf("the other partition was not committed: %d", stored)
	}
	g.awaitOwners("t", threads(m)...)
	if st := m.Stats(); st.CommitFailures != 1 {
		t.Errorf("%+v", st)
	}
}
