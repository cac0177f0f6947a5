package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ask asks for the server's count until it is what was sent, or ctx ends. It
// stops the recorder the moment that it is. A server that does not answer ends
// the client.
func (s *streaming) ask(ctx context.Context) {
	usual := max(arrivedInterval, s.spec.pointInterval()/2)
	pause := time.NewTimer(usual)
	defer pause.Stop()
	finished := s.finished // nil when it was seen to be closed
	for {
		// Before the question: what is consumed during it is in neither count,
		// rather than in both.
		received := s.received.Load()
		n, err := s.asked.Arrived(ctx, s.spec.Queue)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.cancel(fmt.Errorf("asking the server for its count: %w", err))
			return
		}
		if s.depth {
			n += received
		}
		s.arrived.Store(n)
		s.recorder.Arrived(n)
		if finished == nil && n >= s.sent.Load() {
			s.recorder.Stop()
			close(s.allArrived)
			return
		}
		s.recorder.Mark()
		wait := usual
		if finished == nil {
			wait = drainInterval
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-finished:
			finished = nil
		case <-ctx.Done():
			return
		}
	}
}

// standing is one thing that may stand still.
type standing struct {
	what  string
	count int64
	since time.Duration
}

// check says that something was to be done, and nothing was, for the time of
// a stall.
func (w *standing) check(now, stall time.Duration, count int64, behind bool) error {
	if !behind || count != w.count {
		w.count, w.since = count, now
		return nil
	}
	if now-w.since <= stall {
		return nil
	}
	return fmt.Errorf("%w for %v: %s stood at %d messages", errStalled, stall, w.what, count)
}

// attend reports the latencies interval by interval, and ends the client when
// the sending, the server or the consumer stands still: each by itself, since
// a consumer may stall while messages are sent. A plan with long pauses is no
// stall.
func (s *streaming) attend(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	interval := max(latencyInterval, s.spec.planned()/latencyIntervals)
	next := interval
	sending, arriving, receiving := standing{what: "the sending"}, standing{what: "the server's count"}, standing{what: "the consumer"}
	var seen lookedAt
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.clock.Now()
		if now >= next {
			if err := s.latencies.Cut(now); err != nil {
				s.cancel(err)
				return
			}
			next = now + interval
		}
		sent, arrived, received := s.sent.Load(), s.arrived.Load(), s.received.Load()
		at := seen.until(now)
		err := sending.check(at, s.spec.Stall, sent, s.sending.Load())
		if err == nil {
			err = errors.Join(arriving.check(at, s.spec.Stall, arrived, arrived < sent),
				receiving.check(at, s.spec.Stall, received, received < sent))
			s.stalled.Store(err != nil)
		}
		if err != nil {
			s.cancel(err)
			return
		}
		s.moved.Add(1)
	}
}

// achieved is the rate at which so many messages have arrived in so many
// seconds, when they were planned at a rate: no more than that.
func achieved(messages int64, seconds, rate float64) float64 {
	if messages <= 0 {
		return 0
	}
	return float64(messages) / max(seconds, float64(messages)/rate)
}

// tell writes down what was measured, and flags a stream that did not keep to
// its plan.
func (s *streaming) tell() {
	r := &s.result
	rate := s.pace.rate
	got := achieved(r.Messages, r.Seconds, rate)
	m := map[string]float64{"rate_wanted": rate, "rate_achieved": got}
	planned, sent := s.latencies.Whole()
	if planned.TotalCount() > 0 {
		for name, q := range latencyMeasures {
			m[name] = float64(planned.ValueAtPercentile(q)) / float64(time.Second)
		}
	}
	if sent.TotalCount() > 0 {
		m["latency_sent_p50_seconds"] = float64(sent.ValueAtPercentile(50)) / float64(time.Second)
		m["latency_sent_p99_seconds"] = float64(sent.ValueAtPercentile(99)) / float64(time.Second)
	}
	r.Measures = m
	if got < streamFlag*rate {
		s.note("%.0f messages/s were achieved, %.1f %% of the %.0f planned: latencies count from the plan all the same", got, 100*got/rate, rate)
	}
	if s.unknown > 0 {
		s.note("%d messages came so late that their real send time was forgotten: they are in the latencies from the planned one alone", s.unknown)
	}
}

// latencyMeasures are the percentiles among the measures of an attempt, all
// from the planned send time.
var latencyMeasures = map[string]float64{
	"latency_p50_seconds": 50, "latency_p90_seconds": 90, "latency_p99_seconds": 99,
	"latency_p999_seconds": 99.9, "latency_max_seconds": 100,
}

// isLatency says whether a measure is one.
func isLatency(measure string) bool { return strings.HasPrefix(measure, "latency_") }

// conclude writes down what the contents were, and whether the server's count
// is right. After a stall of the server or the consumer, what is missing is
// lost; after any other error it may be on its way.
func (s *streaming) conclude(ctx context.Context, err error) error {
	r := &s.result
	stalled := errors.Is(context.Cause(ctx), errStalled) && s.stalled.Load()
	sent, arrived := s.sent.Load(), s.arrived.Load()
	r.Contents = s.checker.Result(sent)
	r.Checked = err == nil || stalled
	r.Partly = !r.Checked
	if r.Partly {
		r.Contents.Lost, r.Contents.Unexpected = 0, 0 // one may have come whose Send failed
	}
	var count, contents string
	switch {
	case stalled && arrived < sent:
		count = fmt.Sprintf("of %d messages sent, %d never arrived: the server's count stood at %d for %v", sent, sent-arrived, arrived, s.spec.Stall)
	case err == nil && arrived > sent:
		count = fmt.Sprintf("the server counts %d messages, but %d were sent", arrived, sent)
	}
	if fault := s.faultOf(r.Contents); fault != nil {
		contents = fault.Error()
		if stalled {
			contents = fmt.Sprintf("%s; nothing more came for %v", contents, s.spec.Stall)
		}
	}
	r.Fault = join(count, contents)
	return err
}
