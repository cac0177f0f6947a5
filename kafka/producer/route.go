package producer

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"kafkalab/kafka/registry"
)

// anyPartition lets the broker choose.
const anyPartition = -1

// topicRoute is what a cluster knows about a topic.
type topicRoute struct {
	name  string
	ready chan struct{} // closed when its partitions are known for the first time
	route atomic.Pointer[route]
	// moving counts messages with keys that are on their way from a broker that has
	// gone: new ones wait, so that they do not overtake them.
	moving atomic.Int64
	used   atomic.Bool // since its brokers were asked last
	// guessed says that a broker of a static list was not known to have the topic.
	guessed atomic.Bool

	// Guarded by the cluster's mu.
	known  bool
	counts map[int32]int32 // by broker id, as the registry says
	watch  *registry.Watch
}

// route lists the partitions of a topic by broker and number. It is not changed
// once it is published.
type route struct {
	spans   []span
	total   int
	assumed bool // no broker has registered the topic
}

// span is the partitions of one broker: their indexes in the list from first on.
type span struct {
	broker int32
	member *member // nil while the registry does not say where the broker is
	first  int
	n      int
	any    bool // the broker is to choose: partition -1 stands for all
}

// target is a partition at a broker.
type target struct {
	span      *span
	partition int32
}

func (r *route) add(s span) {
	s.first = r.total
	r.total += s.n
	r.spans = append(r.spans, s)
}

// at returns the partition with an index, from 0 and below total.
func (r *route) at(i int) target {
	for k := range r.spans {
		s := &r.spans[k]
		if i >= s.first+s.n {
			continue
		}
		if s.any {
			return target{s, anyPartition}
		}
		return target{s, int32(i - s.first)}
	}
	panic("producer: no partition has that index")
}

// pick returns a partition by chance: each is as likely as any other of those whose
// brokers are up or, if none is, of those whose brokers are registered.
func (r *route) pick() target {
	if t := r.at(rand.IntN(r.total)); t.span.up() {
		return t
	}
	for _, wanted := range [...]func(*span) bool{(*span).up, (*span).registered} {
		if n := r.count(wanted); n > 0 {
			return r.among(rand.IntN(n), wanted)
		}
	}
	return r.at(rand.IntN(r.total))
}

func (s *span) up() bool         { return s.member != nil && !s.member.down.Load() }
func (s *span) registered() bool { return s.member != nil }

// count counts the partitions at the wanted brokers.
func (r *route) count(wanted func(*span) bool) (n int) {
	for k := range r.spans {
		if wanted(&r.spans[k]) {
			n += r.spans[k].n
		}
	}
	return n
}

// among returns the partition with an index among those at the wanted brokers. One
// that has ceased to be wanted meanwhile is as good as any.
func (r *route) among(i int, wanted func(*span) bool) target {
	for k := range r.spans {
		s := &r.spans[k]
		if !wanted(s) {
			continue
		}
		if i < s.n {
			return r.at(s.first + i)
		}
		i -= s.n
	}
	return r.at(rand.IntN(r.total))
}

// partitionsAt returns how many partitions a broker has.
func (r *route) partitionsAt(broker int32) int {
	for k := range r.spans {
		if r.spans[k].broker == broker {
			return r.spans[k].n
		}
	}
	return 0
}

// anyUp reports whether one of its brokers is up.
func (r *route) anyUp() bool { return r.count((*span).up) > 0 }

// makeRoute makes the list of a topic. Brokers that were registered and are no more
// have no part in it; those that never were have, as the registry of topics may
// know them first. mu is held.
func (c *Cluster) makeRoute(t *topicRoute) *route {
	r := &route{}
	for _, id := range sortedKeys(t.counts) {
		if n := t.counts[id]; n > 0 && !c.gone[id] {
			r.add(span{broker: id, member: c.members[id], n: int(n)})
		}
	}
	if r.total > 0 {
		return r
	}
	// A topic that no broker has yet: the first message makes it.
	r.assumed = true
	for _, id := range sortedKeys(c.members) {
		r.add(span{broker: id, member: c.members[id], n: 1, any: c.brokersChoose})
	}
	return r
}

func sortedKeys[V any](m map[int32]V) []int32 {
	keys := make([]int32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
