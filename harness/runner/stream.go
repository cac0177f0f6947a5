package runner

import (
	"context"
	"fmt"
	"io"
	"time"

	"kafkalab/results/resultfile"
)

// StreamSpec is what a client is told of work = stream: it sends at a planned
// rate over one connection and receives at once over another.
type StreamSpec struct {
	// Rate is in messages a second, more than 0 and at most [scenario.MaxRate].
	// Message n is due n/Rate seconds after the beginning.
	Rate float64 `json:"rate"`
}

// StreamLatency is an interval of a stream's latencies, as a client reports it.
type StreamLatency struct {
	Began    time.Time                  `json:"began"` // the moment from which intervals count
	Interval resultfile.LatencyInterval `json:"interval"`
}

// latencies is what a trial has of them.
type latencies struct {
	began     time.Time
	intervals []resultfile.LatencyInterval
	// sender and receiver are the hosts on which the two moments of a latency
	// were read.
	sender, receiver string
}

func (l *latencies) add(s StreamLatency) {
	l.began = s.Began
	l.intervals = append(l.intervals, s.Interval)
}

// withheld says why the latencies between two hosts cannot be told, "" if they
// can: two readings of one clock need nothing, those of two clocks their
// offset.
func withheld(sender, receiver string, clock *resultfile.Clock) string {
	if sender == receiver || clock != nil {
		return ""
	}
	return fmt.Sprintf("latencies from %s to %s are withheld: how the two clocks stand to one another was not measured", sender, receiver)
}

// streamGroup sends at a planned rate and receives at once: one attempt, whose
// contents are checked as they come.
func (r *run) streamGroup(ctx context.Context, g group) error {
	return r.single(ctx, g, func(s *session, t *trial) {
		// Both ends are in one process, so that one clock has read both moments.
		t.latency.sender, t.latency.receiver = r.Client.Name(), r.Client.Name()
		s.client(ctx, t, s.streamSpec(t))
	}, r.decideSingle)
}

// streamSpec says what the client of a stream has to do.
func (s *session) streamSpec(t *trial) Spec {
	spec := s.spec(t)
	spec.Work, spec.Measured = resultfile.Stream, true
	spec.Messages = s.Selection.MessagesOf(t.scenario, t.system)
	spec.warmUp("warms", t.system)
	spec.Stream = &StreamSpec{Rate: t.system.Rate}
	return spec
}

// putLatency keeps the latencies of a stream, unless what they would say is
// not known. Those that contradict themselves make the attempt invalid; the
// error is of the result's folder only.
func (r *run) putLatency(t *trial) error {
	if len(t.latency.intervals) == 0 {
		return nil
	}
	if why := withheld(t.latency.sender, t.latency.receiver, r.Results.Run().Testbed.Clock); why != "" {
		for name := range t.attempt.Measures {
			if isLatency(name) {
				delete(t.attempt.Measures, name)
			}
		}
		r.note(t, "%s", why)
		return nil
	}
	l := &resultfile.Latency{Started: t.latency.began, Intervals: t.latency.intervals}
	if err := resultfile.WriteLatency(io.Discard, l); err != nil {
		t.degrade(resultfile.Invalid, "its latencies contradict themselves: %v", err)
		r.note(t, "latencies are left out: %v", err)
		return nil
	}
	return r.Results.PutLatency(t.attempt.ID, l)
}
