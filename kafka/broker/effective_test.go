package broker_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/storage"
)

// TestConfigPage: a running broker says what it runs with, those settings too
// that nobody gave, and of topics what is their own.
func TestConfigPage(t *testing.T) {
	none, hour := 0, time.Hour
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) {
		c.Version = "kafka of a test"
		c.Storage.FlushMessages, c.Storage.FlushInterval = 0, 250*time.Millisecond
		c.Storage.Visible = storage.VisibleAppended
		c.Sendfile = false
		c.Storage.Topics = map[string]storage.TopicConfig{"audit": {FlushMessages: &none, RetentionAge: &hour, SegmentBytes: 1 << 20}}
	})
	status, body := get(t, b, "/config")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	defaults := broker.DefaultConfig()
	for name, want := range map[string]any{
		"version": "kafka of a test", "flush_messages": 0.0, "flush_interval": "250ms", "visible": "appended", "sendfile": false,
		"segment_size": float64(storage.DefaultSegmentBytes), "retention": "168h0m0s", "retention_size": 0.0, "zk_connect": "",
		"max_message_size": float64(defaults.MaxMessageBytes), "write_timeout": defaults.WriteTimeout.String(), "listen": "127.0.0.1:0",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	audit, ok := got["topics"].(map[string]any)["audit"].(map[string]any)
	if !ok || len(audit) != 3 || audit["flush_messages"] != 0.0 || audit["retention"] != "1h0m0s" || audit["segment_size"] != float64(1<<20) {
		t.Errorf("the topic's own settings are %v", audit)
	}
}
