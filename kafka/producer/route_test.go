package producer

import (
	"slices"
	"testing"
)

// someRoute has brokers 2 (three partitions), 5 (none known of yet) and 10 (two).
func someRoute() *route {
	r := &route{}
	r.add(span{broker: 2, member: &member{}, n: 3})
	r.add(span{broker: 5, n: 1})
	r.add(span{broker: 10, member: &member{}, n: 2})
	return r
}

func (t target) name() [2]int32 { return [2]int32{t.span.broker, t.partition} }

func TestRouteIsTheSortedList(t *testing.T) {
	r := someRoute()
	var got [][2]int32
	for i := range r.total {
		got = append(got, r.at(i).name())
	}
	if want := [][2]int32{{2, 0}, {2, 1}, {2, 2}, {5, 0}, {10, 0}, {10, 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Without a key every partition of the brokers that are up is as likely; then of
// those that are registered; then any.
func TestRoutePick(t *testing.T) {
	r := someRoute()
	for _, c := range []struct {
		name    string
		down    []int
		unknown []int
		want    [][2]int32
	}{
		{"two are up", nil, nil, [][2]int32{{2, 0}, {2, 1}, {2, 2}, {10, 0}, {10, 1}}},
		{"one is up", []int{0}, nil, [][2]int32{{10, 0}, {10, 1}}},
		{"none is up", []int{0, 2}, nil, [][2]int32{{2, 0}, {2, 1}, {2, 2}, {10, 0}, {10, 1}}},
		{"none is registered", nil, []int{0, 2}, [][2]int32{{2, 0}, {2, 1}, {2, 2}, {5, 0}, {10, 0}, {10, 1}}},
	} {
		for k := range r.spans {
			r.spans[k].member = &member{}
			r.spans[k].member.down.Store(slices.Contains(c.down, k))
			if k == 1 || slices.Contains(c.unknown, k) {
				r.spans[k].member = nil
			}
		}
		const n = 10_000
		counts := map[[2]int32]int{}
		for range n {
			counts[r.pick().name()]++
		}
		for _, target := range c.want {
			// Six deviations, of at most 50.
			if share := n / len(c.want); counts[target] < share-300 || counts[target] > share+300 {
				t.Errorf("%s: %v is picked %d times of %d", c.name, target, counts[target], n)
			}
		}
		if len(counts) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, counts, c.want)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	r := &route{}
	for id := range int32(4) {
		r.add(span{broker: id, member: &member{}, n: 16})
	}
	b.Run("pick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = r.pick()
		}
	})
	b.Run("pick with a broker down", func(b *testing.B) {
		b.ReportAllocs()
		r.spans[1].member.down.Store(true)
		for b.Loop() {
			_ = r.pick()
		}
	})
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		key := []byte("a key of ordinary length")
		for b.Loop() {
			_ = r.at(HashPartitioner{}.Partition("t", key, r.total))
		}
	})
}
