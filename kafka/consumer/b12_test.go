package consumer_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// TestB12HandlerHoldsAMessageLongerThanAllTries: of two consumers one handles a
// message for longer than a third, that joins, is willing to try in a row. Giving up
// is not final: once the handler is done every partition has an owner within one
// pause between tries and a second. Until then what has no owner shows in the
// metrics (fault B12).
func TestB12HandlerHoldsAMessageLongerThanAllTries(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 8)
		g.produce("t", 0, 20)
		const backoff = time.Second
		settings := func(c *consumer.GroupConfig) {
			c.RebalanceTries, c.RebalanceBackoff = 2, backoff
			c.HandoverWait = time.Minute
		}
		hold, holding := make(chan struct{}), make(chan struct{})
		var once sync.Once
		release := sync.OnceFunc(func() { close(hold) })
		t.Cleanup(release)
		slow := g.joinHandling(func(c *consumer.GroupConfig) { settings(c); c.ConsumerID = "a" }, func(m consumer.GroupMessage) {
			// Of partition 0-3: it goes to the second when there are three.
			if m.Partition == 3 && m.Broker == 0 {
				once.Do(func() { close(holding); <-hold })
			}
		})
		g.awaitOwners("t", threads(slow)...)
		<-holding
		second := g.join(func(c *consumer.GroupConfig) { settings(c); c.ConsumerID = "b" })
		third := g.join(func(c *consumer.GroupConfig) { settings(c); c.ConsumerID = "c" })
		failed := func(m *groupMember) bool { st := m.Stats(); return st.Failed >= 1 && st.Unowned > 0 }
		await(t, "a rebalance that fails after all its tries", func() bool { return failed(second) || failed(third) })
		if owners := g.owners("t"); owners[registry.Partition{Partition: 3}] != slow.ID()+"-0" {
			t.Errorf("the partition of the message in hand was given up: %v", owners)
		}
		began := time.Now()
		release()
		g.awaitOwners("t", threads(slow, second, third)...)
		if took := time.Since(began); took > backoff+time.Second {
			t.Errorf("it took %v until every partition had an owner", took)
		}
		for _, m := range []*groupMember{slow, second, third} {
			if err := m.Settled(testContext(t)); err != nil {
				t.Error(err)
			}
			if st := m.Stats(); st.Unowned != 0 {
				t.Errorf("%s: %d partitions without an owner at the end", m.ID(), st.Unowned)
			}
		}
		g.awaitAll("t", 20)
		g.checkExactly("t", 20)
	})
}

// TestB12OnePartitionIsHeldForLong: a consumer that cannot be reached, or is of
// another make, keeps one partition for longer than all tries. The others are
// consumed meanwhile, and that one soon after it is free (fault B12).
func TestB12OnePartitionIsHeldForLong(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 8)
	g.produce("t", 0, 10)
	s, err := connect(t, g.zk.Direct()).Session(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	held := []registry.Claim{{Topic: "t", Partition: registry.Partition{Partition: 5}, Thread: "g_other-0"}}
	if _, err := g.nodes.ClaimAll(testContext(t), s, "g", held); err != nil {
		t.Fatal(err)
	}
	const backoff = 500 * time.Millisecond
	m := g.join(func(c *consumer.GroupConfig) { c.RebalanceTries, c.RebalanceBackoff = 2, backoff })
	await(t, "the messages of all other partitions", func() bool { return g.ledger.total() == 70 })
	await(t, "failed rebalances", func() bool { return m.Stats().Failed >= 2 })
	if st := m.Stats(); st.Owned != 7 || st.Unowned != 1 {
		t.Errorf("%d owned, %d not", st.Owned, st.Unowned)
	}
	began := time.Now()
	if err := g.nodes.Release(testContext(t), s, "g", held); err != nil {
		t.Fatal(err)
	}
	g.awaitOwners("t", threads(m)...)
	if took := time.Since(began); took > backoff+time.Second {
		t.Errorf("it took %v until the partition had an owner", took)
	}
	g.awaitAll("t", 10)
	g.checkExactly("t", 10)
}

// TestB12ManyPartitionsAreHeld: where others keep many partitions for longer than all
// tries, finding out which ones costs no more than reading them all.
func TestB12ManyPartitionsAreHeld(t *testing.T) {
	const partitions = 400
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, partitions)
	conn, err := client.Dial(testContext(t), g.brokers[0].HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.CreateTopic(testContext(t), "t", partitions), conn.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := connect(t, g.zk.Direct()).Session(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	var held []registry.Claim
	for i := range int32(partitions / 2) {
		held = append(held, registry.Claim{Topic: "t", Partition: registry.Partition{Partition: 2 * i}, Thread: "g_other-0"})
	}
	if _, err := g.nodes.ClaimAll(testContext(t), s, "g", held); err != nil {
		t.Fatal(err)
	}
	own := connect(t, g.zk.Direct())
	m := g.join(func(c *consumer.GroupConfig) {
		c.ZooKeeper, c.Registry = coord.Config{}, registry.New(own)
		c.RebalanceTries, c.AutoCommit = 1, -1
		c.RebalanceBackoff = 10 * time.Second
	})
	await(t, "half of the partitions", func() bool { return m.Stats().Owned == partitions/2 })
	if n := own.Stats().Requests; n > 5*partitions {
		t.Errorf("%d requests to own half of %d partitions", n, partitions)
	}
	if err := g.nodes.Release(testContext(t), s, "g", held); err != nil {
		t.Fatal(err)
	}
	g.awaitOwners("t", threads(m)...)
}
