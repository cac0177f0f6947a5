package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
)

// topicValue is an entry of a map by topic.
type topicValue struct{ topic, value string }

// parseTopicMap takes a map such as "clicks:8,searches:4" apart, the form of
// Kafka 0.7 for settings by topic. The value is what stands behind the last
// colon of an entry, as topics may hold colons; one with a comma cannot be given
// here. Blanks around an entry and its colon do not count. An entry that 0.7
// would skip is an error, and so is a topic that stands there twice. An empty
// text is an empty map.
func parseTopicMap(text string) ([]topicValue, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var entries []topicValue
	seen := map[string]bool{}
	for _, entry := range strings.Split(text, ",") {
		i := strings.LastIndexByte(entry, ':')
		if i < 0 {
			return nil, fmt.Errorf("%.100q is not TOPIC:VALUE, several divided by commas", strings.TrimSpace(entry))
		}
		v := topicValue{strings.TrimSpace(entry[:i]), strings.TrimSpace(entry[i+1:])}
		if err := message.CheckTopic(v.topic); err != nil {
			return nil, err
		}
		if seen[v.topic] {
			return nil, fmt.Errorf("topic %q is there twice", v.topic)
		}
		seen[v.topic] = true
		entries = append(entries, v)
	}
	return entries, nil
}

// topicMap is a flag with a value for some topics. Given several times it takes
// the entries of all.
type topicMap[T any] struct {
	values map[string]T
	parse  func(string) (T, error)
	kind   string // what a value is, for the help
}

func (m *topicMap[T]) Set(text string) error {
	entries, err := parseTopicMap(text)
	if err != nil {
		return err
	}
	values := maps.Clone(m.values)
	if values == nil {
		values = map[string]T{}
	}
	for _, e := range entries {
		if _, twice := values[e.topic]; twice {
			return fmt.Errorf("topic %q is there twice", e.topic)
		}
		if values[e.topic], err = m.parse(e.value); err != nil {
			return fmt.Errorf("topic %q: %w", e.topic, err)
		}
	}
	m.values = values
	return nil
}

func (m *topicMap[T]) String() string {
	var entries []string
	for _, topic := range slices.Sorted(maps.Keys(m.values)) {
		entries = append(entries, fmt.Sprintf("%s:%v", topic, m.values[topic]))
	}
	return strings.Join(entries, ",")
}

func (m *topicMap[T]) Type() string { return "topic:" + m.kind + ",..." }

// topicFlags are the settings of a broker that can differ by topic.
type topicFlags struct {
	partitions, flushMessages                  topicMap[int]
	segmentSize, retentionSize                 topicMap[byteSize]
	flushInterval, rollInterval, retentionTime topicMap[time.Duration]
}

func (f *topicFlags) add(fs *flagSet) {
	f.partitions = topicMap[int]{kind: "count", parse: countFrom(1, storage.MaxPartitions)}
	f.flushMessages = topicMap[int]{kind: "count", parse: countFrom(0, math.MaxInt)}
	f.segmentSize = topicMap[byteSize]{kind: "size", parse: sizeFrom(1)}
	f.retentionSize = topicMap[byteSize]{kind: "size", parse: sizeFrom(0)}
	f.flushInterval = topicMap[time.Duration]{kind: "duration", parse: flushIntervalOf}
	for _, m := range []*topicMap[time.Duration]{&f.rollInterval, &f.retentionTime} {
		*m = topicMap[time.Duration]{kind: "duration", parse: durationFromZero}
	}
	fs.Var(&f.partitions, "topic-partitions", "--num-partitions for some topics, such as clicks:8,searches:4")
	fs.Var(&f.segmentSize, "topic-segment-size", "--segment-size for some topics")
	fs.Var(&f.flushMessages, "topic-flush-messages", "--flush-messages for some topics; 0: not by count")
	fs.Var(&f.flushInterval, "topic-flush-interval", "--flush-interval for some topics; 0: not by time")
	fs.Var(&f.rollInterval, "topic-roll-interval", "--roll-interval for some topics; 0: not by age")
	fs.Var(&f.retentionTime, "topic-retention", "--retention for some topics; 0: not by age")
	fs.Var(&f.retentionSize, "topic-retention-size", "--retention-size for some topics; 0: not by size")
}

// apply puts the settings into a configuration.
func (f *topicFlags) apply(cfg *broker.Config) {
	topics := map[string]storage.TopicConfig{}
	set := func(topic string, change func(*storage.TopicConfig)) {
		t := topics[topic]
		change(&t)
		topics[topic] = t
	}
	for topic, n := range f.partitions.values {
		set(topic, func(t *storage.TopicConfig) { t.Partitions = int32(n) })
	}
	for topic, size := range f.segmentSize.values {
		set(topic, func(t *storage.TopicConfig) { t.SegmentBytes = int64(size) })
	}
	for topic, n := range f.flushMessages.values {
		set(topic, func(t *storage.TopicConfig) { t.FlushMessages = &n })
	}
	for topic, d := range f.flushInterval.values {
		set(topic, func(t *storage.TopicConfig) { t.FlushInterval = &d })
	}
	for topic, d := range f.rollInterval.values {
		set(topic, func(t *storage.TopicConfig) { t.RollInterval = &d })
	}
	for topic, d := range f.retentionTime.values {
		set(topic, func(t *storage.TopicConfig) { t.RetentionAge = &d })
	}
	for topic, size := range f.retentionSize.values {
		set(topic, func(t *storage.TopicConfig) { n := int64(size); t.RetentionBytes = &n })
	}
	if len(topics) > 0 {
		cfg.Storage.Topics = topics
	}
}

// countFrom reads a number within bounds (inclusive).
func countFrom(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%q is not a number from %d to %d", s, least, most)
		}
		return n, nil
	}
}

// sizeFrom reads a size of at least so many bytes.
func sizeFrom(least byteSize) func(string) (byteSize, error) {
	return func(s string) (b byteSize, err error) {
		if err := b.Set(s); err != nil {
			return 0, err
		}
		if b < least {
			return 0, fmt.Errorf("%q is too small: at least %d byte is wanted", s, least)
		}
		return b, nil
	}
}

func flushIntervalOf(s string) (time.Duration, error) {
	d, err := durationFromZero(s)
	if err == nil && d > 0 && d < storage.LeastInterval {
		return 0, fmt.Errorf("%q is too short: at least %v is wanted, or 0", s, storage.LeastInterval)
	}
	return d, err
}

func durationFromZero(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time such as 100ms, 1s or 168h, or 0", s)
	}
	return d, nil
}
