package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// GroupStats says how one consumer of a group fares. Counters are since OpenGroup.
type GroupStats struct {
	Sessions int64 // in which the consumer was registered; each but the first says that one has expired

	Rebalances int64 // that have succeeded
	Tries      int64 // of rebalances, those that succeeded among them
	Failed     int64 // rebalances that needed more than RebalanceTries; they were tried again
	LastTries  int   // of the last rebalance that succeeded
	// LastSettle is the time from the last change to which the consumer had settled
	// down until it had again: several changes at once count as one.
	LastSettle time.Duration

	Owned   int // partitions
	Unowned int // partitions that this consumer should own, and does not yet
	Waiting int // partitions owned that are not read, as the broker's address or the offset is not known

	Commits        int64 // offsets written
	CommitFailures int64 // offsets that could not be written
	Resets         int64 // times that an offset was out of range

	Messages int64 // handed out
	Bytes    int64 // of their payloads
}

// Stats returns the counts so far.
func (g *Group) Stats() GroupStats {
	g.mu.Lock()
	st := g.stats
	var feeds []*feed
	for _, o := range g.owned {
		st.Owned++
		if o.feed == nil {
			st.Waiting++
		} else {
			feeds = append(feeds, o.feed)
		}
	}
	for tp, thread := range g.wanted {
		if o := g.owned[tp]; o == nil || o.leaving || o.claim.Thread != thread {
			st.Unowned++
		}
	}
	g.mu.Unlock()
	for _, f := range feeds {
		messages, bytes := f.counts()
		st.Messages += messages
		st.Bytes += bytes
	}
	return st
}

// count changes the counters.
func (g *Group) count(f func(*GroupStats)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.stats)
}

// groupMetrics are the distributions, which GroupStats cannot hold.
type groupMetrics struct {
	tries  prometheus.Histogram
	settle prometheus.Histogram
}

func newGroupMetrics() groupMetrics {
	return groupMetrics{
		tries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kafka_consumer_rebalance_tries",
			Help:    "Tries that a rebalance took until it succeeded.",
			Buckets: []float64{1, 2, 3, 4, 6, 8, 16, 32, 64},
		}),
		settle: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kafka_consumer_settle_seconds",
			Help:    "Time from a change in the group until this consumer owned all that it should again.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14), // 10 ms to 82 s
		}),
	}
}

// groupCollector reads the metrics of a consumer of a group.
type groupCollector struct{ g *Group }

// NewGroupCollector returns the metrics of a consumer of a group, kafka_consumer_…,
// for a registry of Prometheus. Several in one registry need labels that tell them
// apart (prometheus.WrapRegistererWith). Collecting them asks the brokers of the
// partitions owned for the ends of their logs, for up to two seconds; the lag of
// those that do not answer is left out.
func NewGroupCollector(g *Group) prometheus.Collector { return groupCollector{g} }

// groupMetric is one that is read off the statistics.
type groupMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(GroupStats) float64
}

var groupMetricList = []groupMetric{
	groupCounter("sessions_total", "Sessions with ZooKeeper in which the consumer was registered.", func(st GroupStats) int64 { return st.Sessions }),
	groupCounter("rebalances_total", "Rebalances that have succeeded.", func(st GroupStats) int64 { return st.Rebalances }),
	groupCounter("rebalance_attempts_total", "Tries of rebalances.", func(st GroupStats) int64 { return st.Tries }),
	groupCounter("rebalances_failed_total", "Rebalances that have failed after all their tries, and were tried again.", func(st GroupStats) int64 { return st.Failed }),
	groupGauge("partitions_owned", "Partitions that this consumer owns.", func(st GroupStats) int { return st.Owned }),
	groupGauge("partitions_unowned", "Partitions that this consumer should own, and does not.", func(st GroupStats) int { return st.Unowned }),
	groupGauge("partitions_waiting", "Partitions owned that are not read, as the broker's address or the offset is not known.", func(st GroupStats) int { return st.Waiting }),
	groupCounter("commits_total", "Offsets written to ZooKeeper.", func(st GroupStats) int64 { return st.Commits }),
	groupCounter("commit_failures_total", "Offsets that could not be written to ZooKeeper.", func(st GroupStats) int64 { return st.CommitFailures }),
	groupCounter("offset_resets_total", "Times that an offset was out of range.", func(st GroupStats) int64 { return st.Resets }),
	groupCounter("messages_total", "Messages handed out.", func(st GroupStats) int64 { return st.Messages }),
	groupCounter("bytes_total", "Bytes of the payloads handed out.", func(st GroupStats) int64 { return st.Bytes }),
}

func groupCounter(name, help string, value func(GroupStats) int64) groupMetric {
	return groupMetric{groupDesc(name, help), prometheus.CounterValue, func(st GroupStats) float64 { return float64(value(st)) }}
}

func groupGauge(name, help string, value func(GroupStats) int) groupMetric {
	return groupMetric{groupDesc(name, help), prometheus.GaugeValue, func(st GroupStats) float64 { return float64(value(st)) }}
}

func groupDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_consumer_"+name, help, labels, nil)
}

var lagDesc = groupDesc("lag_bytes", "Bytes of log between what was consumed of a partition and the end of what can be fetched.", "topic", "partition")

// Describe implements [prometheus.Collector].
func (c groupCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range groupMetricList {
		ch <- m.desc
	}
	ch <- lagDesc
	c.g.metrics.tries.Describe(ch)
	c.g.metrics.settle.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (c groupCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.g.Stats()
	for _, m := range groupMetricList {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(st))
	}
	for _, l := range c.g.lagForMetrics() {
		ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(l.Lag), l.Topic, l.Partition.String())
	}
	c.g.metrics.tries.Collect(ch)
	c.g.metrics.settle.Collect(ch)
}
