package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// Commits by hand cover what the application is done with, and nothing is committed
// that it has not asked for.
func TestGroupCommitByHand(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	p := registry.Partition{}
	byHand := func(c *consumer.GroupConfig) { c.AutoCommit = -1 }
	m := g.open(byHand)
	var ends []int64
	for range 5 {
		msg, err := m.streams[0].Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, msg.NextOffset)
	}
	commit := func() int64 {
		t.Helper()
		if err := m.Commit(testContext(t)); err != nil {
			t.Fatal(err)
		}
		return g.stored("t", p)
	}
	if at := commit(); at != ends[3] {
		t.Errorf("with the fifth message in hand %d was committed, not %d", at, ends[3])
	}
	m.streams[0].Done()
	if at := commit(); at != ends[4] {
		t.Errorf("after the fifth message %d was committed, not %d", at, ends[4])
	}
	if _, err := m.streams[0].Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	m.streams[0].Done()
	m.leave()
	if at := g.stored("t", p); at != ends[4] {
		t.Errorf("Close has committed %d", at)
	}
	again := g.open(byHand)
	if msg, err := again.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != "t 0-0 5" {
		t.Errorf("the next consumer began with %q, %v", msg.Payload, err)
	}
	if err := again.CommitOffsets(testContext(t), []consumer.PartitionOffset{{TopicPartition: consumer.TopicPartition{Topic: "u"}, Offset: 1}}); !errors.Is(err, registry.ErrNotOwner) {
		t.Errorf("commit of another topic: %v", err)
	}
}

// TestGroupCommitInDoubt: after a commit whose answer was lost, one of the offset
// that stood there before is written, as that of the lost one may stand there now.
func TestGroupCommitInDoubt(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	m := g.open(func(c *consumer.GroupConfig) { c.AutoCommit = -1 })
	s := m.streams[0]
	consume := func(n int) (next int64) {
		t.Helper()
		for range n {
			msg, err := s.Next(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			next = msg.NextOffset
		}
		s.Done()
		return next
	}
	stored := func() int64 {
		t.Helper()
		offset, _, _, err := g.nodes.Offset(testContext(t), "g", "t", registry.Partition{})
		if err != nil {
			t.Fatal(err)
		}
		return offset
	}
	first := consume(3)
	if err := m.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second := consume(3)
	m.line.FreezeAnswers()
	failed := make(chan error, 1)
	go func() { failed <- m.Commit(testContext(t)) }()
	await(t, "the commit", func() bool { return stored() == second })
	m.line.DropConnections()
	m.line.Mend()
	if err := <-failed; !errors.Is(err, coord.ErrInDoubt) {
		t.Fatalf("commit without an answer: %v", err)
	}
	if err := m.Seek("t", registry.Partition{}, first); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if now := stored(); now != first {
		t.Errorf("offset %d stands there after a commit of %d", now, first)
	}
}

// TestB20PartitionsAreFlushedBeforeTheyAreGivenUp: the application flushes before
// others get its partitions; what it could not flush is not committed, and a flush
// that does not end holds nobody up for longer than it may (fault B20, for a member of
// a group).
func TestB20PartitionsAreFlushedBeforeTheyAreGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		flush func(ctx context.Context) error
		ok    bool
	}{
		{"flushed", func(context.Context) error { return nil }, true},
		{"failed", func(context.Context) error { return errors.New("the target is away") }, false},
		{"too slow", func(ctx context.Context) error { <-ctx.Done(); return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
			g.produce("t", 0, 10)
			type call struct {
				partitions int
				lost       bool
				owners     map[registry.Partition]string
				stored     int64
			}
			assigned, released := make(chan int, 10), make(chan call, 10)
			p := registry.Partition{Partition: 1}
			a := g.join(func(cfg *consumer.GroupConfig) {
				cfg.ConsumerID = "a"
				cfg.AutoCommit = time.Hour
				cfg.HookTimeout = 300 * time.Millisecond
				cfg.OnAssigned = func(_ context.Context, tps []consumer.TopicPartition) { assigned <- len(tps) }
				cfg.OnRelease = func(ctx context.Context, tps []consumer.TopicPartition, lost bool) error {
					released <- call{len(tps), lost, g.owners("t"), g.stored("t", p)}
					return c.flush(ctx)
				}
			})
			if n := <-assigned; n != 2 {
				t.Errorf("%d partitions were assigned", n)
			}
			g.awaitAll("t", 10)
			b := g.open(func(cfg *consumer.GroupConfig) { cfg.ConsumerID = "b"; cfg.AutoCommit = time.Hour })
			g.awaitOwners("t", threads(a, b)...)
			r := <-released
			if r.partitions != 1 || r.lost || r.owners[p] != "g_a-0" || r.stored != 0 {
				t.Errorf("at the flush: %+v", r)
			}
			first := 10
			if !c.ok {
				first = 0
			}
			g.produce("t", 10, 1)
			if msg, err := b.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != fmt.Sprintf("t 0-1 %d", first) {
				t.Errorf("the next owner began with %q, %v", msg.Payload, err)
			}
		})
	}
}

