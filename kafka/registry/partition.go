package registry

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxPartitions is the largest number of partitions that a broker may say it has
// of a topic (inclusive). It is the bound of our broker.
const MaxPartitions = 100_000

// Partition names a partition of a topic: equal numbers on two brokers are two
// partitions.
type Partition struct {
	Broker    int32 // id of the broker that has it
	Partition int32 // its number there, from 0
}

// String returns the name of the partition's nodes, "broker-partition".
func (p Partition) String() string {
	return strconv.Itoa(int(p.Broker)) + "-" + strconv.Itoa(int(p.Partition))
}

// ParsePartition reads what [Partition.String] writes.
func ParsePartition(name string) (Partition, error) {
	broker, partition, ok := strings.Cut(name, "-")
	if !ok {
		return Partition{}, fmt.Errorf("%.40q is not broker-partition", name)
	}
	b, err := parseNumber(broker, math.MaxInt32)
	if err != nil {
		return Partition{}, fmt.Errorf("broker of %.40q: %w", name, err)
	}
	p, err := parseNumber(partition, math.MaxInt32)
	if err != nil {
		return Partition{}, fmt.Errorf("partition of %.40q: %w", name, err)
	}
	return Partition{Broker: b, Partition: p}, nil
}

// Compare orders partitions by number: those of broker 2 come before those of
// broker 10. (Consumers of 0.7 order them as text when they assign them.)
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Broker, q.Broker), cmp.Compare(p.Partition, q.Partition))
}
