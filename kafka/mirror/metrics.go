package mirror

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kafkalab/kafka/consumer"
)

// collector reads the metrics of a mirror.
type collector struct{ m *Mirror }

// NewCollector returns the metrics of a mirror, kafka_mirror_…, for a registry of
// Prometheus. Collecting them asks the brokers of the partitions owned for the ends of
// their logs, for up to two seconds; the lag of those that do not answer is left out.
func NewCollector(m *Mirror) prometheus.Collector { return collector{m} }

// GroupCollectors returns the metrics of the mirror's members in the groups of its
// sources, by the sources' names. Their lag is what was not read yet, and not what was
// not copied yet.
func GroupCollectors(m *Mirror) map[string]prometheus.Collector {
	byName := make(map[string]prometheus.Collector, len(m.sources))
	for _, s := range m.sources {
		byName[s.name] = consumer.NewGroupCollector(s.group)
	}
	return byName
}

// lagTimeout bounds the wait for brokers when metrics are collected.
const lagTimeout = 2 * time.Second

// metric is one that is read off the statistics.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) int64
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_mirror_"+name, help, labels, nil)
}

func counter(name, help string, value func(Stats) int64) metric {
	return metric{desc(name, help), prometheus.CounterValue, value}
}

func gauge(name, help string, value func(Stats) int64) metric {
	return metric{desc(name, help), prometheus.GaugeValue, value}
}

var metricList = []metric{
	counter("messages_total", "Messages that the target has acknowledged as flushed; a compressed one counts as one.", func(st Stats) int64 { return st.Messages }),
	counter("bytes_total", "Bytes of log that the target has acknowledged as flushed.", func(st Stats) int64 { return st.Bytes }),
	counter("repeated_messages_total", "Messages whose acknowledgement was lost and that are sent again, so that the target may have them twice.", func(st Stats) int64 { return st.RepeatedMessages }),
	counter("repeated_bytes_total", "Bytes of the messages that are sent again.", func(st Stats) int64 { return st.RepeatedBytes }),
	counter("gaps_total", "Times that the source had deleted what was not copied yet.", func(st Stats) int64 { return st.Gaps }),
	counter("restarts_total", "Logs of the source that were made anew, and are copied from their beginning.", func(st Stats) int64 { return st.Restarts }),
	counter("source_failures_total", "Times that a partition of the source could not be read.", func(st Stats) int64 { return st.SourceFailures }),
	counter("commits_total", "Offsets written to the source's ZooKeeper.", func(st Stats) int64 { return st.Commits }),
	counter("commit_failures_total", "Commits of which some offsets could not be written.", func(st Stats) int64 { return st.CommitFailures }),
	gauge("partitions", "Partitions of sources that this mirror owns and copies.", func(st Stats) int64 { return int64(st.Partitions) }),
	gauge("partitions_stalled", "Partitions of which nothing can be read, or gets through to the target, at present.", func(st Stats) int64 { return int64(st.Stalled) }),
	gauge("buffered_bytes", "Bytes that are read and not flushed at the target yet.", func(st Stats) int64 { return st.BufferedBytes }),
}

var (
	lagDesc = desc("lag_bytes", "Bytes of a source partition's log that are not flushed at the target yet.", "source", "topic", "partition")
	gapDesc = desc("gap_bytes_total", "Bytes of a source partition's log that were deleted before they were copied.", "source", "topic", "partition")
)

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metricList {
		ch <- m.desc
	}
	ch <- lagDesc
	ch <- gapDesc
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.m.Stats()
	for _, m := range metricList {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value(st)))
	}
	for k, bytes := range c.m.counts.gapBytes() {
		ch <- prometheus.MustNewConstMetric(gapDesc, prometheus.CounterValue, float64(bytes), k.source, k.Topic, k.Partition.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	lags, err := c.m.Lag(ctx)
	if err != nil {
		c.m.cfg.Logger.Warn("lag is not known of all partitions", "error", err)
	}
	for _, l := range lags {
		ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(l.Lag), l.Source, l.Topic, l.Partition.String())
	}
}
