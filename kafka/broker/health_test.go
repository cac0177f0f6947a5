package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// startTest starts a broker of a test in a folder.
func startTest(t *testing.T, dir string, options ...func(*Config)) *Server {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.LogDir = "127.0.0.1:0", dir
	for _, o := range options {
		o(&cfg)
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopTest(t, s) })
	return s
}

func stopTest(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func logTo(w io.Writer) func(*Config) {
	return func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(w, nil)) }
}

// TestHealthOfTheDisk: a full disk and one that hangs make the broker unready,
// and nobody waits for the one that hangs: one goroutine does.
func TestHealthOfTheDisk(t *testing.T) {
	s := startTest(t, t.TempDir())
	if h := s.health(); !h.Ready {
		t.Fatalf("not ready: %q", h.Reasons)
	}
	answer := func(r room, err error) func(string) (room, error) {
		return func(string) (room, error) { return r, err }
	}
	for _, row := range []struct {
		name   string
		statfs func(string) (room, error)
		says   string // empty: ready
	}{
		{"room for one message", answer(room{free: DefaultMaxMessageBytes, size: 1 << 40}, nil), ""},
		{"full", answer(room{free: DefaultMaxMessageBytes - 1, size: 1 << 40}, nil), "the disk is full: 999999 bytes"},
		{"in memory", answer(room{}, fs.ErrNotExist), ""},
		{"broken", answer(room{}, errors.New("no luck")), "no luck"},
	} {
		s.disk.statfs = row.statfs
		h := s.health()
		if h.Ready != (row.says == "") || !strings.Contains(strings.Join(h.Reasons, "\n"), row.says) {
			t.Errorf("%s: ready %v, %q", row.name, h.Ready, h.Reasons)
		}
	}

	release := make(chan struct{})
	s.disk.statfs = func(string) (room, error) {
		<-release
		return room{}, nil
	}
	before := runtime.NumGoroutine()
	for range 2 {
		if h := s.health(); h.Ready || !strings.Contains(h.Reasons[0], errDiskHangs.Error()) {
			t.Errorf("ready %v, %q", h.Ready, h.Reasons)
		}
	}
	if got := gather(t, s)["kafka_broker_disk_free_bytes"]; got != nil {
		t.Errorf("room on a disk that does not answer: %v", got)
	}
	if after := runtime.NumGoroutine(); after > before+1 {
		t.Errorf("%d goroutines, were %d", after, before)
	}
	close(release)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.health().Reasons[0], "full"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the answer that came late is never seen")
		}
	}
}

// TestHealthOfAppends: a partition that cannot append makes the broker unready,
// though it is in service, until it can.
func TestHealthOfAppends(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := startTest(t, "/logs", func(c *Config) { c.Storage.FS, c.Storage.SegmentBytes = files, 1 })
	set := message.Append(nil, []byte("m"))
	check := func(failing float64, says string) {
		t.Helper()
		h := s.health()
		if reasons := strings.Join(h.Reasons, "\n"); h.Ready != (failing == 0) || h.Failing != int(failing) || h.OutOfService != 0 || !strings.Contains(reasons, says) {
			t.Errorf("%+v, want %v failing and %q", h, failing, says)
		}
		all := gather(t, s)
		for _, name := range []string{"kafka_broker_partitions_failing", "kafka_broker_log_append_failed"} {
			if got := all[name].GetMetric()[0].GetGauge().GetValue(); got != failing {
				t.Errorf("%s is %v, want %v", name, got, failing)
			}
		}
	}
	if err := appendFlushed(t, s, "t", 0, set); err != nil {
		t.Fatal(err)
	}
	check(0, "")
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate {
			return syscall.EACCES
		}
		return nil
	})
	if err := appendFlushed(t, s, "t", 0, set); !errors.Is(err, syscall.EACCES) {
		t.Fatalf("appended: %v", err)
	}
	check(1, `topic "t" partition 0: roll at offset`)
	files.SetHook(nil)
	if err := appendFlushed(t, s, "t", 0, set); err != nil {
		t.Fatal(err)
	}
	check(0, "")
}

