package consumer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
)

// ranges writes an assignment as the partitions of each thread in the order of
// their names.
func ranges(assigned map[registry.Partition]string, threads []string) string {
	var out []string
	for _, thread := range threads {
		var names []string
		for p, owner := range assigned {
			if owner == thread {
				names = append(names, p.String())
			}
		}
		slices.Sort(names)
		out = append(out, "["+strings.Join(names, " ")+"]")
	}
	return strings.Join(out, " ")
}

func partitions(perBroker ...int) []registry.Partition {
	var out []registry.Partition
	for b, n := range perBroker {
		for p := range n {
			out = append(out, registry.Partition{Broker: int32(b), Partition: int32(p)})
		}
	}
	return out
}

// What Kafka 0.7 makes of lists: remainders go to the first threads, and both lists
// are sorted as text.
func TestAssignRangeAsKafka07(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions []registry.Partition
		threads    []string // in 0.7's order
		want       string
	}{
		{"the example of 6 over 4", partitions(6), []string{"a", "b", "c", "d"}, "[0-0 0-1] [0-2 0-3] [0-4] [0-5]"},
		{"a divisor", partitions(2, 2), []string{"a", "b"}, "[0-0 0-1] [1-0 1-1]"},
		{"more threads than partitions", partitions(2), []string{"a", "b", "c"}, "[0-0] [0-1] []"},
		{"one thread", partitions(1, 2), []string{"a"}, "[0-0 1-0 1-1]"},
		{"0-10 before 0-2", partitions(11), []string{"a", "b", "c"}, "[0-0 0-1 0-10 0-2] [0-3 0-4 0-5 0-6] [0-7 0-8 0-9]"},
		{"thread 10 before thread 2", partitions(3), []string{"g_c-1", "g_c-10", "g_c-2"}, "[0-0] [0-1] [0-2]"},
		{"broker 10 before broker 2", []registry.Partition{{Broker: 2}, {Broker: 10}}, []string{"a", "b"}, "[10-0] [2-0]"},
		// '-' is less than any digit: 1-9 comes before 10-0.
		{"the hyphen", []registry.Partition{{Broker: 10}, {Broker: 1, Partition: 9}}, []string{"a", "b"}, "[1-9] [10-0]"},
		{"capital letters first", partitions(2), []string{"Z", "a"}, "[0-0] [0-1]"},
		{"surrogates before U+E000", partitions(2), []string{"a😀", "a\uff5e"}, "[0-0] [0-1]"},
		{"no partitions", nil, []string{"a"}, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			backwards := slices.Clone(c.threads)
			slices.Reverse(backwards)
			if got := ranges(consumer.AssignRange(c.partitions, backwards), c.threads); got != c.want {
				t.Errorf("assigned %s, want %s", got, c.want)
			}
		})
	}
	if got := consumer.AssignRange(partitions(3), nil); len(got) != 0 {
		t.Errorf("without threads: %v", got)
	}
}

func threadsOf(t *rapid.T) []string {
	id := rapid.StringMatching(`[a-c\-0-9A-C~😀\x{ff5e}]{1,6}`)
	return rapid.SliceOfNDistinct(id, 1, 30, rapid.ID[string]).Draw(t, "threads")
}

func partitionsOf(t *rapid.T) []registry.Partition {
	one := rapid.Custom(func(t *rapid.T) registry.Partition {
		return registry.Partition{Broker: rapid.Int32Range(0, 30).Draw(t, "broker"), Partition: rapid.Int32Range(0, 120).Draw(t, "partition")}
	})
	return rapid.SliceOfNDistinct(one, 0, 150, rapid.ID[registry.Partition]).Draw(t, "partitions")
}

// Every partition has one thread; the counts of two threads differ by one at most,
// the greater ones first; each has a range of the sorted list.
func TestAssignRangeDividesEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps, threads := partitionsOf(t), threadsOf(t)
		assigned := consumer.AssignRange(ps, threads)
		if len(assigned) != len(ps) {
			t.Fatalf("%d of %d partitions are assigned", len(assigned), len(ps))
		}
		// Java's order, taken from the units of UTF-16 themselves.
		java := func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) }
		slices.SortFunc(threads, java)
		slices.SortFunc(ps, func(a, b registry.Partition) int { return java(a.String(), b.String()) })
		last, counts := 0, make([]int, len(threads))
		for _, p := range ps {
			i := slices.Index(threads, assigned[p])
			if i < last {
				t.Fatalf("%v goes to thread %d (%q), the one before it to thread %d: no ranges", p, i, assigned[p], last)
			}
			last = i
			counts[i]++
		}
		if !slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) || counts[0]-counts[len(counts)-1] > 1 {
			t.Fatalf("counts %v: they must fall, by one at most", counts)
		}
	})
}

// All members come to the same answer, in whatever order they have read the lists;
// and what they were given is left as it is.
func TestAssignRangeIsTheSameInEveryMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps, threads := partitionsOf(t), threadsOf(t)
		want := consumer.AssignRange(ps, threads)
		ps2 := rapid.Permutation(ps).Draw(t, "as another member has read the partitions")
		threads2 := rapid.Permutation(threads).Draw(t, "as another member has read the threads")
		before := fmt.Sprint(ps2, threads2)
		if got := consumer.AssignRange(ps2, threads2); !maps.Equal(got, want) {
			t.Fatalf("another member assigns %v, this one %v", got, want)
		}
		if after := fmt.Sprint(ps2, threads2); after != before {
			t.Fatalf("the lists were changed to %s", after)
		}
	})
}
