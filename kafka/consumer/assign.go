package consumer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"kafkalab/kafka/registry"
)

// AssignRange divides the partitions of one topic among the threads of a group
// that are subscribed to it (NetDB'11 §3.2, Algorithm 1), and returns the thread of
// each. It is pure: every member of a group that knows the same partitions and
// threads comes to the same answer, whatever order it has read them in.
//
// Order and arithmetic are those of Kafka 0.7, since one member that counts in
// another way would be in conflict with the others for ever. Both lists are sorted
// as text, the partitions by their names "broker-partition", so 0-10 comes before
// 0-2. Of P partitions and C threads the thread at position i gets
//
//	P/C + (1 if i < P%C, else 0) partitions, from position i·(P/C) + min(i, P%C) on.
//
// (The paper gives each P/C and leaves the remainder open.) So the counts differ by
// one at most, and threads beyond the number of partitions get none.
func AssignRange(partitions []registry.Partition, threads []string) map[registry.Partition]string {
	assigned := make(map[registry.Partition]string, len(partitions))
	if len(threads) == 0 {
		return assigned
	}
	sorted := sortedByName(partitions)
	threads = slices.Clone(threads)
	slices.SortFunc(threads, compareText)
	each, more := len(sorted)/len(threads), len(sorted)%len(threads)
	for i, thread := range threads {
		first := each*i + min(i, more)
		count := each
		if i < more {
			count++
		}
		for _, p := range sorted[first : first+count] {
			assigned[p] = thread
		}
	}
	return assigned
}

// sortedByName returns partitions in the order of their names as text.
func sortedByName(partitions []registry.Partition) []registry.Partition {
	type named struct {
		name string
		registry.Partition
	}
	list := make([]named, len(partitions))
	for i, p := range partitions {
		list[i] = named{p.String(), p}
	}
	slices.SortFunc(list, func(a, b named) int { return compareText(a.name, b.name) })
	sorted := make([]registry.Partition, len(list))
	for i, n := range list {
		sorted[i] = n.Partition
	}
	return sorted
}

// compareText compares as Java compares strings: by units of UTF-16. That is the
// order of the bytes of UTF-8, but for characters from U+10000 on: their units are
// surrogates, which come before U+E000. The name of a foreign member may hold some.
func compareText(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return cmp.Or(cmp.Compare(firstUnit(ra), firstUnit(rb)), cmp.Compare(ra, rb))
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// firstUnit returns the first unit of UTF-16 of a character.
func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xd800 + (r-0x10000)>>10
}