// gather returns all metrics by their names.
func gather(t *testing.T, s *Server) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// TestSeriesAreBounded: more topics than have series of their own are counted
// together, more partitions are left out, and both are said.
func TestSeriesAreBounded(t *testing.T) {
	s := startTest(t, "/logs", func(c *Config) { c.Storage.FS = vfs.NewMem(time.Now) })
	set := message.Append(nil, []byte("m"))
	append1 := func(topic string, partition int32) {
		l, err := s.logs.Ensure(topic, partition)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(set, 1); err != nil {
			t.Fatal(err)
		}
		s.metrics.topic(l).appended(1, len(set))
	}
	for i := range maxTopicSeries + 3 {
		append1(fmt.Sprintf("topic%04d", i), 0)
	}
	series := gather(t, s)["kafka_broker_messages_in_total"].GetMetric()
	if len(series) != maxTopicSeries+1 {
		t.Errorf("%d series, want %d topics and the others", len(series), maxTopicSeries)
	}
	others := valueOf(series, otherTopics)
	if others != 3 {
		t.Errorf("%v messages of other topics, want 3", others)
	}
	// The place of a topic that was deleted is free for another.
	if err := s.logs.DeleteTopic("topic0000"); err != nil {
		t.Fatal(err)
	}
	s.metrics.dropTopic("topic0000")
	append1("late", 0)
	series = gather(t, s)["kafka_broker_messages_in_total"].GetMetric()
	if got := valueOf(series, "late"); got != 1 {
		t.Errorf("%v messages of the new topic, want 1", got)
	}
	if got := valueOf(series, "topic0000"); got != -1 {
		t.Errorf("%v messages of the deleted topic", got)
	}

	if err := s.logs.CreateTopic("wide", maxPartitionSeries); err != nil {
		t.Fatal(err)
	}
	for p := range int32(maxPartitionSeries - maxTopicSeries) {
		append1("wide", p)
	}
	all := gather(t, s)
	if n := len(all["kafka_broker_log_segments"].GetMetric()); n != maxPartitionSeries {
		t.Errorf("%d partitions are described, want %d", n, maxPartitionSeries)
	}
	if got := all["kafka_broker_partitions_not_shown"].GetMetric()[0].GetGauge().GetValue(); got != 3 {
		t.Errorf("%v partitions are said to be left out, want 3", got)
	}
}

