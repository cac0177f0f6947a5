package broker_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/storage"
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

// TestTopicsBounded: a topic is described once, however often it is named, and
// an answer does not take memory without bound.
func TestTopicsBounded(t *testing.T) {
	b := kafkatest.Start(t)
	p := dial(t, b)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		p.send(wire.AppendCreateTopic(nil, name, storage.MaxPartitions))
		p.want(wire.CodeNone, nil)
	}
	p.send(wire.AppendTopics(nil, slices.Repeat([]string{"a"}, 1000)))
	code, payload := p.answer()
	if states, err := wire.ParseTopicStates(payload); code != wire.CodeNone || err != nil || len(states) != storage.MaxPartitions {
		t.Errorf("code %v, %d states, %v", code, len(states), err)
	}
	for _, all := range [][]string{names, nil} {
		p.send(wire.AppendTopics(nil, all))
		p.want(wire.CodeBadArgument, nil)
	}
	p.barrier()
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
		`kafka_broker_log_in_service{partition="0",topic="a"}`:       1,
	} {
		if got := metric(t, b, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	p.send(wire.AppendDeleteTopic(nil, "a"))
	p.want(0, nil)
	for _, name := range []string{`kafka_broker_messages_in_total{topic="a"}`, `kafka_broker_log_end_offset{partition="0",topic="a"}`} {
		if got := metric(t, b, name); got != -1 {
			t.Errorf("%s is %v after the topic was deleted", name, got)
		}
	}
	p.Close()
	eventually(t, "the connection is counted off", func() bool { return metric(t, b, "kafka_broker_connections") == 0 })
}

// TestHealth: a partition out of service makes the broker unhealthy, and the
// answer names it.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) { c.LogDir = dir })
	if status, body := get(t, b, "/healthz"); status != http.StatusOK || body != "ok\n" {
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
