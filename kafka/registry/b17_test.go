package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
)

// TestB17TopicNames: every topic name that is legal has nodes of its own, however
// much it looks like another, and one that is not has none. The rule is that of
// brokers and clients, but for the length: a topic of 0.7 may have 255 bytes.
func TestB17TopicNames(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		legal := []string{
			"a.b", "a_b", "A", "a", "a-1", "a-1-0", "1-0", "ids", "topics", "owners", "offsets", " ", "a b", "...", `a"b`, `a\b`, "é", "e\u0301", "中", "%2F",
			strings.Repeat("x", 249),
		}
		for i, topic := range legal {
			if err := message.CheckTopic(topic); err != nil {
				t.Fatal(err)
			}
			must(t, m.RegisterTopic(ctx, m.session, topic, 1, int32(i+1)))
			must(t, m.SetOffset(ctx, "g", topic, registry.Partition{Broker: 1}, int64(i)))
		}
		for i, topic := range legal {
			if counts, err := m.TopicBrokers(ctx, topic); err != nil || fmt.Sprint(counts) != fmt.Sprintf("map[1:%d]", i+1) {
				t.Errorf("topic %q: %v, %v, want %d partitions", topic, counts, err, i+1)
			}
			if offsets, err := m.Offsets(ctx, "g", topic); err != nil || fmt.Sprint(offsets) != fmt.Sprintf("map[1-0:%d]", i) {
				t.Errorf("topic %q: offsets %v, %v, want %d", topic, offsets, err, i)
			}
		}
		for _, topic := range []string{"", ".", "..", "../x", "x/y", "/", "a\x00", "a\n", "\x7f", "\u0085", "\ue000", "\ufffd", "\xff"} {
			if message.CheckTopic(topic) == nil || m.RegisterTopic(ctx, m.session, topic, 1, 1) == nil {
				t.Errorf("topic %q is taken", topic)
			}
		}
		must(t, m.RegisterTopic(ctx, m.session, strings.Repeat("x", 255), 1, 1))
		if topics, err := m.Topics(ctx); err != nil || len(topics) != len(legal)+1 {
			t.Errorf("%d topics, %v: %q", len(topics), err, topics)
		}
	})
}
