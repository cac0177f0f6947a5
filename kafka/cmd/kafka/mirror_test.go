package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest"
)

// sharedOutput is a buffer that one goroutine writes and another one reads.
type sharedOutput struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedOutput) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestMirrorMetrics: /metrics of a mirror has its own metrics, and those of its member in
// each source's group, told apart.
func TestMirrorMetrics(t *testing.T) {
	zk := startZooKeeper(t).Addr
	live, other := kafkatest.Start(t, registered(zk+"/live", 0)), kafkatest.Start(t, registered(zk+"/other", 0))
	kafkatest.Start(t, registered(zk+"/replica", 0))
	for _, b := range []*kafkatest.Broker{live, other} {
		std := stdio{In: strings.NewReader("one\ntwo\n"), Out: io.Discard, Err: io.Discard}
		if status := realMain(t.Context(), []string{"produce", "--broker-list", b.HostPort(), "--topic", "t", "--acks", "flushed"}, std); status != 0 {
			t.Fatalf("produce: status %d", status)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var log sharedOutput
	ended := make(chan int, 1)
	go func() {
		ended <- realMain(ctx, []string{"mirror", "--source-zk-connect", zk + "/live", "--source-zk-connect", zk + "/other", "--zk-connect", zk + "/replica",
			"--group", "g", "--blacklist", "none", "--metrics-listen", "127.0.0.1:0"}, stdio{In: strings.NewReader(""), Out: io.Discard, Err: &log})
	}()
	defer func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("status %d; its log:\n%s", status, log.String())
		}
	}()
	wanted := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^kafka_mirror_messages_total 4$`),
		regexp.MustCompile(`(?m)^kafka_mirror_lag_bytes\{partition="0-0",source="` + regexp.QuoteMeta(zk) + `/live",topic="t"\} 0$`),
		regexp.MustCompile(`(?m)^kafka_mirror_lag_bytes\{partition="0-0",source="` + regexp.QuoteMeta(zk) + `/other",topic="t"\} 0$`),
		regexp.MustCompile(`(?m)^kafka_consumer_partitions_owned\{source="` + regexp.QuoteMeta(zk) + `/other"\} 1$`),
		regexp.MustCompile(`(?m)^kafka_mirror_gaps_total 0$`),
		regexp.MustCompile(`(?m)^kafka_mirror_repeated_messages_total 0$`),
		regexp.MustCompile(`(?m)^process_cpu_seconds_total `),
	}
	serving := regexp.MustCompile(`serving metrics" listen=(\S+)`)
	page := ""
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if m := serving.FindStringSubmatch(log.String()); m != nil {
			page = get(t, "http://"+m[1]+"/metrics")
		}
		missing := ""
		for _, w := range wanted {
			if !w.MatchString(page) {
				missing = w.String()
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics have no %s:\n%s\nlog:\n%s", missing, page, log.String())
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
