package registry

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Folders of the tree.
const (
	brokerIDs = "/brokers/ids"
	topics    = "/brokers/topics"
	begun     = "/brokers/begun"
	groups    = "/consumers"
)

func brokerPath(id int32) string { return brokerIDs + "/" + strconv.Itoa(int(id)) }
func topicPath(topic string) string {
	return topics + "/" + topic
}
func topicBrokerPath(topic string, id int32) string {
	return topicPath(topic) + "/" + strconv.Itoa(int(id))
}
func begunPath(topic string) string { return begun + "/" + topic }
func groupPath(group string) string { return groups + "/" + group }
func consumersPath(group string) string {
	return groupPath(group) + "/ids"
}
func consumerPath(group, id string) string { return consumersPath(group) + "/" + id }
func ownersPath(group string) string       { return groupPath(group) + "/owners" }
func topicOwnersPath(group, topic string) string {
	return ownersPath(group) + "/" + topic
}
func ownerPath(group, topic string, p Partition) string {
	return topicOwnersPath(group, topic) + "/" + p.String()
}
func offsetsPath(group string) string { return groupPath(group) + "/offsets" }
func topicOffsetsPath(group, topic string) string {
	return offsetsPath(group) + "/" + topic
}
func offsetPath(group, topic string, p Partition) string {
	return topicOffsetsPath(group, topic) + "/" + p.String()
}

// MaxNameBytes is how long the name of a group, topic or consumer may be to be a
// node (inclusive). It is the longest topic name of Kafka 0.7.
const MaxNameBytes = 255

// checkName reports why text cannot be the name of a node, or nil. The rule is
// ZooKeeper's own, and 0.7.2's for topics: a name that breaks it would be another
// node, above or below the one that is meant.
func checkName(what, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%s is empty: give one of 1 to %d bytes", what, MaxNameBytes)
	case len(text) > MaxNameBytes:
		return fmt.Errorf("%s %.40q… of %d bytes: at most %d are possible", what, text, len(text), MaxNameBytes)
	case text == "." || text == "..":
		return fmt.Errorf("%s %q cannot be the name of a node: choose another", what, text)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not UTF-8", what, text)
	}
	if i := strings.IndexFunc(text, notInNames); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return fmt.Errorf("%s %q holds the character %U, which the name of a node may not", what, text, r)
	}
	return nil
}

// CheckGroup reports why a name cannot be that of a consumer group, or nil.
func CheckGroup(group string) error { return checkName("consumer group", group) }

func notInNames(r rune) bool {
	return r == '/' || r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}

// parseNumber reads a decimal number from 0 to most (inclusive), as it is
// written: no sign, no leading zeros.
func parseNumber(text string, most int32) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || n > int64(most) || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%.40q is not a number from 0 to %d", text, most)
	}
	return int32(n), nil
}
