package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// ErrInterrupted is returned by [Run] when its context ended first.
var ErrInterrupted = errors.New("interrupted")

// Run makes every attempt of the plan that is not on record as valid, and
// puts each on record as soon as its group is through. Attempts that fail are
// no error. It returns ErrInterrupted when ctx ended, after everything that
// was started has been stopped, and otherwise only what kept it from writing
// the result.
func Run(ctx context.Context, p Plan) error {
	if p.Stall == 0 {
		p.Stall = DefaultStall
	}
	if p.Start == 0 {
		p.Start = DefaultStart
	}
	if p.Look == 0 {
		p.Look = DefaultLook
	}
	if p.Progress == nil {
		p.Progress = func(Update) {}
	}
	groups, err := p.groups()
	if err != nil {
		return err
	}
	r := &run{Plan: p}
	for _, g := range groups {
		r.total += len(g.entries())
		if !p.done(g) {
			r.left += p.estimate(g)
		}
	}
	err = errors.Join(r.all(ctx, groups), r.restoreLink(ctx))
	now := p.Results.Run()
	now.Ended, now.Interrupted = time.Now().UTC(), errors.Is(err, ErrInterrupted)
	return errors.Join(err, p.Results.Update(now))
}

// run is a run in progress.
type run struct {
	Plan
	total  int           // attempts
	number int           // of the attempt that is running, from 1
	left   time.Duration // about, of all groups that have not ended
	since  time.Time     // when the running group began
	whole  time.Duration // about how long it takes
	lifted bool          // the link is held to no rate
}

func (r *run) all(ctx context.Context, groups []group) error {
	for _, g := range groups {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		if r.done(g) {
			r.keep(g)
			continue
		}
		r.since, r.whole = time.Now(), r.estimate(g)
		if err := r.setLink(ctx, g.main.scenario.Unshaped); err != nil {
			return err
		}
		if err := r.group(ctx, g); err != nil {
			return err
		}
		r.left -= r.whole
		r.whole = 0
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return nil
}

// linkLimit bounds the putting back of the link's rate after an interrupt.
const linkLimit = 5 * time.Second

// setLink sees to it that the link is what the next attempts ask for.
func (r *run) setLink(ctx context.Context, lifted bool) error {
	if r.Unshape == nil || r.lifted == lifted {
		return nil
	}
	if err := r.Unshape(ctx, lifted); err != nil {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		return fmt.Errorf("the link's rate: %w", err)
	}
	r.lifted = lifted
	return nil
}

// restoreLink puts the link's rate back at the end, also when ctx has ended. That is
// done whenever a run may have lifted it: the commands may have been broken off
// half way.
func (r *run) restoreLink(ctx context.Context) error {
	if r.Unshape == nil || !slices.ContainsFunc(r.Selection.Scenarios, func(s scenario.Scenario) bool { return s.Unshaped }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkLimit)
	defer cancel()
	if err := r.Unshape(ctx, false); err != nil {
		return fmt.Errorf("putting back the link's rate (\"testbed up\" does so too): %w", err)
	}
	return nil
}

// keep tells of the attempts that are on record already.
func (r *run) keep(g group) {
	run := r.Results.Run()
	for _, e := range g.entries() {
		r.number++
		if a, ok := run.ValidAttempt(e.scenario.Name, e.system.ID, g.repetition); ok {
			r.Progress(Update{Attempt: a, Label: e.system.Label, Number: r.number, Total: r.total, Left: r.left, Ended: true, Kept: true})
		}
	}
}

// trial is an attempt that is being made.
type trial struct {
	entry
	attempt resultfile.Attempt
	number  int
	phase   Phase
	points  []resultfile.Point
	samples []resultfile.Sample
	result  *Result // what the client found; nil if it could not say
	stored  int64   // messages that were there before the measuring
	latency latencies

	failure      string // seen from here: the server died, the client is gone, …
	notInstalled bool
	interrupted  bool
}

// begin enters an attempt in the result.
func (r *run) begin(e entry, repetition int) (*trial, error) {
	r.number++
	a, err := r.Results.Begin(resultfile.Attempt{
		Scenario: e.scenario.Name, System: e.system.ID, Repetition: repetition,
		Order: len(r.Results.Run().Attempts) + 1, Started: time.Now().UTC(),
	})
	return &trial{entry: e, attempt: a, number: r.number}, err
}

// beside is a trial for a client of the same attempt whose findings are told
// apart. Its notes begin with those that the attempt has, and are to replace them.
func (t *trial) beside() *trial {
	return &trial{entry: t.entry, attempt: t.attempt, number: t.number, phase: t.phase}
}

// tell passes on what is happening in an attempt.
func (r *run) tell(t *trial, u Update) {
	u.Attempt, u.Label, u.Number, u.Total = t.attempt, t.system.Label, t.number, r.total
	u.Left = r.left - min(time.Since(r.since), r.whole)
	if u.Phase == "" {
		u.Phase = t.phase
	}
	r.Progress(u)
}

func (r *run) enter(t *trial, p Phase, of int64) {
	t.phase = p
	r.tell(t, Update{Of: of})
}

func (r *run) note(t *trial, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.attempt.Notes = append(t.attempt.Notes, text)
	r.tell(t, Update{Note: text})
}

// put writes an attempt that has ended. Points that contradict themselves make
// it invalid, which the writer does and says.
func (r *run) put(t *trial) error {
	if err := errors.Join(r.putLatency(t), r.putAudit(t)); err != nil {
		return err
	}
	t.attempt.Ended = time.Now().UTC()
	err := r.Results.PutAttempt(t.attempt, t.points, t.samples)
	for _, a := range r.Results.Run().Attempts {
		if a.ID == t.attempt.ID {
			if err != nil && a.Outcome != resultfile.Interrupted && a.Ended.Equal(t.attempt.Ended) {
				err = nil // it is on record, with this in it
			}
			t.attempt = a
		}
	}
	r.tell(t, Update{Ended: true})
	return err
}
