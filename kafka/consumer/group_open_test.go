package consumer_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

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
