package audit

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// shortWindow is that of tests with brokers, and shortGrace how long they wait for what
// has come to its end already.
const (
	shortWindow = 200 * time.Millisecond
	shortGrace  = time.Millisecond
)

// cluster is a live cluster of two brokers, of which each has two partitions of a topic.
type cluster struct {
	testing.TB
	brokers  []*kafkatest.Broker
	registry *registry.Registry
	dir      string
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	zk := zktest.Start(t, zktest.Embedded)
	c := &cluster{TB: t, dir: t.TempDir()}
	for i := range int32(2) {
		c.brokers = append(c.brokers, kafkatest.Start(t, kafkatest.WithID(i), kafkatest.WithZooKeeper(zk.Direct()),
			func(cfg *broker.Config) { cfg.Storage.DefaultPartitions = 2 }))
	}
	client, err := coord.Connect(testContext(t), coord.Config{Servers: zk.Direct(), SessionTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	c.registry = registry.New(client)
	return c
}

// producer returns what publishes to the cluster, closed at the end of the test.
func (c *cluster) producer(acks producer.Acks) *producer.Cluster {
	c.Helper()
	p, err := producer.OpenCluster(testContext(c), producer.ClusterConfig{Config: producer.Config{Acks: acks}, Registry: c.registry})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			c.Error(err)
		}
	})
	return p
}

// audited returns an audited producer of a server, whose messages go through messages.
func (c *cluster) audited(server string, messages Sender) *Producer {
	c.Helper()
	p, err := NewProducer(ProducerConfig{
		Messages: messages, Acked: true, Events: c.producer(producer.AcksFlushed), Server: server, Window: shortWindow,
	})
	if err != nil {
		c.Fatal(err)
	}
	return p
}

// watch starts a watcher of a tier; the test closes it.
func (c *cluster) watch(tier string) *Watcher {
	c.Helper()
	w, err := OpenWatcher(testContext(c), WatchConfig{
		CheckerConfig: CheckerConfig{
			Tier: tier, Topics: []string{"clicks"}, Window: shortWindow, State: c.state(tier),
			Logger: slog.New(slog.NewTextHandler(c.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Registry: c.registry, EventTopic: DefaultTopic, SaveInterval: 50 * time.Millisecond,
	})
	if err != nil {
		c.Fatal(err)
	}
	return w
}

func (c *cluster) state(tier string) string { return filepath.Join(c.dir, tier+".state") }

func (c *cluster) close(w *Watcher) {
	c.Helper()
	if err := w.Close(testContext(c)); err != nil {
		c.Fatal(err)
	}
}

// report compares the written states of tiers.
func (c *cluster) report(tiers ...string) *Report {
	c.Helper()
	var states []*State
	for _, t := range tiers {
		s, err := ReadState(c.state(t))
		if err != nil {
			c.Fatal(err)
		}
		states = append(states, s)
	}
	r, err := Compare(states, ReportOptions{At: time.Now(), Grace: shortGrace})
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// await reports until it is as wanted, which is to come.
func (c *cluster) await(what string, wanted func(*Report) bool, tiers ...string) *Report {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		r := c.report(tiers...)
		if wanted(r) {
			return r
		}
		if time.Now().After(deadline) {
			c.Fatalf("not %s within a minute: %s", what, text(c, r))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settled says that a report has windows, all of which were judged.
func settled(made uint64) func(*Report) bool {
	return func(r *Report) bool {
		for _, t := range r.Tiers {
			if t.Made != made || t.Open > 0 || t.CaughtUp.IsZero() {
				return false
			}
		}
		return true
	}
}