// valueOf returns the value of the counter with a label, or -1.
func valueOf(series []*dto.Metric, label string) float64 {
	for _, m := range series {
		if m.GetLabel()[0].GetValue() == label {
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// TestStartTells: the log says what the start found in the log folder, and what
// recovery cut, and the metrics do.
func TestStartTells(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := startTest(t, dir, logTo(&log))
	set := message.Append(nil, []byte("a message"))
	for p := range int32(2) {
		if err := appendFlushed(t, s, "t", p, set); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(log.String(), `msg="log folder opened"`) || !strings.Contains(log.String(), " partitions=0 ") {
		t.Errorf("the first start says %s", &log)
	}
	stopTest(t, s)
	log.Reset()
	s = startTest(t, dir, logTo(&log))
	for _, want := range []string{" clean_stop=true ", " topics=1 ", " partitions=2 ", " segments=2 ", fmt.Sprintf(" bytes=%d ", 2*len(set)), " recovered=0 ", " cut=0 "} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("after a clean stop the start does not say %q: %s", want, &log)
		}
	}
	stopTest(t, s)

	// As after a crash, with a torn message.
	segment := filepath.Join(dir, "t-1", strings.Repeat("0", 20)+".kafka")
	f, err := os.OpenFile(segment, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(set[:7])
	if err := errors.Join(err, f.Close(), os.Remove(filepath.Join(dir, ".kafka_cleanshutdown"))); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	s = startTest(t, dir, logTo(&log))
	for _, want := range []string{" clean_stop=false ", " partitions=2 ", " recovered=2 ", " cut=1 ", " cut_bytes=7 ", " out_of_service=0 ", " took="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("after a crash the start does not say %q: %s", want, &log)
		}
	}
	all := gather(t, s)
	for name, want := range map[string]float64{
		"kafka_broker_start_logs_found": 2, "kafka_broker_start_logs_opened": 2, "kafka_broker_start_logs_recovered": 2,
		"kafka_broker_recovery_cuts_total": 1, "kafka_broker_recovery_cut_bytes_total": 7, "kafka_broker_ready": 1,
		"kafka_broker_topics": 1, "kafka_broker_partitions": 2, "kafka_broker_partitions_out_of_service": 0,
	} {
		m := all[name].GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func appendFlushed(t *testing.T, s *Server, topic string, partition int32, set []byte) error {
	t.Helper()
	if err := s.logs.CreateTopic(topic, 2); err != nil && !errors.Is(err, storage.ErrTopicExists) {
		return err
	}
	l, err := s.logs.Ensure(topic, partition)
	if err != nil {
		return err
	}
	if _, err := l.Append(set, 1); err != nil {
		return err
	}
	return l.Flush(t.Context())
}

// TestHistogram: a duration counts in its bucket, bounds being inclusive, and
// several at once count as several.
func TestHistogram(t *testing.T) {
	var h histogram
	h.observe(50*time.Microsecond, 2)
	h.observe(51*time.Microsecond, 1)
	h.observe(time.Minute, 3)
	var m dto.Metric
	if err := h.metric(prometheus.NewDesc("h", "h", nil, nil)).Write(&m); err != nil {
		t.Fatal(err)
	}
	got := m.GetHistogram()
	if got.GetSampleCount() != 6 || got.GetSampleSum() < 180 || got.GetSampleSum() > 180.001 {
		t.Errorf("%d samples, sum %v s; want 6, 180 s and a little", got.GetSampleCount(), got.GetSampleSum())
	}
	for _, b := range got.GetBucket() {
		want := uint64(3)
		if b.GetUpperBound() == 50e-6 {
			want = 2
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d samples up to %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if testing.AllocsPerRun(100, func() { h.observe(time.Millisecond, 7) }) > 0 {
		t.Error("observing allocates")
	}
}

// TestHealthzFromStartToStop: the web server answers while the logs are being
// recovered and says how far that is, when the broker serves, and until the
// last log is closed.
func TestHealthzFromStartToStop(t *testing.T) {
	files := vfs.NewMem(time.Now)
	inMemory := func(c *Config) { c.Storage.FS, c.Storage.FlushMessages, c.Storage.FlushInterval = files, 0, 0 }
	s := startTest(t, "/logs", inMemory)
	set := message.Append(nil, []byte("a message"))
	for p := range int32(2) {
		if err := appendFlushed(t, s, "t", p, set); err != nil {
			t.Fatal(err)
		}
	}
	stopTest(t, s)
	if err := files.Remove("/logs/.kafka_cleanshutdown"); err != nil {
		t.Fatal(err)
	}
	hold := func(kind vfs.OpKind) (release func()) {
		held := make(chan struct{})
		files.SetHook(func(op vfs.Op) error {
			if op.Kind == kind && strings.HasPrefix(op.Path, "/logs/t-1/") {
				<-held
			}
			return nil
		})
		return sync.OnceFunc(func() { files.SetHook(nil); close(held) })
	}

	release := hold(vfs.OpRead)
	defer release()
	lines := make(lineChan, 1000)
	started := make(chan *Server, 1)
	go func() {
		defer close(started)
		cfg := DefaultConfig()
		cfg.Listen, cfg.LogDir, cfg.MetricsListen = "127.0.0.1:0", "/logs", "127.0.0.1:0"
		inMemory(&cfg)
		logTo(lines)(&cfg)
		s, err := Start(context.Background(), cfg)
		if err != nil {
			t.Error(err)
			return
		}
		started <- s
	}()
	url := "http://" + lines.listenOf(t, "serving metrics")
	waitFor(t, url+"/healthz", http.StatusServiceUnavailable, "broker is starting: 1 of 2 logs recovered after a stop that was not clean\n")
	waitFor(t, url+"/metrics", http.StatusOK, "\nkafka_broker_start_logs_opened 1\n")
	waitFor(t, url+"/healthz?json", http.StatusServiceUnavailable, `"logs_found":2,"logs_opened":1,`)
	release()
	s = <-started
	if s == nil {
		return
	}
	waitFor(t, url+"/healthz", http.StatusOK, "ready\n")
	waitFor(t, url+"/healthz?json", http.StatusOK, `{"ready":true,"logs_found":2,"logs_opened":2,"partitions_out_of_service":0,"partitions_failing":0}`)

	l, err := s.logs.Ensure("t", 1)
	if err == nil {
		_, err = l.Append(set, 1)
	}
	if err != nil {
		t.Error(err)
	}
	release = hold(vfs.OpSync)
	defer release()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopTest(t, s)
	}()
	waitFor(t, url+"/healthz", http.StatusServiceUnavailable, "broker is stopping\n")
	release()
	<-stopped
	if _, _, err := ask(t, url+"/healthz"); err == nil {
		t.Error("the web server answers after the stop")
	}
}

// lineChan takes the lines of a log.
type lineChan chan string

func (c lineChan) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}

// listenOf waits for a message and returns its attribute "listen".
func (c lineChan) listenOf(t *testing.T, message string) string {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line := <-c:
			if !strings.Contains(line, message) {
				continue
			}
			_, rest, _ := strings.Cut(line, "listen=")
			return strings.Fields(rest)[0]
		case <-timeout:
			t.Fatalf("the log does not say %q", message)
		}
	}
}

// ask gets a page.
func ask(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// waitFor asks for a page until it is as wanted.
func waitFor(t *testing.T, url string, status int, says string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		got, body, err := ask(t, url)
		if err == nil && got == status && strings.Contains(body, says) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: status %d, %.500q, %v; want %d and %q", url, got, body, err, status, says)
		}
	}
}

// TestHealthNamesPartitions: partitions out of service are named, up to a bound.
func TestHealthNamesPartitions(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := startTest(t, "/logs", func(c *Config) { c.Storage.FS, c.Storage.DefaultPartitions = files, maxReasons+20 })
	set := message.Append(nil, []byte("m"))
	for p := range int32(maxReasons + 20) {
		l, err := s.logs.Ensure("t", p)
		if err == nil {
			_, err = l.Append(set, 1)
		}
		if err == nil {
			err = l.Flush(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stopTest(t, s)
	// A hole between two segments is damage that recovery does not mend.
	for p := range maxReasons + 20 {
		f, err := files.Create(fmt.Sprintf("/logs/t-%d/%020d.kafka", p, 999))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := s.cfg
	again, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	// It does not stop cleanly, with logs that it cannot serve.
	defer func() { _ = again.Close(context.Background()) }()
	h := again.health()
	if h.Ready || h.OutOfService != maxReasons+20 || len(h.Reasons) != maxReasons+1 {
		t.Errorf("ready %v, %d out of service, %d reasons", h.Ready, h.OutOfService, len(h.Reasons))
	}
	if first, last := h.Reasons[0], h.Reasons[len(h.Reasons)-1]; !strings.Contains(first, `topic "t" partition 0`) || last != "20 more partitions are out of service, or fail to append" {
		t.Errorf("first %q, last %q", first, last)
	}
	if got := gather(t, again)["kafka_broker_partitions_out_of_service"].GetMetric()[0].GetGauge().GetValue(); got != maxReasons+20 {
		t.Errorf("%v partitions are said to be out of service", got)
	}
}

// TestLogNamesWhatItIsAbout: what is logged of a refused request has its peer,
// topic and partition as attributes of their own.
func TestLogNamesWhatItIsAbout(t *testing.T) {
	for _, row := range []struct {
		request []byte
		message string
		want    map[string]any
	}{
		{wire.AppendProduce(nil, "a", 7, message.Append(nil, []byte("m"))), "connection closed because of what it sent", map[string]any{"topic": "a", "partition": 7.0}},
		{wire.AppendOffsets(nil, "b", 3, wire.TimeLatest, 1), "connection closed because of what it sent", map[string]any{"topic": "b", "partition": 3.0}},
		{wire.AppendProduce(nil, "c", 0, message.Append(nil, make([]byte, DefaultMaxMessageBytes+1))), "message set dropped", map[string]any{"topic": "c", "partition": 0.0}},
	} {
		// One of a kind is logged each second: a broker for each.
		lines := make(lineChan, 1000)
		s := startTest(t, t.TempDir(), func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(lines, nil)) })
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(row.request); err != nil {
			t.Fatal(err)
		}
		row.want["peer"] = conn.LocalAddr().String()
		got := lines.entry(t, row.message)
		for key, want := range row.want {
			if got[key] != want {
				t.Errorf("%s: %s is %v, want %v", row.message, key, got[key], want)
			}
		}
	}
}

// entry waits for a message in a log of JSON objects.
func (c lineChan) entry(t *testing.T, message string) map[string]any {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line := <-c:
			var entry map[string]any
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if entry["msg"] == message {
				return entry
			}
		case <-timeout:
			t.Fatalf("the log does not say %q", message)
		}
	}
}

// TestCountersOfATopicHalfDeleted: a deletion that leaves files behind takes the
// topic's counters with it all the same.
func TestCountersOfATopicHalfDeleted(t *testing.T) {
	files := vfs.NewMem(time.Now)
	s := startTest(t, "/logs", func(c *Config) { c.Storage.FS = files })
	l := connect(t, s)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(0, 0, int64(len(ackedSet)))
	files.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove {
			return syscall.EIO
		}
		return nil
	})
	l.send(wire.AppendDeleteTopic(nil, "a"))
	l.want(wire.CodeUnknown, nil)
	files.SetHook(nil)
	if got := valueOf(gather(t, s)["kafka_broker_messages_in_total"].GetMetric(), "a"); got != -1 {
		t.Errorf("%v messages of a topic that is gone", got)
	}
}

