package message

import (
	"fmt"
	"unicode/utf8"
)

// MaxTopicLength is the longest topic name in bytes (inclusive). Kafka 0.7
// says 255; 249 leaves room for the partition in a folder name of 255 bytes.
const MaxTopicLength = 249

// SchemasTopic is the topic in which a cluster keeps its schemas (NetDB'11 §4).
// It is the only store of its schema registry, so brokers never delete its
// messages by age or size unless they are told to, and mirrors leave it out: the
// ids in it are those of its own cluster.
const SchemasTopic = "schemas"

// CheckTopic reports why a topic name is not legal, or nil. The rule is Kafka
// 0.7.2's: 1 to [MaxTopicLength] bytes, not "." or "..", and neither '/' nor
// control characters, surrogates, private-use or special code points. It is
// the one rule for broker, clients and tools (fault B17).
func CheckTopic(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("topic name is empty: give one of 1 to %d bytes", MaxTopicLength)
	case len(name) > MaxTopicLength:
		return fmt.Errorf("topic name of %d bytes (%.20q…): at most %d are allowed", len(name), name, MaxTopicLength)
	case name == "." || name == "..":
		return fmt.Errorf("topic name %q is the name of a folder: choose another", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("topic name %q is not UTF-8", name)
	}
	for _, r := range name {
		if r == '/' || r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff {
			return fmt.Errorf("topic name %q holds the character %U, which is not allowed in a folder or node name", name, r)
		}
	}
	return nil
}
