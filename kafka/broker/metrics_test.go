package broker_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/wire"
)

func withMetrics(c *broker.Config) { c.MetricsListen = "127.0.0.1:0" }

// get asks the metrics server for a page.
func get(t testing.TB, b *kafkatest.Broker, path string) (status int, body string) {
	t.Helper()
	// Without keep-alive nothing of the client outlives the test.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get("http://" + b.MetricsAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// metric returns the value of a metric, named with its labels as they are
// written.
func metric(t testing.TB, b *kafkatest.Broker, name string) float64 {
	t.Helper()
	_, body := get(t, b, "/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return -1
}

func TestMetrics(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	p := dial(t, b)
	p.send(produce("a", 0, entryP, entrySecond))
	p.send(fetch("a", 0, 0, 26))
	p.want(0, entryP)
	p.send(fetch("a", 0, 99, 26))
	p.want(wire.CodeOffsetOutOfRange, nil)
	p.send(wire.AppendAckedProduce(nil, "a", 0, entryP[:20], wire.AcksAppended, 0))
	p.answer()
	garbage := dial(t, b)
	garbage.send(unhex("ffffffff"))
	garbage.rest()
	for name, want := range map[string]float64{
		`kafka_broker_messages_in_total{topic="a"}`:                  2,
		`kafka_broker_bytes_in_total{topic="a"}`:                     42,
		`kafka_broker_bytes_out_total{topic="a"}`:                    26,
		`kafka_broker_messages_out_total{topic="a"}`:                 26 / 21.0, // of 21 bytes in the mean
		`kafka_broker_sent_bytes_total{path="sendfile"}`:             26,
		`kafka_broker_sent_bytes_total{path="copy"}`:                 0,
		`kafka_broker_requests_total{type="Produce"}`:                1,
		`kafka_broker_requests_total{type="Fetch"}`:                  2,
		`kafka_broker_requests_total{type="AckedProduce"}`:           1,
		`kafka_broker_fetch_errors_total`:                            1,
		`kafka_broker_failed_produce_total`:                          1,
		`kafka_broker_bad_frames_total`:                              1,
		`kafka_broker_connections_total`:                             2,
		`kafka_broker_panics_total`:                                  0,
		`kafka_broker_log_end_offset{partition="0",topic="a"}`:       42,
		`kafka_broker_log_watermark_offset{partition="0",topic="a"}`: 42,
		`kafka_broker_log_segments{partition="0",topic="a"}`:         1,
		`kafka_broker_log_size_bytes{partition="0",topic="a"}`:       42,
		`kafka_broker_log_first_offset{partition="0",topic="a"}`:     0,
		`kafka_broker_log_flushed_offset{partition="0",topic="a"}`:   42,
		`kafka_broker_topics`:                                        1,
		`kafka_broker_partitions`:                                    1,
		`kafka_broker_partitions_not_shown`:                          0,
		`kafka_broker_partitions_out_of_service`:                     0,
		`kafka_broker_connections_limit`:                             10_000,
		`kafka_broker_ready`:                                         1,
		`kafka_broker_flushes_failed_total`:                          0,
		`kafka_broker_log_in_service{partition="0",topic="a"}`:       1,
	} {
		if got := metric(t, b, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{
		"kafka_broker_flush_duration_seconds_count", "kafka_broker_disk_free_bytes", "kafka_broker_disk_size_bytes",
		"kafka_broker_start_duration_seconds", "process_open_fds", "process_max_fds", "process_resident_memory_bytes",
	} {
		if got := metric(t, b, name); got <= 0 {
			t.Errorf("%s is %v, want more than 0", name, got)
		}
	}
	p.send(wire.AppendDeleteTopic(nil, "a"))
	p.want(0, nil)
	if _, body := get(t, b, "/metrics"); strings.Contains(body, `topic="a"`) {
		t.Errorf("the topic is still there after its deletion: %s", body)
	}
	p.Close()
	eventually(t, "the connection is counted off", func() bool { return metric(t, b, "kafka_broker_connections") == 0 })
}

// What garbage collection costs is a claim of NetDB'11 §3.1, and can be seen.
func TestMetricsShowGarbageCollection(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	const cycles, seconds = "go_gc_cycles_total_gc_cycles_total", "go_cpu_classes_gc_total_cpu_seconds_total"
	before := metric(t, b, cycles)
	runtime.GC()
	if got := metric(t, b, cycles); before < 0 || got <= before {
		t.Errorf("%s is %v before and %v after a collection", cycles, before, got)
	}
	if got := metric(t, b, seconds); got <= 0 {
		t.Errorf("%s is %v after a collection, want more than 0", seconds, got)
	}
}

// TestRequestDurations: each request that was handled is timed once, by its
// type, those too that are answered after a flush or wait for something.
func TestRequestDurations(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	p := dial(t, b)
	p.send(join(produce("a", 0, entryP), produce("a", 0, entryP), fetch("a", 0, 0, 26)))
	p.want(0, entryP)
	for range 3 {
		p.send(wire.AppendAckedProduce(nil, "a", 0, entryP, wire.AcksFlushed, 1000))
		p.answer()
	}
	p.send(wire.AppendAckedProduce(nil, "a", 0, entryP, wire.AcksAppended, 0))
	p.answer()
	p.send(wire.AppendWaitFetch(nil, []wire.FetchEntry{{Topic: "none", MaxBytes: 10}}, 20, 1))
	p.answer()
	p.barrier()
	for name, want := range map[string]float64{"Produce": 2, "Fetch": 1, "AckedProduce": 4, "WaitFetch": 1, "Offsets": 1, "MultiProduce": 0} {
		count := func() float64 {
			return metric(t, b, `kafka_broker_request_duration_seconds_count{type="`+name+`"}`)
		}
		eventually(t, "all requests "+name+" are timed", func() bool { return count() >= want })
		if got := count(); got != want {
			t.Errorf("%v requests %s are timed, want %v", got, name, want)
		}
	}
	if sum := metric(t, b, `kafka_broker_request_duration_seconds_sum{type="WaitFetch"}`); sum < 0.02 {
		t.Errorf("the WaitFetch took %v s, but waited 20 ms", sum)
	}
}

// TestMetricsAreDocumented: each metric of the broker has a help text, ends with
// its unit or says that it counts, and no label but those that are bounded.
func TestMetricsAreDocumented(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	p := dial(t, b)
	p.send(produce("a", 0, entryP))
	p.barrier()
	_, body := get(t, b, "/metrics")
	types, n := map[string]string{}, 0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP kafka_broker_"); ok {
			if name, help, _ := strings.Cut(rest, " "); len(help) < 5 || !strings.HasSuffix(help, ".") {
				t.Errorf("%s: help %q", name, help)
			}
			n++
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE kafka_broker_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			types[name] = kind
			if counts := strings.HasSuffix(name, "_total"); counts != (kind == "counter") {
				t.Errorf("%s is a %s", name, kind)
			}
			if kind == "histogram" && !strings.HasSuffix(name, "_seconds") {
				t.Errorf("%s has no unit", name)
			}
		}
		if _, labels, ok := strings.Cut(line, "{"); ok && strings.HasPrefix(line, "kafka_broker_") {
			labels, _, _ = strings.Cut(labels, "}")
			for _, l := range strings.Split(labels, ",") {
				name, _, _ := strings.Cut(l, "=")
				if !slices.Contains([]string{"topic", "partition", "type", "path", "le", "reason"}, name) {
					t.Errorf("label %s in %s", name, line)
				}
			}
		}
	}
	if n < 30 || n != len(types) {
		t.Errorf("%d metrics have a help, %d a type", n, len(types))
	}
}

// TestRetentionIsCounted: what retention deletes shows in the counters of its
// topic.
func TestRetentionIsCounted(t *testing.T) {
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) {
		c.Storage.SegmentBytes, c.Storage.RetentionBytes, c.Storage.CleanupInterval = 20, 1, 10*time.Millisecond
	})
	p := dial(t, b)
	for range 3 {
		p.send(produce("a", 0, entryP)) // each fills a segment
		p.barrier()
	}
	eventually(t, "the first two segments are deleted", func() bool {
		return metric(t, b, `kafka_broker_retention_deleted_segments_total{topic="a"}`) == 2
	})
	if got := metric(t, b, `kafka_broker_retention_deleted_bytes_total{topic="a"}`); got != float64(2*len(entryP)) {
		t.Errorf("%v bytes are deleted, want %d", got, 2*len(entryP))
	}
	if got := metric(t, b, `kafka_broker_log_first_offset{partition="0",topic="a"}`); got != float64(2*len(entryP)) {
		t.Errorf("the first offset is %v, want %d", got, 2*len(entryP))
	}
}