// An application that keeps what it has handled in memory commits within OnRelease
// what it flushes there.
func TestGroupCommitWithinOnRelease(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	var m *groupMember
	m = g.join(func(c *consumer.GroupConfig) {
		c.AutoCommit = -1
		c.OnRelease = func(ctx context.Context, _ []consumer.TopicPartition, _ bool) error { return m.Commit(ctx) }
	})
	g.awaitAll("t", 10)
	m.leave()
	next := g.open(nil)
	g.produce("t", 10, 1)
	if msg, err := next.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != "t 0-0 10" {
		t.Errorf("the next consumer began with %q, %v", msg.Payload, err)
	}
}

// A hook that does not return holds up neither messages nor Close for longer than it
// may, and Close says so.
func TestGroupHookThatDoesNotReturn(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	hang, returned := make(chan struct{}), make(chan struct{})
	m := g.join(func(c *consumer.GroupConfig) {
		c.HookTimeout = 200 * time.Millisecond
		c.OnAssigned = func(context.Context, []consumer.TopicPartition) { <-hang; close(returned) }
		c.OnRelease = func(context.Context, []consumer.TopicPartition, bool) error {
			t.Error("OnRelease was called while OnAssigned was running")
			return nil
		}
	})
	g.awaitAll("t", 10)
	m.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "hook") {
		t.Errorf("Close: %v", err)
	}
	m.reading.Wait()
	close(hang)
	<-returned
	if owners := g.owners("t"); len(owners) != 0 {
		t.Errorf("not released: %v", owners)
	}
}

// Consumers may share a client of ZooKeeper: each takes its own nodes away when it
// leaves, and the client goes on.
func TestGroupsShareAClient(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 10)
	shared := registry.New(connect(t, g.zk.Connect()))
	with := func(group string) func(*consumer.GroupConfig) {
		return func(c *consumer.GroupConfig) { c.Registry, c.Group = shared, group }
	}
	a, b := g.join(with("g")), g.open(with("another"))
	g.awaitOwners("t", threads(a)...)
	a.leave()
	if owners := g.owners("t"); len(owners) != 0 {
		t.Errorf("owners after the end: %v", owners)
	}
	if consumers, err := g.nodes.Consumers(testContext(t), "g"); err != nil || len(consumers) != 0 {
		t.Errorf("consumers after the end: %v, %v", consumers, err)
	}
	for range 20 {
		if _, err := b.streams[0].Next(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	g.join(with("g"))
	g.produce("t", 10, 5)
	g.awaitAll("t", 15)
	g.checkExactly("t", 15)
}

// Close is bounded while ZooKeeper is away, and says what it could not do.
func TestGroupCloseWithoutZooKeeper(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 5)
	m := g.join(func(c *consumer.GroupConfig) {
		c.AutoCommit = time.Hour
		c.ZooKeeper.RequestTimeout = 500 * time.Millisecond
	})
	g.awaitAll("t", 5)
	m.line.Cut()
	m.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	began := time.Now()
	err := m.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "commit") {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("Close took %v", took)
	}
	if again := m.Close(testContext(t)); again == nil || again.Error() != err.Error() {
		t.Errorf("a second Close: %v, the first: %v", again, err)
	}
	m.reading.Wait()
}

// A Close whose context has ended before says that nothing was released, and yet
// leaves nothing running, also where the client of ZooKeeper lives on: the end of all
// tests looks for goroutines.
func TestGroupCloseWithoutTime(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 5)
	shared := registry.New(connect(t, g.zk.Connect()))
	m := g.join(func(c *consumer.GroupConfig) {
		c.ZooKeeper, c.Registry = coord.Config{}, shared
		c.Logger = nil // what ends late may end after the test
	})
	g.awaitAll("t", 5)
	m.gone = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "released") {
		t.Errorf("Close: %v", err)
	}
	m.reading.Wait()
}

