package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// metrics are the broker's own. They are moved once per group of sets, answer
// or event, never per message. Messages that go out are not counted: the broker
// does not look into what it sends.
type metrics struct {
	registry *prometheus.Registry

	messagesIn, topicBytesIn, topicBytesOut *prometheus.CounterVec
	topics                                  sync.Map // *storage.Log → *topicMetrics
	topicsMu                                sync.Mutex
	nowhere                                 *topicMetrics // of deleted topics, in no registry

	requests                   [requestTypes]prometheus.Counter // nil where no type is
	sentByKernel, sentByCopy   prometheus.Counter
	failedProduce, fetchErrors prometheus.Counter
	badFrames, storageErrors   prometheus.Counter
	panics, acceptErrors       prometheus.Counter
	conns                      prometheus.Gauge
	connsOpened, refusedConns  prometheus.Counter
	timedOutConns              prometheus.Counter
}

// topicMetrics are the counters of one topic.
type topicMetrics struct{ messagesIn, bytesIn, bytesOut prometheus.Counter }

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		m.registry.MustRegister(v)
		return v
	}
	m.messagesIn = vec("kafka_broker_messages_in_total", "Messages appended.", "topic")
	m.topicBytesIn = vec("kafka_broker_bytes_in_total", "Bytes of message sets appended.", "topic")
	m.topicBytesOut = vec("kafka_broker_bytes_out_total", "Bytes of message sets sent to consumers.", "topic")
	uncounted := prometheus.NewCounter(prometheus.CounterOpts{Name: "deleted"})
	m.nowhere = &topicMetrics{uncounted, uncounted, uncounted}
	sent := vec("kafka_broker_sent_bytes_total", "Bytes of message sets sent, by the way they took.", "path")
	m.sentByKernel, m.sentByCopy = sent.WithLabelValues("sendfile"), sent.WithLabelValues("copy")
	requests := vec("kafka_broker_requests_total", "Requests read.", "type")
	for t := range requestTypes {
		if known(wire.Type(t)) {
			m.requests[t] = requests.WithLabelValues(wire.Type(t).String())
		}
	}
	m.failedProduce = counter("kafka_broker_failed_produce_total", "Message sets, or groups of them, that were not appended.")
	m.fetchErrors = counter("kafka_broker_fetch_errors_total", "Fetch entries and Offsets requests that were refused or failed.")
	m.badFrames = counter("kafka_broker_bad_frames_total", "Connections closed because their bytes were no request.")
	m.storageErrors = counter("kafka_broker_storage_errors_total", "Appends, flushes and reads that the disk failed.")
	m.panics = counter("kafka_broker_panics_total", "Connections closed by a broken invariant.")
	m.acceptErrors = counter("kafka_broker_accept_errors_total", "Failed attempts to accept a connection.")
	m.connsOpened = counter("kafka_broker_connections_total", "Connections accepted.")
	m.refusedConns = counter("kafka_broker_connections_refused_total", "Connections closed at once because too many were open.")
	m.timedOutConns = counter("kafka_broker_connections_timed_out_total", "Connections closed because the peer stood still.")
	m.conns = prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_broker_connections", Help: "Connections open."})
	m.registry.MustRegister(m.conns, &logCollector{logs: s.logs},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// topic returns the counters of a log's topic.
func (m *metrics) topic(log *storage.Log) *topicMetrics {
	if t, ok := m.topics.Load(log); ok {
		return t.(*topicMetrics)
	}
	m.topicsMu.Lock()
	defer m.topicsMu.Unlock()
	if errors.Is(log.Err(), storage.ErrNoSuchTopic) {
		return m.nowhere // a request that found the log before its deletion
	}
	name := log.Topic()
	t, _ := m.topics.LoadOrStore(log, &topicMetrics{
		messagesIn: m.messagesIn.WithLabelValues(name),
		bytesIn:    m.topicBytesIn.WithLabelValues(name),
		bytesOut:   m.topicBytesOut.WithLabelValues(name),
	})
	return t.(*topicMetrics)
}

// dropTopic forgets the counters of a topic that was deleted.
func (m *metrics) dropTopic(name string) {
	m.topicsMu.Lock()
	defer m.topicsMu.Unlock()
	m.topics.Range(func(log, _ any) bool {
		if log.(*storage.Log).Topic() == name {
			m.topics.Delete(log)
		}
		return true
	})
	for _, v := range []*prometheus.CounterVec{m.messagesIn, m.topicBytesIn, m.topicBytesOut} {
		v.DeleteLabelValues(name)
	}
}

// logCollector describes the logs at the moment when it is asked.
type logCollector struct{ logs *storage.Manager }

func logDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_broker_log_"+name, help, []string{"topic", "partition"}, nil)
}

var (
	descFirst     = logDesc("first_offset", "Smallest offset that can be fetched.")
	descWatermark = logDesc("watermark_offset", "Exclusive end of what is visible.")
	descEnd       = logDesc("end_offset", "Exclusive end of what is appended.")
	descFlushed   = logDesc("flushed_offset", "Exclusive end of what is flushed.")
	descSegments  = logDesc("segments", "Segment files.")
	descInService = logDesc("in_service", "1 if the partition takes appends, 0 after a failed write or flush.")
)

func (c *logCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descFirst, descWatermark, descEnd, descFlushed, descSegments, descInService} {
		ch <- d
	}
}

func (c *logCollector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range c.logs.Logs() {
		st := l.State()
		inService := 1.0
		if l.Err() != nil {
			inService = 0
		}
		for _, v := range []struct {
			desc  *prometheus.Desc
			value float64
		}{
			{descFirst, float64(st.First)}, {descWatermark, float64(st.Watermark)}, {descEnd, float64(st.LogEnd)},
			{descFlushed, float64(st.Flushed)}, {descSegments, float64(st.Segments)}, {descInService, inService},
		} {
			ch <- prometheus.MustNewConstMetric(v.desc, prometheus.GaugeValue, v.value, l.Topic(), strconv.Itoa(int(l.Partition())))
		}
	}
}

// webServer serves /metrics and /healthz.
type webServer struct {
	http     http.Server
	listener net.Listener
}

func (s *Server) listenWeb(ctx context.Context) (*webServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.MetricsListen)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.healthz)
	return &webServer{listener: l, http: http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}}, nil
}

func (s *Server) serveWeb() {
	defer s.tasks.Done()
	if err := s.web.http.Serve(s.web.listener); !errors.Is(err, http.ErrServerClosed) {
		s.fail(fmt.Errorf("metrics server on %v: %w", s.MetricsAddr(), err))
	}
}

// closeWeb ends the web server; scrapes under way get a second.
func (s *Server) closeWeb(ctx context.Context) error {
	if s.web == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.web.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("metrics server: %w", err), s.web.http.Close())
	}
	return nil
}

// healthz answers 200 while the broker serves all its partitions, and 503 with
// the reasons otherwise.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	var problems []string
	if s.stopping.Load() {
		problems = append(problems, "broker is stopping")
	}
	if err := s.Err(); err != nil {
		problems = append(problems, err.Error())
	}
	for _, l := range s.logs.Logs() {
		if err := l.Err(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(problems) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}
