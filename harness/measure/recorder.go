// Package measure takes the numbers of a run while it runs: cumulative points
// of the client's progress, and the resources of the hosts. It keeps raw
// cumulative values only; rates are derived by whoever reads them.
package measure

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/results/resultfile"
)

// MaxInterval is the longest time between two points, and DefaultInterval the
// usual one: a figure needs at least ten points a second. A stream, which lasts
// as long as it is planned to, may have one every MaxStreamInterval.
const (
	MaxInterval       = 100 * time.Millisecond
	DefaultInterval   = 50 * time.Millisecond
	MaxStreamInterval = time.Second
)

// Recorder turns counters into points. The measured code pays one atomic
// addition for [Recorder.Add]; everything else happens on a goroutine of the
// recorder's own. All methods may be called at once by several goroutines.
type Recorder struct {
	work         resultfile.Work
	payloadBytes int64
	interval     time.Duration
	emit         func(resultfile.Point)

	// The two counters have different writers. Each has a cache line (64 bytes)
	// of its own, so that they do not slow one another.
	messages atomic.Int64
	_        [56]byte
	arrived  atomic.Int64
	_        [56]byte

	mu    sync.Mutex // orders points; held while emit runs
	start time.Time
	last  resultfile.Point
	stop  chan struct{} // closed by Stop; nil before Start
	done  chan struct{} // closed when the goroutine has ended
	ended bool
}

// NewRecorder returns a recorder of messages of payloadBytes bytes (at least
// 1). It calls emit with every point, one call at a time and in order. While
// emit runs, no other point is taken: the next one is late by as long as emit
// takes, which may wait for whoever reads the points. It must not call the
// recorder. interval is the time between
// two points, above 0 and at most [MaxInterval], or [MaxStreamInterval] when
// work is [resultfile.Stream].
//
// When work is [resultfile.Consume], a message that was added has arrived.
func NewRecorder(work resultfile.Work, payloadBytes int, interval time.Duration, emit func(resultfile.Point)) (*Recorder, error) {
	if payloadBytes < 1 {
		return nil, fmt.Errorf("recorder of messages of %d bytes: at least 1 is wanted", payloadBytes)
	}
	most := MaxInterval
	if work == resultfile.Stream {
		most = MaxStreamInterval
	}
	if interval <= 0 || interval > most {
		return nil, fmt.Errorf("a point every %v: more than 0 and at most %v are possible", interval, most)
	}
	return &Recorder{work: work, payloadBytes: int64(payloadBytes), interval: interval, emit: emit}, nil
}

// Start starts the clock, emits the first point, which is at zero, and then
// one every interval until [Recorder.Stop], unless [Recorder.Mark] has just
// emitted one. It is called right before the first send, or before the first
// receive, and once.
func (r *Recorder) Start() { r.StartAt(time.Now()) }

// StartAt is Start with a clock that began at a moment that has passed: when
// the first message was due.
func (r *Recorder) StartAt(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil || r.ended {
		panic("measure: Recorder started twice")
	}
	r.start = began
	r.stop, r.done = make(chan struct{}), make(chan struct{})
	r.emit(resultfile.Point{})
	go r.run()
}

func (r *Recorder) run() {
	defer close(r.done)
	t := time.NewTicker(r.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.tick()
		case <-r.stop:
			return
		}
	}
}

// tick emits a point unless there was one a moment ago. Who marks the moments
// at which the arrived count is fresh has few points beside them with a count
// that is as old as the last question.
func (r *Recorder) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && time.Since(r.start).Seconds()-r.last.Seconds >= r.interval.Seconds()*3/4 {
		r.point()
	}
}

// Add counts n more messages as handed over or consumed.
func (r *Recorder) Add(n int64) { r.messages.Add(n) }

// Arrived sets how many messages the broker says it has. A smaller number
// than before is not taken: points never go back.
func (r *Recorder) Arrived(n int64) {
	for {
		old := r.arrived.Load()
		if n <= old || r.arrived.CompareAndSwap(old, n) {
			return
		}
	}
}

// Mark emits a point of this very moment, beside those of the interval, and
// returns it: for the moments that the results name, such as the last send and
// the last arrival. Before Start it returns the zero point and after Stop the
// final one, and emits nothing.
func (r *Recorder) Mark() resultfile.Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil && !r.ended {
		r.point()
	}
	return r.last
}

// Stop emits the final point, which holds everything added so far, ends the
// recorder and returns that point. It is idempotent, and harmless when Start
// was never called.
func (r *Recorder) Stop() resultfile.Point {
	r.mu.Lock()
	if r.stop != nil && !r.ended {
		r.point()
		close(r.stop)
	}
	r.ended = true
	final, done := r.last, r.done
	r.mu.Unlock()
	if done != nil {
		<-done
	}
	return final
}

// point takes and emits a point. r.mu is held.
func (r *Recorder) point() {
	// The time is read first, so that no message is shown earlier than it was
	// counted by more than the time of these few lines.
	p := resultfile.Point{Seconds: time.Since(r.start).Seconds()}
	p.Messages = r.messages.Load()
	p.Bytes = p.Messages * r.payloadBytes
	p.Arrived = p.Messages
	if r.work != resultfile.Consume {
		p.Arrived = r.arrived.Load()
	}
	r.last = p
	r.emit(p)
}
