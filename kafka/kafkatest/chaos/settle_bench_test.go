package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// quietTime is how long requests to ZooKeeper are counted while nothing changes.
const quietTime = 20 * time.Second

// BenchmarkSettle measures how long a group takes, on 64 partitions of four
// brokers, until every partition has an owner again and the owners have equal
// shares: after a consumer has joined, and after one has left (claim C17). Each
// iteration is one of both. Then it counts the requests to ZooKeeper while nothing
// changes (C18), those of the whole group, pings apart.
func BenchmarkSettle(b *testing.B) {
	for _, kind := range []zktest.Kind{zktest.Embedded, zktest.Ensemble} {
		for _, consumers := range []int{2, 8, 20} {
			b.Run(fmt.Sprintf("%v/consumers=%d", kind, consumers), func(b *testing.B) { benchmarkSettle(b, kind, consumers) })
		}
	}
}

func benchmarkSettle(b *testing.B, kind zktest.Kind, consumers int) {
	s := &settling{b: b, zk: zktest.Start(b, kind)}
	s.open()
	for range consumers - 1 {
		s.join()
	}
	s.settled()
	var joined, left []time.Duration
	for b.Loop() {
		began := time.Now()
		s.join()
		s.settled()
		joined = append(joined, time.Since(began))
		began = time.Now()
		s.leave()
		s.settled()
		left = append(left, time.Since(began))
	}
	s.join()
	s.settled()
	before := s.zk.Requests()
	time.Sleep(quietTime) // what is measured is a time in which nothing happens
	requests := s.zk.Requests() - before
	report := func(name string, d []time.Duration) {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Milliseconds()), name+"-median-ms")
		b.ReportMetric(float64(d[len(d)-1].Milliseconds()), name+"-worst-ms")
	}
	report("join", joined)
	report("leave", left)
	b.ReportMetric(float64(requests)/quietTime.Seconds(), "zk-requests/s")
	b.ReportMetric(0, "ns/op") // says nothing
}

// settling is a group of consumers in this process.
type settling struct {
	b        *testing.B
	zk       *zktest.Cluster
	registry *registry.Registry
	members  []*consumer.Group
}

const (
	benchBrokers    = 4
	benchPartitions = 16 // of each
)

func (s *settling) open() {
	s.b.Helper()
	client, err := coord.Connect(context.Background(), coord.Config{Servers: s.zk.Direct()})
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() {
		for len(s.members) > 0 {
			s.leave()
		}
		if err := client.Close(); err != nil {
			s.b.Error(err)
		}
	})
	s.registry = registry.New(client)
	for i := range int32(benchBrokers) {
		s.broker(i)
	}
}

func (s *settling) broker(id int32) {
	s.b.Helper()
	broker := kafkatest.Start(s.b, func(c *broker.Config) {
		c.ID = id
		c.ZooKeeper.Servers = s.zk.Direct()
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, broker.HostPort(), client.Config{})
	if err != nil {
		s.b.Fatal(err)
	}
	defer c.Close()
	if err := c.CreateTopic(ctx, topic, benchPartitions); err != nil {
		s.b.Fatal(err)
	}
}

func (s *settling) join() {
	s.b.Helper()
	g, err := consumer.OpenGroup(context.Background(), consumer.GroupConfig{
		ZooKeeper: coord.Config{Servers: s.zk.Connect()}, Group: group, Topics: map[string]int{topic: 1},
	})
	if err != nil {
		s.b.Fatal(err)
	}
	s.members = append(s.members, g)
}

// leave ends the consumer that has been there the longest.
func (s *settling) leave() {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.members[0].Close(ctx); err != nil {
		s.b.Fatal(err)
	}
	s.members = s.members[1:]
}

// settled waits until every partition has an owner and no two of the consumers
// differ by more than one partition.
func (s *settling) settled() {
	s.b.Helper()
	var why string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if why = s.unsettled(); why == "" {
			return
		}
	}
	s.b.Fatalf("not settled within %v: %s", patience, why)
}

func (s *settling) unsettled() string {
	owners, err := s.registry.Owners(context.Background(), group, topic)
	if err != nil {
		return err.Error()
	}
	if len(owners) < benchBrokers*benchPartitions {
		return fmt.Sprintf("%d of %d partitions have an owner", len(owners), benchBrokers*benchPartitions)
	}
	shares := make(map[string]int)
	for _, thread := range owners {
		shares[thread]++
	}
	least, most := len(owners), 0
	for _, g := range s.members {
		n := shares[registry.ThreadID(g.ID(), 0)]
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		return fmt.Sprintf("shares from %d to %d", least, most)
	}
	return ""
}
