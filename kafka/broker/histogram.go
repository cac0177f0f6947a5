package broker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// durationBounds are the upper bounds (inclusive) of a histogram's buckets:
// from an answer out of the page cache to the longest wait that a WaitFetch can
// ask for.
var durationBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// histogram counts durations. Unlike the one of the metrics library it takes
// any number of equal ones at the price of one: the small requests that came
// with one read are handled together, and none of them costs anything here.
// The zero value is ready; it may be used concurrently.
type histogram struct {
	counts  [len(durationBounds) + 1]atomic.Uint64 // the last is of those above all bounds
	seconds atomic.Uint64                          // bits of the float64 sum
}

// observe counts n durations of d.
func (h *histogram) observe(d time.Duration, n int) {
	i := 0
	for i < len(durationBounds) && d > durationBounds[i] {
		i++
	}
	h.counts[i].Add(uint64(n))
	for {
		old := h.seconds.Load()
		sum := math.Float64frombits(old) + d.Seconds()*float64(n)
		if h.seconds.CompareAndSwap(old, math.Float64bits(sum)) {
			return
		}
	}
}

// metric describes what was counted so far.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(durationBounds))
	count := uint64(0)
	for i, bound := range durationBounds {
		count += h.counts[i].Load()
		buckets[bound.Seconds()] = count
	}
	count += h.counts[len(durationBounds)].Load()
	return prometheus.MustNewConstHistogram(desc, count, math.Float64frombits(h.seconds.Load()), buckets, labels...)
}
