package broker

import (
	"maps"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
)

// keepSchemas returns the settings of topics with one more: retention leaves the
// topic of schemas alone, by age and by size, where nothing else is asked for that
// topic itself. A schema is needed for as long as there is a message that was
// written with it, on whichever cluster, and the registry has no other store
// (NetDB'11 §4).
func keepSchemas(topics map[string]storage.TopicConfig) map[string]storage.TopicConfig {
	t := topics[message.SchemasTopic]
	if t.RetentionAge == nil {
		t.RetentionAge = new(time.Duration)
	}
	if t.RetentionBytes == nil {
		t.RetentionBytes = new(int64)
	}
	kept := make(map[string]storage.TopicConfig, len(topics)+1)
	maps.Copy(kept, topics) // the caller's stays as it is
	kept[message.SchemasTopic] = t
	return kept
}