// TestProfilesAreForThisMachine: whoever asks from elsewhere gets none, wherever the
// metrics server listens.
func TestProfilesAreForThisMachine(t *testing.T) {
	given := fromHere(func(http.ResponseWriter, *http.Request) {})
	for _, row := range []struct {
		from, own string
		status    int
	}{
		{"127.0.0.1:4000", "127.0.0.1:9100", 200},
		{"127.0.0.2:4000", "127.0.0.1:9100", 200},
		{"[::1]:4000", "[::1]:9100", 200},
		{"[::ffff:127.0.0.1]:4000", "[::ffff:127.0.0.1]:9100", 200},
		{"10.1.2.3:4000", "10.1.2.3:9100", 200},
		{"10.1.2.3:4000", "[::ffff:10.1.2.3]:9100", 200},
		{"10.1.2.4:4000", "10.1.2.3:9100", 403},
		{"[fe80::2%eth0]:4000", "[fe80::1%eth0]:9100", 403},
		{"10.1.2.3:4000", "", 403},
		{"", "10.1.2.3:9100", 403},
	} {
		r := httptest.NewRequest("GET", "/debug/pprof/heap", nil)
		r.RemoteAddr = row.from
		if row.own != "" {
			own := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(row.own))
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, own))
		}
		w := httptest.NewRecorder()
		if given(w, r); w.Code != row.status {
			t.Errorf("from %q, asked at %q: status %d, want %d", row.from, row.own, w.Code, row.status)
		}
	}
}
