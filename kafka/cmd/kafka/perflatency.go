package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxPerfLatency is the longest time that is told apart from longer ones.
const maxPerfLatency = time.Hour

// latencies gathers times. It may be used by several goroutines at once.
type latencies struct {
	mu    sync.Mutex
	h     *hdrhistogram.Histogram // µs, three digits
	sum   float64                 // seconds
	worst time.Duration
}

func newLatencies() *latencies {
	return &latencies{h: hdrhistogram.New(1, maxPerfLatency.Microseconds(), 3)}
}

// record takes in the times from when each of some messages was planned until
// now. Clocks that went back make it 0.
func (l *latencies) record(now time.Time, planned ...time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range planned {
		l.add(now.Sub(p))
	}
}

// recordNs is record for times in ns since the epoch.
func (l *latencies) recordNs(now time.Time, planned []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range planned {
		l.add(time.Duration(now.UnixNano() - p))
	}
}

func (l *latencies) add(d time.Duration) {
	d = max(d, 0)
	l.sum += d.Seconds()
	l.worst = max(l.worst, d)
	_ = l.h.RecordValue(min(d, maxPerfLatency).Microseconds()) // cannot fail within those bounds
}

// perfLatency is a distribution of times, in milliseconds.
type perfLatency struct {
	Of       string  `json:"of"` // what was timed
	Messages int64   `json:"messages"`
	MeanMs   float64 `json:"mean_ms"`
	P50Ms    float64 `json:"p50_ms"`
	P95Ms    float64 `json:"p95_ms"`
	P99Ms    float64 `json:"p99_ms"`
	P999Ms   float64 `json:"p99_9_ms"`
	MaxMs    float64 `json:"max_ms"`
}

// result returns the distribution, nil when there were no times.
func (l *latencies) result(of string) *perfLatency {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.h.TotalCount()
	if n == 0 {
		return nil
	}
	worst := l.worst.Microseconds()
	ms := func(percentile float64) float64 {
		// What is told is the upper end of a class of times, which may lie above all.
		return float64(min(l.h.ValueAtPercentile(percentile), worst)) / 1e3
	}
	return &perfLatency{
		Of: of, Messages: n, MeanMs: l.sum / float64(n) * 1e3,
		P50Ms: ms(50), P95Ms: ms(95), P99Ms: ms(99), P999Ms: ms(99.9), MaxMs: float64(worst) / 1e3,
	}
}

func (l *perfLatency) String() string {
	return fmt.Sprintf("%s of %d messages, ms: mean %.3f, 50 %% %.3f, 95 %% %.3f, 99 %% %.3f, 99.9 %% %.3f, max %.3f",
		l.Of, l.Messages, l.MeanMs, l.P50Ms, l.P95Ms, l.P99Ms, l.P999Ms, l.MaxMs)
}
