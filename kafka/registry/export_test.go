package registry

// What the tests reach of what has no name outside.

func ParseOffset(value string) (int64, error) { return parseOffset(value) }

func ParsePartitionCount(value string) (int32, error) {
	counts, err := parseTopicBrokers("t", map[string][]byte{"0": []byte(value)})
	return counts[0], err
}

func PartitionsOf(counts map[int32]int32) []Partition { return partitionsOf(counts) }