// OpenGroup fails with what is wrong, and leaves nothing behind.
func TestOpenGroupFails(t *testing.T) {
	zk := zktest.Shared(t, zktest.Embedded)
	g := newGroupTest(t, zk, 1, 1)
	good := func() consumer.GroupConfig {
		return consumer.GroupConfig{ZooKeeper: coord.Config{Servers: zk.Connect()}, Group: "g", Topics: map[string]int{"t": 1}}
	}
	for name, c := range map[string]struct {
		change func(*consumer.GroupConfig)
		want   string
	}{
		"no group":        {func(c *consumer.GroupConfig) { c.Group = "" }, "group"},
		"group with /":    {func(c *consumer.GroupConfig) { c.Group = "a/b" }, "group"},
		"id with /":       {func(c *consumer.GroupConfig) { c.ConsumerID = "a/b" }, "consumer"},
		"no topics":       {func(c *consumer.GroupConfig) { c.Topics = nil }, "white list"},
		"topics and list": {func(c *consumer.GroupConfig) { c.WhiteList = "x" }, "white list"},
		"bad list":        {func(c *consumer.GroupConfig) { c.Topics, c.WhiteList = nil, "(" }, "group g"},
		"topics, streams": {func(c *consumer.GroupConfig) { c.Streams = 2 }, "leave Streams out"},
		"no streams":      {func(c *consumer.GroupConfig) { c.Topics["t"] = 0 }, "streams"},
		"negative":        {func(c *consumer.GroupConfig) { c.Topics, c.WhiteList, c.Streams = nil, "x", -1 }, "streams"},
		"reset":           {func(c *consumer.GroupConfig) { c.OffsetReset = 7 }, "smallest"},
		"tries":           {func(c *consumer.GroupConfig) { c.RebalanceTries = -1 }, "tries"},
		"backoff":         {func(c *consumer.GroupConfig) { c.RebalanceBackoff = -1 }, "back-off"},
		"feed's topic":    {func(c *consumer.GroupConfig) { c.Feed.Topic = "t" }, "Feed"},
		"feed's size":     {func(c *consumer.GroupConfig) { c.Feed.FetchBytes = -1 }, "fetch"},
		"no ZooKeeper":    {func(c *consumer.GroupConfig) { c.ZooKeeper.Servers = "" }, "ZooKeeper"},
		"away": {func(c *consumer.GroupConfig) {
			c.ZooKeeper.Servers = "127.0.0.1:1"
			c.ZooKeeper.ConnectTimeout = 300 * time.Millisecond
		}, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			cfg.Topics = maps.Clone(cfg.Topics)
			c.change(&cfg)
			m, err := consumer.OpenGroup(testContext(t), cfg)
			if err == nil {
				t.Fatal(m.Close(testContext(t)))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not speak of %q", err, c.want)
			}
		})
	}
	if groups, err := g.nodes.Groups(testContext(t)); err != nil || slices.Contains(groups, "g") {
		t.Errorf("groups left behind: %v, %v", groups, err)
	}
}

// Two consumers with one id: the second waits for a session that may be left from an
// earlier process, and fails if it lives on.
func TestOpenGroupWithAnIDThatIsTaken(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 5)
	same := func(c *consumer.GroupConfig) {
		c.ConsumerID = "one"
		c.ZooKeeper.SessionTimeout = shortSession / 3
	}
	a := g.open(same)
	_, err := consumer.OpenGroup(testContext(t), consumer.GroupConfig{
		ZooKeeper: coord.Config{Servers: g.zk.Connect(), SessionTimeout: shortSession / 3}, Group: "g", ConsumerID: "one", Topics: map[string]int{"t": 1},
	})
	if err == nil || !strings.Contains(err.Error(), "another consumer has this id") {
		t.Errorf("OpenGroup: %v", err)
	}
	a.crash()
	g.open(same) // waits for the session of the first to end
}

// The metrics of a consumer go into a registry of Prometheus.
func TestGroupCollector(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
	g.produce("t", 0, 10)
	m := g.open(nil)
	g.awaitOwners("t", threads(m)...)
	if err := m.Settled(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.streams[0].Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	await(t, "where both partitions begin", func() bool { return len(m.Consumed()) == 2 })
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(consumer.NewGroupCollector(m.Group))
	values := func() map[string]float64 {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				switch {
				case metric.GetCounter() != nil:
					out[f.GetName()] += metric.GetCounter().GetValue()
				case metric.GetGauge() != nil:
					out[f.GetName()] += metric.GetGauge().GetValue()
				default:
					out[f.GetName()] += float64(metric.GetHistogram().GetSampleCount())
				}
			}
		}
		return out
	}
	got := values()
	for name, want := range map[string]float64{
		"kafka_consumer_sessions_total": 1, "kafka_consumer_rebalances_failed_total": 0,
		"kafka_consumer_partitions_owned": 2, "kafka_consumer_partitions_unowned": 0, "kafka_consumer_partitions_waiting": 0,
		"kafka_consumer_commit_failures_total": 0, "kafka_consumer_offset_resets_total": 0, "kafka_consumer_messages_total": 1,
		"kafka_consumer_bytes_total": float64(len("t 0-0 0")),
		"kafka_consumer_lag_bytes":   2 * 10 * float64(9+len("t 0-0 0")), // the one in hand is not consumed
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}
	for _, name := range []string{
		"kafka_consumer_rebalances_total", "kafka_consumer_rebalance_attempts_total",
		"kafka_consumer_rebalance_tries", "kafka_consumer_settle_seconds", "kafka_consumer_commits_total",
	} {
		if _, there := got[name]; !there {
			t.Errorf("no %s among %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
	g.brokers[0].Stop() // its lag is left out, and the rest is there
	if _, there := values()["kafka_consumer_sessions_total"]; !there {
		t.Error("nothing is collected without the broker")
	}
}
