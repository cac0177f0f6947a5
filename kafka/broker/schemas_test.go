package broker_test

import (
	"encoding/json"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// TestSchemasAreKept: retention by age and by size passes over the topic of
// schemas, which is all that a registry has, while it deletes from the others; and
// who asks for it can have it otherwise.
func TestSchemasAreKept(t *testing.T) {
	age, size := time.Millisecond, int64(1)
	for _, row := range []struct {
		name   string
		topics map[string]storage.TopicConfig
		kept   bool
	}{
		{"by default", nil, true},
		{"with other settings of its own", map[string]storage.TopicConfig{message.SchemasTopic: {SegmentBytes: 1}}, true},
		{"as asked for", map[string]storage.TopicConfig{message.SchemasTopic: {RetentionAge: &age, RetentionBytes: &size}}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := kafkatest.Start(t, func(c *broker.Config) {
				c.Storage.SegmentBytes = 1 // a message each
				c.Storage.RetentionAge, c.Storage.RetentionBytes = age, size
				c.Storage.CleanupInterval = 5 * time.Millisecond
				c.Storage.Topics = row.topics
			})
			p := dial(t, b)
			firstOffset := func(topic string) int64 {
				t.Helper()
				p.send(wire.AppendTopics(nil, []string{topic}))
				code, payload := p.answer()
				states, err := wire.ParseTopicStates(payload)
				if code == wire.CodeNoSuchTopic {
					return 0 // its first message makes it
				}
				if code != wire.CodeNone || err != nil || len(states) != 1 {
					t.Fatalf("%s: code %v, %v, %v", topic, code, states, err)
				}
				return states[0].First
			}
			publish := func(topic string) {
				for range 3 {
					p.send(produce(topic, 0, entryP))
				}
				p.barrier()
			}
			publish(message.SchemasTopic)
			// What has deleted twice from the other topic has been over both in between.
			for range 2 {
				deleted := firstOffset("other")
				publish("other")
				for deadline := time.Now().Add(30 * time.Second); firstOffset("other") <= deleted; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("nothing is deleted from the other topic")
					}
				}
			}
			first := firstOffset(message.SchemasTopic)
			for deadline := time.Now().Add(30 * time.Second); !row.kept && first == 0; time.Sleep(5 * time.Millisecond) {
				if first = firstOffset(message.SchemasTopic); time.Now().After(deadline) {
					t.Fatal("the topic's own retention does nothing")
				}
			}
			if row.kept && first != 0 {
				t.Errorf("the topic of schemas begins at offset %d", first)
			}
		})
	}
}

// TestSchemasAreKeptIsShown: the broker says so among its settings, and leaves the
// map that it was given alone.
func TestSchemasAreKeptIsShown(t *testing.T) {
	given := map[string]storage.TopicConfig{"clicks": {SegmentBytes: 1 << 20}}
	b := kafkatest.Start(t, withMetrics, func(c *broker.Config) { c.Storage.Topics = given })
	_, body := get(t, b, "/config")
	var got struct {
		Topics map[string]struct {
			Retention     *string `json:"retention"`
			RetentionSize *int64  `json:"retention_size"`
		} `json:"topics"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	schemas, clicks := got.Topics[message.SchemasTopic], got.Topics["clicks"]
	if schemas.Retention == nil || *schemas.Retention != "0s" || schemas.RetentionSize == nil || *schemas.RetentionSize != 0 {
		t.Errorf("the topic of schemas has %s", body)
	}
	if clicks.Retention != nil || clicks.RetentionSize != nil {
		t.Errorf("another topic has %s", body)
	}
	if len(given) != 1 {
		t.Errorf("the caller's settings became %v", given)
	}
}
