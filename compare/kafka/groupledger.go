package kafka

import (
	"sync"

	"kafkalab/kafka/registry"
)

// handedOut is a message that a consumer of the group has told of.
type handedOut struct {
	member            int
	broker, partition int32
	offset            int64
	sequence          int64 // damagedSequence: not as it was made
}

// groupLedger keeps which consumer was handed which message.
type groupLedger struct {
	mu       sync.Mutex
	consumed int64 // repeats counted
	damaged  int64
	distinct int64
	// first is who was handed a message first, by its sequence number: the number
	// of the consumer and one, 0 for nobody. again are those that were handed it
	// later.
	first []int32
	again map[int64][]int
	// offsets are what each consumer was handed of each partition.
	offsets map[memberPartition][]int64
}

type memberPartition struct {
	member int
	registry.Partition
}

func newGroupLedger() *groupLedger {
	return &groupLedger{again: map[int64][]int{}, offsets: map[memberPartition][]int64{}}
}

// add notes one message. The sequence numbers that a producer makes are below
// most.
func (l *groupLedger) add(h handedOut, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.consumed++
	if h.sequence < 0 || h.sequence >= most {
		l.damaged++
		return
	}
	at := memberPartition{h.member, registry.Partition{Broker: h.broker, Partition: h.partition}}
	l.offsets[at] = append(l.offsets[at], h.offset)
	for int64(len(l.first)) <= h.sequence {
		l.first = append(l.first, make([]int32, max(1<<12, len(l.first)))...)
	}
	if l.first[h.sequence] == 0 {
		l.first[h.sequence] = int32(h.member) + 1
		l.distinct++
		return
	}
	l.again[h.sequence] = append(l.again[h.sequence], h.member)
}

// counts returns how many messages came, repeats counted and not.
func (l *groupLedger) counts() (consumed, distinct int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.consumed, l.distinct
}

// uncommitted counts what a consumer was handed at or behind the offsets that
// stand in the registry: of a partition without one, everything.
func (l *groupLedger) uncommitted(member int, committed map[registry.Partition]int64) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, offsets := range l.offsets {
		if at.member != member {
			continue
		}
		for _, offset := range offsets {
			if offset >= committed[at.Partition] {
				n++
			}
		}
	}
	return n
}

// repeats counts the messages that came more than once: unclean are those that
// one of the killed consumers was handed, clean all others.
func (l *groupLedger) repeats(killed map[int]bool) (clean, unclean int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sequence, later := range l.again {
		excused := killed[int(l.first[sequence])-1]
		for _, member := range later {
			excused = excused || killed[member]
		}
		if excused {
			unclean += int64(len(later))
		} else {
			clean += int64(len(later))
		}
	}
	return clean, unclean
}
