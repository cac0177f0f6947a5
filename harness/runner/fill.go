package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// consumeGroup fills a fresh broker, does to it what is to be done before, and
// measures the consume of what it holds.
func (r *run) consumeGroup(ctx context.Context, g group) error {
	return r.single(ctx, g, func(s *session, t *trial) {
		if held, ok := s.fill(ctx, t); ok && s.before(ctx, t) {
			s.client(ctx, t, s.backlogSpec(t, held))
		}
	}, r.decideSingle)
}

// backlog is what a fill has left at the broker.
type backlog struct {
	messages int64
	queues   []string // one for each consumer
}

// fill stores what a system's broker is to hold before it is measured, by a
// client process of its own. If that fails, the reason is the trial's failure.
// Without anything to store it does nothing.
func (s *session) fill(ctx context.Context, t *trial) (held backlog, ok bool) {
	wanted := s.Selection.FillOf(t.scenario, t.system)
	if wanted == 0 {
		return backlog{}, true
	}
	spec := s.spec(t)
	spec.Work, spec.Fill, spec.Messages = resultfile.Produce, true, wanted
	spec.Consumers, spec.Options, spec.Cap = t.system.Consumers, fillOptions(t.system), s.fillCap(t.system)
	f := t.beside()
	s.client(ctx, f, spec)
	t.phase, t.attempt.Notes = f.phase, f.attempt.Notes
	if f.failure != "" || f.result == nil || f.result.Failure != "" || f.result.Fault != "" || f.result.Sent == 0 {
		t.interrupted = f.interrupted
		t.failure = "filling the broker: " + orElse(join(f.failure, f.told()), "nothing was stored")
		return backlog{}, false
	}
	t.stored = f.result.Sent
	t.measure("fill_messages", float64(t.stored))
	if f.result.Cut {
		s.note(t, "filling was held to %v: the broker was given %d of %d messages", spec.Cap.Round(time.Millisecond), t.stored, wanted)
	}
	if len(f.result.Blocked) > 0 {
		s.note(t, "while filling, blocked by the broker: %s", strings.Join(f.result.Blocked, ", "))
	}
	return backlog{messages: t.stored, queues: f.result.Queues}, true
}

// fillCap is the longest time of a fill, 0 for none. How much a broker holds is
// what a scenario that states it asks about, so that such a fill is held to
// nothing, but for systems that would take hours.
func (p *Plan) fillCap(sys scenario.System) time.Duration {
	if !sys.Capped && (sys.FillMessages > 0 || sys.Messages > 0) {
		return 0
	}
	return sys.LongestRun(p.Selection.Cap)
}

// fillOptions are those of the client that fills.
func fillOptions(sys scenario.System) driver.Options {
	return withOptions(sys.Options, sys.FillOptions)
}

// backlogSpec says what the client has to do that consumes what a fill left.
func (s *session) backlogSpec(t *trial, held backlog) Spec {
	spec := s.spec(t)
	spec.Work, spec.Measured = resultfile.Consume, true
	spec.Messages = min(s.Selection.MessagesOf(t.scenario, t.system), held.messages)
	spec.Backlog = held.messages
	spec.warmUp("warmc", t.system)
	spec.VerifyLimit = verifyLimit(spec.VerifyLimit, spec.Messages, held.messages)
	if t.system.Consumers > 1 {
		spec.Queues = held.queues
	}
	return spec
}

// verifyLimit lengthens the limit of what is consumed unmeasured by as much as
// there is more of it than was measured.
func verifyLimit(limit time.Duration, measured, all int64) time.Duration {
	if measured <= 0 || all <= measured {
		return limit
	}
	return time.Duration(float64(limit) * float64(all) / float64(measured))
}

// before takes the steps between filling and measuring. The first that fails
// is the trial's failure.
func (s *session) before(ctx context.Context, t *trial) bool {
	for _, step := range t.system.Before {
		var err error
		switch step {
		case scenario.BeforeRestart:
			err = s.restart(ctx, t)
		case scenario.BeforeDropCache:
			err = s.dropCache(ctx, t)
		default:
			err = fmt.Errorf("nobody knows how to %q", step) // no scenario file gets so far
		}
		if err != nil {
			t.interrupted = ctx.Err() != nil
			t.failure = fmt.Sprintf("%v (in the phase %s)", err, t.phase)
			return false
		}
	}
	return true
}

// restart ends the server cleanly and starts it again over the same data. The
// measure is the time until it took requests again.
func (s *session) restart(ctx context.Context, t *trial) error {
	s.enter(t, Restart, 0)
	server, ok := s.server.(driver.Restarter)
	if !ok {
		return fmt.Errorf("%s is no system that can be stopped and started again over the same data", t.system.Driver)
	}
	shutting, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := server.Shut(shutting); err != nil {
		return fmt.Errorf("stopping %s cleanly: %w", t.system.Driver, err)
	}
	took, err := s.comeBack(ctx, server)
	if err != nil {
		return fmt.Errorf("starting %s again over the same data (its log is in %s): %w", t.system.Driver, s.logFolder(), err)
	}
	t.measure("restart_seconds", took.Seconds())
	return nil
}

// comeBack starts a server that was shut or killed, and returns how long it
// took until requests were taken. It has as long for it as for a first start.
func (s *session) comeBack(ctx context.Context, server driver.Restarter) (time.Duration, error) {
	starting, cancel := context.WithTimeout(ctx, s.Start)
	defer cancel()
	began := time.Now()
	err := server.Restart(starting)
	if err != nil && starting.Err() != nil && ctx.Err() == nil {
		err = errors.Join(fmt.Errorf("no requests were taken within %v", s.Start), err)
	}
	return time.Since(began), err
}
