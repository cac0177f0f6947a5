package audit

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a watcher. Topics and partitions are those that are watched, so their
// number is the user's; servers and producers have no series of their own.
var (
	messagesDesc = prometheus.NewDesc("kafka_audit_messages_total", "Messages consumed, but those that were counted before.", []string{"tier", "topic"}, nil)
	problemsDesc = prometheus.NewDesc("kafka_audit_uncounted_messages_total",
		"Messages that are not counted by windows: not_enveloped, malformed, late (their window is no longer kept), future, limit.", []string{"tier", "topic", "reason"}, nil)
	eventsDesc     = prometheus.NewDesc("kafka_audit_events_total", "Monitoring events consumed.", []string{"tier"}, nil)
	badEventsDesc  = prometheus.NewDesc("kafka_audit_uncounted_events_total", "Monitoring events that are not counted: malformed, late, future, limit.", []string{"tier", "reason"}, nil)
	windowsDesc    = prometheus.NewDesc("kafka_audit_windows", "Windows that are kept in detail, of each topic and server, by verdict.", []string{"tier", "topic", "verdict"}, nil)
	madeDesc       = prometheus.NewDesc("kafka_audit_made_messages", "Messages of these windows that were made, by the events.", []string{"tier", "topic"}, nil)
	countedDesc    = prometheus.NewDesc("kafka_audit_counted_messages", "Messages of these windows that have come, each once.", []string{"tier", "topic"}, nil)
	missingDesc    = prometheus.NewDesc("kafka_audit_missing_messages", "Messages of these windows that are missing.", []string{"tier", "topic"}, nil)
	doubledDesc    = prometheus.NewDesc("kafka_audit_doubled_messages", "Messages of these windows that have come beyond once each.", []string{"tier", "topic"}, nil)
	unreportedDesc = prometheus.NewDesc("kafka_audit_unreported_messages", "Messages of these windows that no event tells of.", []string{"tier", "topic"}, nil)
	lagDesc        = prometheus.NewDesc("kafka_audit_lag_bytes", "Bytes of the log that are visible and not counted yet.", []string{"tier", "topic", "broker", "partition"}, nil)
	stalledDesc    = prometheus.NewDesc("kafka_audit_partitions_stalled", "Partitions that stand still.", []string{"tier"}, nil)
	skippedDesc    = prometheus.NewDesc("kafka_audit_skipped_bytes_total", "Bytes of the logs that were deleted before they were counted.", []string{"tier", "topic"}, nil)
	caughtUpDesc   = prometheus.NewDesc("kafka_audit_caught_up_timestamp_seconds", "When the tier was last known to hold nothing that is not counted; 0: never yet.", []string{"tier"}, nil)
	unsavedDesc    = prometheus.NewDesc("kafka_audit_state_unsaved", "1 while positions and counts cannot be written.", []string{"tier"}, nil)
)

// watcherCollector reads metrics off a watcher.
type watcherCollector struct{ w *Watcher }

// Collector returns the metrics of the watcher. Each collection compares the messages
// with the events of its own tier, as a report does, and holds up counting meanwhile.
func (w *Watcher) Collector() prometheus.Collector { return watcherCollector{w} }

// Describe implements [prometheus.Collector].
func (c watcherCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		messagesDesc, problemsDesc, eventsDesc, badEventsDesc, windowsDesc, madeDesc, countedDesc, missingDesc, doubledDesc,
		unreportedDesc, lagDesc, stalledDesc, skippedDesc, caughtUpDesc, unsavedDesc,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c watcherCollector) Collect(to chan<- prometheus.Metric) {
	k := c.w.checker
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{k.cfg.Tier}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{k.cfg.Tier}, labels...)...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fillState(k.cfg.Clock.Now())
	for topic, of := range k.state.Topics {
		counter(messagesDesc, float64(of.Messages), topic)
		for reason, n := range map[string]int64{
			"not_enveloped": of.NotEnvelope, "malformed": of.Malformed, "late": of.Late, "future": of.Future, "limit": of.Uncounted,
		} {
			counter(problemsDesc, float64(n), topic, reason)
		}
	}
	e := k.state.Events
	counter(eventsDesc, float64(e.Events))
	for reason, n := range map[string]int64{"malformed": e.Malformed, "late": e.Late, "future": e.Future, "limit": e.Uncounted} {
		counter(badEventsDesc, float64(n), reason)
	}
	c.collectWindows(gauge)
	c.collectPartitions(gauge, counter)
	caughtUp := 0.0
	if at := k.state.CaughtUp; !at.IsZero() {
		caughtUp = float64(at.UnixMilli()) / 1000
	}
	gauge(caughtUpDesc, caughtUp)
	unsaved := 0.0
	if k.saveErr != nil {
		unsaved = 1
	}
	gauge(unsavedDesc, unsaved)
}

// collectWindows sums up the windows by topic. The checker's mu is held.
func (c watcherCollector) collectWindows(gauge func(*prometheus.Desc, float64, ...string)) {
	k := c.w.checker
	report, err := Compare([]*State{k.state}, ReportOptions{At: time.Now()})
	if err != nil {
		k.cfg.Logger.Warn("no metrics of windows", "error", err)
		return
	}
	type sums struct {
		TierSums
		verdicts map[Verdict]int
	}
	topics := map[string]*sums{}
	for topic := range k.state.Topics {
		topics[topic] = &sums{verdicts: map[Verdict]int{Complete: 0, Doubled: 0, Missing: 0, Open: 0, Unreported: 0}}
	}
	for i := range report.Rows {
		r := &report.Rows[i]
		topics[r.Topic].add(r)
		topics[r.Topic].verdicts[r.Verdict]++
	}
	for topic, s := range topics {
		for verdict, n := range s.verdicts {
			gauge(windowsDesc, float64(n), topic, string(verdict))
		}
		gauge(madeDesc, float64(s.Made), topic)
		gauge(countedDesc, float64(s.Counted), topic)
		gauge(missingDesc, float64(s.Missing), topic)
		gauge(doubledDesc, float64(s.Doubled), topic)
		gauge(unreportedDesc, float64(s.Unreported), topic)
	}
}

// collectPartitions tells how the partitions are doing. The checker's mu is held.
func (c watcherCollector) collectPartitions(gauge, counter func(*prometheus.Desc, float64, ...string)) {
	stalled, skipped := 0, map[string]int64{}
	for _, topic := range c.w.topics() {
		skipped[topic] = 0
	}
	for key, p := range c.w.checker.positions {
		if p.Problem != "" {
			stalled++
		}
		skipped[key.topic] += p.Skipped + p.Gone
	}
	gauge(stalledDesc, float64(stalled))
	for topic, n := range skipped {
		counter(skippedDesc, float64(n), topic)
	}
	// A look at the ends takes the checker's lock and this one after the other.
	c.w.lags.mu.Lock()
	defer c.w.lags.mu.Unlock()
	for key, n := range c.w.lags.bytes {
		gauge(lagDesc, float64(n), key.topic, strconv.Itoa(int(key.broker)), strconv.Itoa(int(key.partition)))
	}
}
