package measure

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// Latencies records how long messages have taken, twice: from the moment at
// which each was due, and from that at which it was sent. It allocates nothing
// for a message: its memory is six histograms of 200 KB. [Latencies.Record]
// may be called at once with all other methods; of those one at a time.
type Latencies struct {
	emit func(resultfile.LatencyInterval)

	mu   sync.Mutex // guards current
	tags [2]latencyTag

	last time.Duration // the end of the last interval
}

// latencyTag is the latencies of one tag: of the interval under way, of the
// one that is being reported, and of all that have been.
type latencyTag struct {
	name                  string
	current, ended, whole *hdrhistogram.Histogram
}

// NewLatencies returns a recorder that hands each interval to emit, those of
// the two tags one after the other.
func NewLatencies(emit func(resultfile.LatencyInterval)) *Latencies {
	l := &Latencies{emit: emit}
	for i, name := range []string{resultfile.TagPlanned, resultfile.TagSent} {
		l.tags[i] = latencyTag{name, resultfile.NewLatencyHistogram(), resultfile.NewLatencyHistogram(), resultfile.NewLatencyHistogram()}
	}
	return l
}

// Record takes a message that was received so long after it was due, and after
// it was sent. A negative time is not known, and not recorded; one above
// [resultfile.LatencyMost] is recorded as that.
func (l *Latencies) Record(planned, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, d := range [2]time.Duration{planned, sent} {
		if d >= 0 {
			// The only error is for a value beyond the histogram's range.
			_ = l.tags[i].current.RecordValue(int64(min(d, resultfile.LatencyMost)))
		}
	}
}

// Cut ends the interval under way at now, which counts from the beginning of
// the measuring, reports it and begins the next one. An interval without a
// message is not reported.
func (l *Latencies) Cut(now time.Duration) error {
	start := l.last
	l.last = now
	l.mu.Lock()
	for i := range l.tags {
		t := &l.tags[i]
		t.current, t.ended = t.ended, t.current
	}
	l.mu.Unlock()
	for i := range l.tags {
		t := &l.tags[i]
		if t.ended.TotalCount() == 0 {
			continue
		}
		t.whole.Merge(t.ended)
		interval, err := resultfile.NewLatencyInterval(t.name, start.Seconds(), (now - start).Seconds(), t.ended)
		if err != nil {
			return fmt.Errorf("latencies: %w", err)
		}
		t.ended.Reset()
		l.emit(interval)
	}
	return nil
}

// Whole returns what was reported so far, from the planned send times and from
// the real ones. The caller must not change it.
func (l *Latencies) Whole() (planned, sent *hdrhistogram.Histogram) {
	return l.tags[0].whole, l.tags[1].whole
}
