package measure

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kafkalab/results/resultfile"
)

// Latencies records how long messages have taken, twice: from the moment at
// which each was due, and from that at which it was sent; or, with tags of its
// own, to several places. It allocates nothing for a message: its memory is three
// histograms of 200 KB for each tag. [Latencies.Record] and [Latencies.RecordAt]
// may be called at once with all other methods; of those one at a time.
type Latencies struct {
	emit func(resultfile.LatencyInterval)

	mu   sync.Mutex // guards current
	tags []latencyTag

	last time.Duration // the end of the last interval
}

// latencyTag is the latencies of one tag: of the interval under way, of the
// one that is being reported, and of all that have been.
type latencyTag struct {
	name                  string
	current, ended, whole *hdrhistogram.Histogram
}

// NewLatencies returns a recorder that hands each interval to emit, those of
// the tags one after the other. Without tags they are those of planned and of
// sent.
func NewLatencies(emit func(resultfile.LatencyInterval), tags ...string) *Latencies {
	if len(tags) == 0 {
		tags = []string{resultfile.TagPlanned, resultfile.TagSent}
	}
	l := &Latencies{emit: emit}
	for _, name := range tags {
		l.tags = append(l.tags, latencyTag{name, resultfile.NewLatencyHistogram(), resultfile.NewLatencyHistogram(), resultfile.NewLatencyHistogram()})
	}
	return l
}

// Record takes a message that was received so long after it was due, and after
// it was sent. A negative time is not known, and not recorded; one above
// [resultfile.LatencyMost] is recorded as that.
func (l *Latencies) Record(planned, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record(0, planned)
	l.record(1, sent)
}

// RecordAt takes a time for one tag, by its place among those that NewLatencies
// was given.
func (l *Latencies) RecordAt(tag int, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record(tag, d)
}

// record is called with mu held.
func (l *Latencies) record(tag int, d time.Duration) {
	if d >= 0 {
		// The only error is for a value beyond the histogram's range.
		_ = l.tags[tag].current.RecordValue(int64(min(d, resultfile.LatencyMost)))
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

// WholeOf is Whole for one tag, by its place.
func (l *Latencies) WholeOf(tag int) *hdrhistogram.Histogram { return l.tags[tag].whole }
