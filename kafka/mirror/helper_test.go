package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/mirror"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) {
	kafkatest.RunAsWorker(workerVariable, "mirror", workerConfig.run)
	goleak.VerifyTestMain(zktest.Runner{M: m})
}

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

const longSession = 10 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// cluster is a ZooKeeper with brokers.
type cluster struct {
	testing.TB
	zk         *zktest.Cluster
	client     *coord.Client // sees the nodes on a way that is never cut
	nodes      *registry.Registry
	brokers    []*kafkatest.Broker
	partitions int // of a topic at each broker
}

func newCluster(t testing.TB, brokers, partitions int, options ...kafkatest.Option) *cluster {
	t.Helper()
	c := &cluster{TB: t, zk: zktest.Shared(t, zktest.Embedded), partitions: partitions}
	var err error
	if c.client, err = coord.Connect(testContext(t), coord.Config{Servers: c.zk.Direct(), SessionTimeout: longSession}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.Close(); err != nil {
			t.Error(err)
		}
	})
	c.nodes = registry.New(c.client)
	for range brokers {
		c.startBroker(options...)
	}
	return c
}

// startBroker starts one more broker.
func (c *cluster) startBroker(options ...kafkatest.Option) *kafkatest.Broker {
	c.Helper()
	b := kafkatest.Start(c.TB, append([]kafkatest.Option{func(cfg *broker.Config) {
		cfg.ID = int32(len(c.brokers))
		cfg.ZooKeeper.Servers = c.zk.Direct()
		cfg.ZooKeeper.SessionTimeout = longSession
		cfg.AdvertisedHost = "127.0.0.1"
		cfg.Storage.DefaultPartitions = int32(c.partitions)
	}}, options...)...)
	c.brokers = append(c.brokers, b)
	return b
}

// config is how a mirror gets at the cluster.
func (c *cluster) config() coord.Config {
	return coord.Config{Servers: c.zk.Direct(), SessionTimeout: longSession}
}

