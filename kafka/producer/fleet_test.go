package producer_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// fleet is what the registries say of brokers, as the test has it: each entry has a
// session of its own, as that of a broker has.
type fleet struct {
	t        *testing.T
	zk       *zktest.Cluster
	registry *registry.Registry
	entries  map[int32]*coord.Client
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, zk: zktest.Shared(t, zktest.Embedded), entries: map[int32]*coord.Client{}}
	f.registry = registry.New(f.connect())
	return f
}

func (f *fleet) connect() *coord.Client {
	f.t.Helper()
	c, err := coord.Connect(testContext(f.t), coord.Config{Servers: f.zk.Connect()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() }) // a second one, mostly
	return c
}

// enter registers a broker that is at addr, with so many partitions of topics.
func (f *fleet) enter(id int32, addr string, topics map[string]int32) {
	f.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		f.t.Fatal(err)
	}
	f.entries[id] = f.connect()
	b := registry.Broker{ID: id, Creator: registry.NewCreator(host, time.Now()), Host: host, Port: n}
	if err := f.registry.RegisterBroker(testContext(f.t), f.session(id), b, nil); err != nil {
		f.t.Fatal(err)
	}
	for topic, partitions := range topics {
		f.enterTopic(id, topic, partitions)
	}
}

func (f *fleet) session(id int32) *coord.Session {
	f.t.Helper()
	s, err := f.entries[id].Session(testContext(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fleet) enterTopic(id int32, topic string, partitions int32) {
	f.t.Helper()
	if err := f.registry.RegisterTopic(testContext(f.t), f.session(id), topic, id, partitions); err != nil {
		f.t.Fatal(err)
	}
}

// leave ends the session of a broker.
func (f *fleet) leave(id int32) {
	f.t.Helper()
	if err := f.entries[id].Close(); err != nil {
		f.t.Fatal(err)
	}
	delete(f.entries, id)
}

// open opens a cluster that follows the fleet.
func (f *fleet) open(cfg producer.Config) *producer.Cluster {
	f.t.Helper()
	return openCluster(f.t, producer.ClusterConfig{Config: cfg, Registry: f.registry})
}

func openCluster(t *testing.T, cfg producer.ClusterConfig) *producer.Cluster {
	t.Helper()
	c, err := producer.OpenCluster(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // tests that care have closed it
	})
	return c
}

// await polls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func mustPublish(t *testing.T, c *producer.Cluster, topic string, key []byte, payloads ...[]byte) {
	t.Helper()
	if err := c.Send(testContext(t), topic, key, payloads...); err != nil {
		t.Fatal(err)
	}
}

func mustEnd(t *testing.T, c *producer.Cluster) {
	t.Helper()
	if err := c.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// balanced checks that all messages are accounted for.
func balanced(t *testing.T, st producer.ClusterStats) {
	t.Helper()
	if st.Sent != st.Delivered+st.Dropped+st.Failed+st.Pending || st.Pending < 0 {
		t.Errorf("stats do not add up: %+v", st)
	}
}

// payloadsOf returns the visible messages of a partition.
func payloadsOf(t *testing.T, addr, topic string, partition int32) (payloads []string) {
	t.Helper()
	c, err := client.Dial(testContext(t), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for offset := int64(0); ; {
		set, err := c.Fetch(testContext(t), wire.FetchEntry{Topic: topic, Partition: partition, Offset: offset, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(set) == 0 {
			return payloads
		}
		it := set.Iterate(offset)
		for it.Next() {
			payloads = append(payloads, string(it.Message().Payload))
		}
		if it.Err() != nil || it.ValidBytes() == 0 {
			t.Fatalf("log at offset %d: %d bytes of messages, %v", offset, it.ValidBytes(), it.Err())
		}
		offset += int64(it.ValidBytes())
	}
}

// closedAddr returns an address at which nobody listens.
func closedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
