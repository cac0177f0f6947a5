package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// Time-outs of sessions in these tests: of those in which none is to expire by
// itself, and of those that wait for it.
const (
	longSession  = 10 * time.Second
	shortSession = 1500 * time.Millisecond
)

// groupTest is a cluster and the members of its groups.
type groupTest struct {
	*testing.T
	zk         *zktest.Cluster
	zkc        *coord.Client // sees the nodes on a way that is never cut
	nodes      *registry.Registry
	brokers    []*kafkatest.Broker
	partitions int // of each topic at each broker
	ledger     ledger
}

// newGroupTest starts brokers, registered with ids from 0, whose topics have so many
// partitions each.
func newGroupTest(t *testing.T, zk *zktest.Cluster, brokers, partitions int) *groupTest {
	t.Helper()
	g := &groupTest{T: t, zk: zk, zkc: connect(t, zk.Direct()), partitions: partitions}
	g.nodes = registry.New(g.zkc)
	for id := range brokers {
		g.startBroker(id)
	}
	return g
}

func connect(t *testing.T, servers string) *coord.Client {
	t.Helper()
	c, err := coord.Connect(testContext(t), coord.Config{Servers: servers, SessionTimeout: longSession})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (g *groupTest) startBroker(id int, options ...kafkatest.Option) *kafkatest.Broker {
	g.Helper()
	b := kafkatest.Start(g.T, append([]kafkatest.Option{func(c *broker.Config) {
		c.ID = int32(id)
		c.ZooKeeper.Servers = g.zk.Direct()
		c.ZooKeeper.SessionTimeout = longSession
		c.Storage.DefaultPartitions = int32(g.partitions)
	}}, options...)...)
	g.brokers = append(g.brokers, b)
	return b
}

// produce appends to each partition the messages from number from on, n of them,
// and waits until they are flushed. The first makes the topic.
func (g *groupTest) produce(topic string, from, n int) {
	g.Helper()
	for _, b := range g.brokers {
		conn, err := client.Dial(testContext(g.T), b.HostPort(), client.Config{})
		if err != nil {
			g.Fatal(err)
		}
		for p := range g.partitions {
			set := encode(from, n, func(i int) []byte { return fmt.Appendf(nil, "%s %d-%d %d", topic, b.Config.ID, p, i) })
			if _, err := conn.AckedProduce(testContext(g.T), topic, int32(p), message.Set(set), wire.AcksFlushed, time.Minute); err != nil {
				g.Fatal(err)
			}
		}
		if err := conn.Close(); err != nil {
			g.Error(err)
		}
	}
}

// produceMeanwhile appends messages one by one, from number from on, until stop is
// called, which returns the number of messages of each partition then.
func (g *groupTest) produceMeanwhile(topic string, from int) (stop func() int) {
	ended, next := make(chan struct{}), make(chan int)
	go func() {
		for i := from; ; i++ {
			select {
			case <-ended:
				next <- i
				return
			case <-time.After(2 * time.Millisecond):
				g.produce(topic, i, 1)
			}
		}
	}()
	return func() int {
		close(ended)
		return <-next
	}
}

// names returns the partitions of a topic.
func (g *groupTest) names() (all []registry.Partition) {
	for _, b := range g.brokers {
		for p := range g.partitions {
			all = append(all, registry.Partition{Broker: b.Config.ID, Partition: int32(p)})
		}
	}
	return all
}

// groupMember is a member whose streams are read by a goroutine each.
type groupMember struct {
	*consumer.Group
	test    *groupTest
	line    *zktest.Line
	streams []*consumer.GroupStream
	reading sync.WaitGroup
	gone    bool // it was closed
}

// open opens a member of group "g" that reads topic "t", and does not read it yet.
func (g *groupTest) open(change func(*consumer.GroupConfig)) *groupMember {
	g.Helper()
	m := &groupMember{test: g, line: g.zk.NewLine()}
	cfg := consumer.GroupConfig{
		ZooKeeper:        coord.Config{Servers: m.line.Connect(), SessionTimeout: longSession},
		Group:            "g",
		Topics:           map[string]int{"t": 1},
		AutoCommit:       50 * time.Millisecond,
		RebalanceBackoff: 200 * time.Millisecond,
		Logger:           slog.New(slog.NewTextHandler(g.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if m.Group, err = consumer.OpenGroup(testContext(g.T), cfg); err != nil {
		g.Fatal(err)
	}
	m.streams = m.FilterStreams()
	for _, topic := range slices.Sorted(maps.Keys(cfg.Topics)) {
		m.streams = append(m.streams, m.Streams(topic)...)
	}
	g.Cleanup(func() {
		m.line.Mend()
		m.leave()
	})
	return m
}

// join opens a member and reads its streams.
func (g *groupTest) join(change func(*consumer.GroupConfig)) *groupMember {
	g.Helper()
	return g.joinHandling(change, nil)
}

// joinHandling is join with a function that handles each message.
func (g *groupTest) joinHandling(change func(*consumer.GroupConfig), handle func(consumer.GroupMessage)) *groupMember {
	g.Helper()
	m := g.open(func(c *consumer.GroupConfig) {
		// What is in hand never is for long, unless the test says so: then nothing is
		// to come twice on a slow machine either.
		c.HandoverWait = 10 * time.Second
		if change != nil {
			change(c)
		}
	})
	for _, s := range m.streams {
		m.reading.Go(func() {
			for {
				msg, err := s.Next(context.Background())
				var bad *consumer.PartitionError
				switch {
				case errors.Is(err, consumer.ErrClosed):
					return
				case errors.As(err, &bad) && bad.Temporary:
					continue
				case err != nil:
					g.Errorf("member %s: %v", m.ID(), err)
					return
				}
				g.ledger.record(g.T, m.ID(), msg)
				if handle != nil {
					handle(msg)
				}
			}
		})
	}
	return m
}

// leave closes the member as its user would, and fails the test if that does not go
// cleanly. After the first time it does nothing.
func (m *groupMember) leave() {
	m.test.Helper()
	if m.gone {
		return
	}
	m.gone = true
	if err := m.Close(testContext(m.test.T)); err != nil {
		m.test.Error(err)
	}
	m.reading.Wait()
}

// crash cuts the member off and closes it: its commits and releases fail, and its
// session ends by its time-out.
func (m *groupMember) crash() {
	m.test.Helper()
	m.gone = true
	m.line.Cut()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); err == nil {
		m.test.Error("a close without ZooKeeper has succeeded")
	}
	m.reading.Wait()
}

// session returns the session in which the member is registered now, 0 if it is in
// none.
func (m *groupMember) session() int64 {
	st, ok, err := m.test.zkc.Exists(testContext(m.test.T), "/consumers/g/ids/"+m.ID())
	if err != nil {
		m.test.Error(err)
	}
	if !ok {
		return 0
	}
	return st.EphemeralOwner
}

// owners returns who owns what of a topic.
func (g *groupTest) owners(topic string) map[registry.Partition]string {
	owners, err := g.nodes.Owners(testContext(g.T), "g", topic)
	if err != nil {
		g.Error(err)
	}
	return owners
}

// awaitOwners waits until every partition of a topic is owned as the arithmetic has
// it for these threads. A client that has lost ZooKeeper, as that of the test may
// have, can need its session's time-out until it is back.
func (g *groupTest) awaitOwners(topic string, threads ...string) {
	g.Helper()
	want := consumer.AssignRange(g.names(), threads)
	var owners map[registry.Partition]string
	await(g.T, fmt.Sprintf("owners of %s: %v", topic, want), func() bool {
		var err error
		owners, err = g.nodes.Owners(testContext(g.T), "g", topic)
		if err != nil && !errors.Is(err, coord.ErrUnavailable) {
			g.Error(err)
		}
		return maps.Equal(owners, want)
	})
	if !maps.Equal(owners, want) {
		g.Fatalf("owners are %v", owners)
	}
}

// threads returns the ids of the first streams of members.
func threads(members ...*groupMember) (ids []string) {
	for _, m := range members {
		ids = append(ids, m.ID()+"-0")
	}
	return ids
}

// stored returns the offset of a partition in ZooKeeper, -1 if there is none.
func (g *groupTest) stored(topic string, p registry.Partition) int64 {
	offset, _, ok, err := g.nodes.Offset(testContext(g.T), "g", topic, p)
	if err != nil {
		g.Error(err)
	}
	if !ok {
		return -1
	}
	return offset
}

// handed is a message as it was handed out.
type handed struct {
	member string
	number int
	at     time.Time
	offset int64
}

// ledger is the record of all that members have handed out, in order.
type ledger struct {
	mu  sync.Mutex
	log map[consumer.TopicPartition][]handed
}

func (l *ledger) record(t *testing.T, member string, m consumer.GroupMessage) {
	var topic, partition string
	h := handed{member: member, at: time.Now(), offset: m.Offset}
	if _, err := fmt.Sscanf(string(m.Payload), "%s %s %d", &topic, &partition, &h.number); err != nil {
		t.Errorf("payload %q: %v", m.Payload, err)
		return
	}
	tp := consumer.TopicPartition{Topic: m.Topic, Partition: registry.Partition{Broker: m.Broker, Partition: m.Partition}}
	if topic != tp.Topic || partition != tp.Partition.String() {
		t.Errorf("message %q came as one of %v", m.Payload, tp)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == nil {
		l.log = make(map[consumer.TopicPartition][]handed)
	}
	l.log[tp] = append(l.log[tp], h)
}

// of returns what was handed out of a partition.
func (l *ledger) of(topic string, p registry.Partition) []handed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log[consumer.TopicPartition{Topic: topic, Partition: p}])
}

// total returns how many messages were handed out.
func (l *ledger) total() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.log {
		n += len(log)
	}
	return n
}

// awaitAll waits until the messages 0 to n-1 of each partition were handed out, at
// least once.
func (g *groupTest) awaitAll(topic string, n int) {
	g.Helper()
	missing := func() (out []string) {
		for _, p := range g.names() {
			seen := make(map[int]bool)
			for _, h := range g.ledger.of(topic, p) {
				seen[h.number] = true
			}
			if len(seen) < n {
				out = append(out, fmt.Sprintf("%v: %d of %d", p, len(seen), n))
			}
		}
		return out
	}
	await(g.T, "all messages of "+topic, func() bool { return len(missing()) == 0 })
	if left := missing(); len(left) > 0 {
		g.Fatalf("missing: %s", strings.Join(left, ", "))
	}
}

// checkExactly fails the test unless each partition was handed out once and in order,
// whoever did it.
func (g *groupTest) checkExactly(topic string, n int) {
	g.Helper()
	for _, p := range g.names() {
		log := g.ledger.of(topic, p)
		for i, h := range log {
			if h.number != i {
				g.Errorf("%s %v: message %d came in place %d, to %s", topic, p, h.number, i, h.member)
				break
			}
		}
		if len(log) != n {
			g.Errorf("%s %v: %d messages came, not %d", topic, p, len(log), n)
		}
	}
}

// tenures returns which members handed out messages of a partition, one after the
// other.
func tenures(log []handed) (members []string) {
	for _, h := range log {
		if len(members) == 0 || members[len(members)-1] != h.member {
			members = append(members, h.member)
		}
	}
	return members
}
