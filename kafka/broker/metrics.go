package broker

import (
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// maxTopicSeries is how many topics have counters of their own. Clients make
// topics as they like, and each costs the server of the metrics memory for
// years: the topics beyond it are counted together, as otherTopics.
const maxTopicSeries = 1000

// otherTopics cannot be the name of a topic.
const otherTopics = "/other"

// metrics are the broker's own counters. They are moved once per group of sets,
// answer or event, never per message; what can be read off the logs is not
// counted, see stateCollector.
type metrics struct {
	registry *prometheus.Registry
	logs     *atomic.Pointer[storage.Manager] // the server's

	// Vectors by topic, in the order of the fields of topicMetrics.
	topicVecs []*prometheus.CounterVec
	byLog     sync.Map // *storage.Log → *topicMetrics
	topicsMu  sync.Mutex
	byTopic   map[string]*topicMetrics // guarded by topicsMu
	others    *topicMetrics            // of topics beyond maxTopicSeries; made with the first, guarded by topicsMu
	nowhere   *topicMetrics            // of deleted topics, in no registry

	requests                   [requestTypes]prometheus.Counter // nil where no type is
	latencies                  [requestTypes]histogram
	flushes                    histogram
	failedFlushes              prometheus.Counter
	sentByKernel, sentByCopy   prometheus.Counter
	failedProduce, fetchErrors prometheus.Counter
	badFrames, storageErrors   prometheus.Counter
	panics, acceptErrors       prometheus.Counter
	conns, waiting             prometheus.Gauge
	connsOpened, refusedConns  prometheus.Counter
	timedOutConns              prometheus.Counter
}

// topicMetrics are the counters of one topic.
type topicMetrics struct {
	messagesIn, bytesIn, messagesOut, bytesOut prometheus.Counter
	deletedSegments, deletedBytes              prometheus.Counter

	// What was appended since the start; the quotient is the mean size of a
	// message, in bytes of log.
	messages, bytes atomic.Int64
}

// runtimeMetrics are shown of Go's runtime beside what the collector shows
// anyway: the processor time that garbage collection takes, and how often it
// runs. That it is little, since no messages are kept in the process, is what
// NetDB'11 §3.1 says.
var runtimeMetrics = []collectors.GoRuntimeMetricsRule{
	{Matcher: regexp.MustCompile(`^/cpu/classes/(gc/.*|total:cpu-seconds)$`)},
	{Matcher: regexp.MustCompile(`^/gc/cycles/.*`)},
}

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), logs: &s.opened, byTopic: make(map[string]*topicMetrics)}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "kafka_broker_" + name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kafka_broker_" + name, Help: help}, []string{label})
		m.registry.MustRegister(v)
		return v
	}
	for _, t := range []struct{ name, help string }{
		{"messages_in_total", "Messages appended, those inside compressed ones counted one by one."},
		{"bytes_in_total", "Bytes of message sets appended."},
		{"messages_out_total", "Messages sent to consumers. An estimate, as the broker does not look into what it sends: the bytes sent, divided by the mean size of the messages appended to the topic since the broker started. Nothing is added before the first append."},
		{"bytes_out_total", "Bytes of message sets sent to consumers."},
		{"retention_deleted_segments_total", "Segment files deleted by retention, by age or by size."},
		{"retention_deleted_bytes_total", "Bytes of the segment files deleted by retention."},
	} {
		m.topicVecs = append(m.topicVecs, vec(t.name, t.help+` Topics beyond the first 1000 are counted together as topic="`+otherTopics+`".`, "topic"))
	}
	nowhere := prometheus.NewCounter(prometheus.CounterOpts{Name: "deleted"})
	m.nowhere = &topicMetrics{messagesIn: nowhere, bytesIn: nowhere, messagesOut: nowhere, bytesOut: nowhere, deletedSegments: nowhere, deletedBytes: nowhere}
	sent := vec("sent_bytes_total", "Bytes of message sets sent, by the way they took: inside the kernel, or copied through the process.", "path")
	m.sentByKernel, m.sentByCopy = sent.WithLabelValues("sendfile"), sent.WithLabelValues("copy")
	requests := vec("requests_total", "Requests read.", "type")
	for t := range requestTypes {
		if known(wire.Type(t)) {
			m.requests[t] = requests.WithLabelValues(wire.Type(t).String())
		}
	}
	m.failedFlushes = counter("flushes_failed_total", "Flushes of a partition that the disk failed.")
	m.failedProduce = counter("failed_produce_total", "Message sets, or groups of them, that were not appended.")
	m.fetchErrors = counter("fetch_errors_total", "Fetch entries and Offsets requests that were refused or failed.")
	m.badFrames = counter("bad_frames_total", "Connections closed because their bytes were no request.")
	m.storageErrors = counter("storage_errors_total", "Appends, flushes and reads that the disk failed.")
	m.panics = counter("panics_total", "Connections closed by a broken invariant.")
	m.acceptErrors = counter("accept_errors_total", "Failed attempts to accept a connection.")
	m.connsOpened = counter("connections_total", "Connections accepted.")
	m.refusedConns = counter("connections_refused_total", "Connections closed at once because too many were open.")
	m.timedOutConns = counter("connections_timed_out_total", "Connections closed because the peer stood still.")
	m.conns = prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_broker_connections", Help: "Connections open."})
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_broker_waiting_fetches", Help: "WaitFetch requests that wait for something to become visible."})
	m.registry.MustRegister(m.conns, m.waiting, &stateCollector{s}, &registrationCollector{s}, &durationCollector{m},
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(runtimeMetrics...)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// topic returns the counters of a log's topic.
func (m *metrics) topic(log *storage.Log) *topicMetrics {
	if t, ok := m.byLog.Load(log); ok {
		return t.(*topicMetrics)
	}
	m.topicsMu.Lock()
	defer m.topicsMu.Unlock()
	name := log.Topic()
	// A log that is not in the table any more was found before its topic was
	// deleted: counting it would bring the topic's series back.
	if logs := m.logs.Load(); logs == nil || logs.Lookup([]byte(name), log.Partition()) != log {
		return m.nowhere
	}
	t := m.byTopic[name]
	switch {
	case t != nil:
	case len(m.byTopic) < maxTopicSeries:
		t = m.newTopic(name)
		m.byTopic[name] = t
	default:
		if m.others == nil {
			m.others = m.newTopic(otherTopics)
		}
		t = m.others
	}
	m.byLog.Store(log, t)
	return t
}

func (m *metrics) newTopic(label string) *topicMetrics {
	var c [6]prometheus.Counter
	for i, v := range m.topicVecs {
		c[i] = v.WithLabelValues(label)
	}
	return &topicMetrics{messagesIn: c[0], bytesIn: c[1], messagesOut: c[2], bytesOut: c[3], deletedSegments: c[4], deletedBytes: c[5]}
}

// dropTopic forgets the counters of a topic that was deleted.
func (m *metrics) dropTopic(name string) {
	m.topicsMu.Lock()
	defer m.topicsMu.Unlock()
	m.byLog.Range(func(log, _ any) bool {
		if log.(*storage.Log).Topic() == name {
			m.byLog.Delete(log)
		}
		return true
	})
	delete(m.byTopic, name)
	for _, v := range m.topicVecs {
		v.DeleteLabelValues(name)
	}
}

// appended counts a group.
func (t *topicMetrics) appended(messages, bytes int) {
	t.messagesIn.Add(float64(messages))
	t.bytesIn.Add(float64(bytes))
	t.messages.Add(int64(messages))
	t.bytes.Add(int64(bytes))
}

// sent counts bytes of one answer.
func (t *topicMetrics) sent(bytes int) {
	t.bytesOut.Add(float64(bytes))
	if total := t.bytes.Load(); total > 0 {
		t.messagesOut.Add(float64(bytes) * float64(t.messages.Load()) / float64(total))
	}
}

// deleted counts what retention deleted.
func (t *topicMetrics) deleted(segments int, bytes int64) {
	t.deletedSegments.Add(float64(segments))
	t.deletedBytes.Add(float64(bytes))
}

// durationCollector describes the histograms.
type durationCollector struct{ m *metrics }

var (
	descRequests = prometheus.NewDesc("kafka_broker_request_duration_seconds",
		"Time from the read that completed a request to the end of its handling, with that of all requests which came with the same read. WaitFetch includes the wait that it asked for, AckedProduce that for its flush.",
		[]string{"type"}, nil)
	descFlushes = prometheus.NewDesc("kafka_broker_flush_duration_seconds", "Time of one flush of a partition to the disk.", nil, nil)
)

func (c *durationCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descRequests
	ch <- descFlushes
}

func (c *durationCollector) Collect(ch chan<- prometheus.Metric) {
	for t := range requestTypes {
		if known(wire.Type(t)) {
			ch <- c.m.latencies[t].metric(descRequests, wire.Type(t).String())
		}
	}
	ch <- c.m.flushes.metric(descFlushes)
}