// TestHealth: a partition out of service makes the broker unhealthy, and the
// answer names it.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) { c.LogDir = dir })
	if status, body := get(t, b, "/healthz"); status != http.StatusOK || body != "ready\n" {
		t.Errorf("status %d, %q", status, body)
	}
	if status, _ := get(t, b, "/metrics.html"); status != http.StatusNotFound {
		t.Errorf("status %d for a page that is not there", status)
	}
	p := dial(t, b)
	p.send(produce("a", 0, entryP))
	p.barrier()
	b.Stop()
	// A hole between two segments is damage that recovery does not mend.
	if err := os.WriteFile(filepath.Join(dir, "a-0", strings.Repeat("0", 17)+"999.kafka"), entryP, 0o644); err != nil {
		t.Fatal(err)
	}
	b.MayStopBadly = true
	b.Restart()
	status, body := get(t, b, "/healthz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"a"`) {
		t.Errorf("status %d, %q, want 503 and the name of the topic", status, body)
	}
}

// TestProfiles: the metrics server gives Go's profiles when asked.
func TestProfiles(t *testing.T) {
	b := kafkatest.Start(t, withMetrics)
	if status, body := get(t, b, "/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(body, "kafkalab/kafka/broker.(*Server).accept") {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body := get(t, b, "/debug/pprof/profile?seconds=1"); status != 200 || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("profile: status %d, %.100q", status, body)
	}
}