func dial(t testing.TB, addr string) *client.Conn {
	t.Helper()
	conn, err := client.Dial(testContext(t), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // its broker may be stopped first
	return conn
}

// payload tells where a message was made: "topic broker-partition number", and is
// filled up to a size.
func payload(topic string, broker int32, partition, number, size int) []byte {
	b := fmt.Appendf(nil, "%s %d-%d %d ", topic, broker, partition, number)
	return append(b, bytes.Repeat([]byte{'.'}, max(size-len(b), 0))...)
}

// produce appends the messages from number from on, n of them, to each partition of a
// topic, and waits until they are flushed.
func (c *cluster) produce(topic string, from, n, size int) {
	c.Helper()
	for _, b := range c.brokers {
		conn := dial(c.TB, b.HostPort())
		for p := range c.partitions {
			c.produceTo(conn, b.Config.ID, topic, p, from, n, size)
		}
		if err := conn.Close(); err != nil {
			c.Error(err)
		}
	}
}

// produceTo appends messages to one partition, some hundred kilobytes a request.
func (c *cluster) produceTo(conn *client.Conn, id int32, topic string, partition, from, n, size int) {
	c.Helper()
	var set []byte
	for i := range n {
		set = message.Append(set, payload(topic, id, partition, from+i, size))
		if len(set) < 200<<10 && i < n-1 {
			continue
		}
		if _, err := conn.AckedProduce(testContext(c.TB), topic, int32(partition), set, wire.AcksFlushed, time.Minute); err != nil {
			c.Fatal(err)
		}
		set = set[:0]
	}
}

// log returns what can be fetched of a partition at a broker from an offset on.
func (c *cluster) log(b *kafkatest.Broker, topic string, partition int32, from int64) (set message.Set) {
	c.Helper()
	conn := dial(c.TB, b.HostPort())
	defer conn.Close()
	for {
		s, err := conn.Fetch(testContext(c.TB), wire.FetchEntry{Topic: topic, Partition: partition, Offset: from + int64(len(set)), MaxBytes: 8 << 20})
		if errors.Is(err, wire.CodeWrongPartition) {
			return set // it has no such topic
		}
		if err != nil {
			c.Fatal(err)
		}
		it := s.IterateShallow(0)
		for it.Next() {
		}
		if it.Err() != nil {
			c.Fatal(it.Err())
		}
		if it.ValidBytes() == 0 {
			return set
		}
		set = append(set, s[:it.ValidBytes()]...)
	}
}

// arrival is a message in a log of the target.
type arrival struct {
	number int
	bytes  int
	at     registry.Partition // of the target
}

// arrivals are what the target has of each source partition "topic broker-partition",
// in the order of its logs.
type arrivals map[string][]arrival

// arrived reads a topic at the target. Messages have the payloads of the function of
// that name.
func (c *cluster) arrived(topic string) arrivals {
	c.Helper()
	all := arrivals{}
	for _, b := range c.brokers {
		for p := range c.partitions {
			set := c.log(b, topic, int32(p), 0)
			it := set.Iterate(0)
			for it.Next() {
				all.note(c.TB, it.Message().Payload, registry.Partition{Broker: b.Config.ID, Partition: int32(p)})
			}
		}
	}
	return all
}

func (a arrivals) note(t testing.TB, payload []byte, at registry.Partition) {
	t.Helper()
	fields := strings.Fields(string(payload))
	if len(fields) < 3 {
		t.Fatalf("payload %.60q", payload)
	}
	var number int
	if _, err := fmt.Sscan(fields[2], &number); err != nil {
		t.Fatalf("payload %.60q: %v", payload, err)
	}
	name := fields[0] + " " + fields[1]
	a[name] = append(a[name], arrival{number, message.Overhead0 + len(payload), at})
}

// distinct returns how many different messages there are of all partitions.
func (a arrivals) distinct() (n int) {
	for _, list := range a {
		seen := map[int]bool{}
		for _, m := range list {
			seen[m.number] = true
		}
		n += len(seen)
	}
	return n
}

// doubledBytes returns what is there more than once of a partition.
func (a arrivals) doubledBytes(name string) (bytes int) {
	seen := map[int]bool{}
	for _, m := range a[name] {
		if seen[m.number] {
			bytes += m.bytes
		}
		seen[m.number] = true
	}
	return bytes
}

// doubled returns how many messages are there more than once, over all partitions.
func (a arrivals) doubled() int {
	n := -a.distinct()
	for _, list := range a {
		n += len(list)
	}
	return n
}

// check fails the test unless the messages 0 to n-1 of each of so many partitions are
// there, in order: none comes before the one before it has come for the first time; and
// all of a partition at one place.
func (a arrivals) check(t testing.TB, partitions, n int) {
	t.Helper()
	if len(a) != partitions {
		t.Errorf("messages of %d partitions have come, not %d", len(a), partitions)
	}
	for name, list := range a {
		last := -1
		for _, m := range list {
			if m.number > last+1 {
				t.Errorf("%s: message %d has come after %d", name, m.number, last)
				break
			}
			last = max(last, m.number)
			if m.at != list[0].at {
				t.Errorf("%s: messages are in partitions %v and %v", name, list[0].at, m.at)
				break
			}
		}
		if last != n-1 {
			t.Errorf("%s: the last message is %d, not %d", name, last, n-1)
		}
	}
}

// awaitArrived waits until the target has so many different messages of a topic.
func (c *cluster) awaitArrived(topic string, n int) arrivals {
	c.Helper()
	var a arrivals
	await(c.TB, fmt.Sprintf("%d messages of %s at the target", n, topic), func() bool {
		a = c.arrived(topic)
		return a.distinct() >= n
	})
	return a
}

// stored returns the group's offset of a partition, -1 if there is none.
func (c *cluster) stored(group, topic string, p registry.Partition) int64 {
	offset, _, ok, err := c.nodes.Offset(testContext(c.TB), group, topic, p)
	if err != nil {
		c.Error(err)
	}
	if !ok {
		return -1
	}
	return offset
}

const group = "mirror"

// openMirror opens a mirror of all topics, with times that suit a test. It is closed at
// the end of the test, and the test fails if that does not go cleanly.
func openMirror(t testing.TB, target *cluster, sources []*cluster, change func(*mirror.Config)) *mirror.Mirror {
	t.Helper()
	cfg := mirror.Config{
		Target: target.config(), Group: group, WhiteList: ".*",
		CommitInterval: 50 * time.Millisecond, RebalanceBackoff: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, s := range sources {
		cfg.Sources = append(cfg.Sources, s.config())
	}
	if change != nil {
		change(&cfg)
	}
	m, err := mirror.Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeMirror(t, m) })
	return m
}

func closeMirror(t testing.TB, m *mirror.Mirror) {
	t.Helper()
	if err := m.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

// awaitCommitted waits until the group's offset of each partition of a topic is the end
// of its log.
func (c *cluster) awaitCommitted(topic string) {
	c.Helper()
	for _, b := range c.brokers {
		for p := range c.partitions {
			end := int64(len(c.log(b, topic, int32(p), 0)))
			at := registry.Partition{Broker: b.Config.ID, Partition: int32(p)}
			await(c.TB, fmt.Sprintf("offset %d of %s %v", end, topic, at), func() bool { return c.stored(group, topic, at) == end })
		}
	}
}

// topics returns the topics that a broker has, sorted.
func topics(t testing.TB, b *kafkatest.Broker) (names []string) {
	t.Helper()
	conn := dial(t, b.HostPort())
	defer conn.Close()
	states, err := conn.Topics(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		names = append(names, s.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
