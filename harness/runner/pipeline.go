package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// pipelineGroup has messages go through a whole pipeline: one attempt. All that
// is told of times is by the clock of the client host, on which messages are made
// and looked for in each tier.
func (r *run) pipelineGroup(ctx context.Context, g group) error {
	return r.single(ctx, g, func(s *session, t *trial) {
		t.latency.sender, t.latency.receiver = r.Client.Name(), r.Client.Name()
		s.pipeline(ctx, t)
	}, r.decidePipeline)
}

// PipelineSpec is what a client is told of work = pipeline.
type PipelineSpec struct {
	Rate    float64 `json:"rate"` // as in [driver.PipelinePlan]
	Program string  `json:"program"`
	Dir     string  `json:"dir"`
}

// pipeline runs the client, with a folder of its own on the client host for the
// processes that it starts, whose logs are kept.
func (s *session) pipeline(ctx context.Context, t *trial) {
	dir := path.Join(s.Client.Dir(), t.attempt.ID+"-pipeline")
	spec, err := s.pipelineSpec(ctx, t, dir)
	if err == nil {
		err = errors.Join(s.Client.RemoveAll(ctx, dir), s.Client.MkdirAll(ctx, dir))
	}
	if err != nil {
		t.failure, t.interrupted = err.Error(), ctx.Err() != nil
		return
	}
	s.clientBeside(ctx, t, spec, &parting{})
	limit := tidyLimit
	if ctx.Err() != nil {
		limit = tidyLimitHurried
	}
	tidying, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := errors.Join(s.keepPipelineLogs(tidying, t, dir), s.Client.RemoveAll(tidying, dir)); err != nil {
		s.note(t, "cleaning up on %s: %v", s.Client.Name(), err)
	}
}

func (s *session) pipelineSpec(ctx context.Context, t *trial, dir string) (Spec, error) {
	p, ok := s.driver.(driver.Pipeliner)
	if !ok {
		return Spec{}, fmt.Errorf("%s is no pipeline", t.system.Driver)
	}
	program, err := s.Client.Binary(ctx, p.PipelineProgram())
	if err != nil {
		return Spec{}, err
	}
	spec := s.spec(t)
	spec.Work, spec.Measured = resultfile.Pipeline, true
	spec.Messages = s.Selection.MessagesOf(t.scenario, t.system)
	spec.Pipeline = &PipelineSpec{Rate: t.system.Rate, Program: program, Dir: dir}
	return spec, nil
}

// keepPipelineLogs keeps what the processes on the client host have written.
func (s *session) keepPipelineLogs(ctx context.Context, t *trial, dir string) error {
	found, err := s.Client.Run(ctx, "find", dir, "-maxdepth", "1", "-type", "f", "-name", "*.log", "-size", "-4096k")
	if err != nil {
		return err
	}
	into, err := s.Results.LogDir(t.attempt.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, log := range strings.FieldsFunc(string(found), func(r rune) bool { return r == '\n' }) {
		errs = append(errs, s.Client.Fetch(ctx, log, filepath.Join(into, path.Base(log))))
	}
	return errors.Join(errs...)
}

// PartEvent is a client's wish that a part of the server be killed or started
// again. It reads a line when that is done.
type PartEvent struct {
	Part string            `json:"part"`
	Do   driver.PartAction `json:"do"`
}

// parting does to the parts of a server what a client asks for. A client that
// was told that something is done asks for the next thing: there is one at a time.
type parting struct {
	done chan struct{} // closed when the last thing is done; nil: nothing was asked for
	err  error         // of all; read once done is closed
}

func (p *parting) heed(ctx context.Context, a *attempt, e Event) {
	if e.Part == nil {
		return
	}
	if p.done != nil {
		<-p.done // it has answered, so that this is over in no time
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		err := p.do(ctx, a, *e.Part)
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", e.Part.Do, e.Part.Part, err)
		}
		p.err = errors.Join(p.err, err, a.talk.goOn())
	}()
}

func (p *parting) do(ctx context.Context, a *attempt, e PartEvent) error {
	server, ok := a.server.(driver.Parted)
	if !ok {
		return fmt.Errorf("%s has no parts", a.trial.system.Driver)
	}
	limit := stopLimit
	if e.Do == driver.RestartPart {
		limit = a.Start
	}
	doing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch e.Do {
	case driver.KillPart:
		used, err := server.KillPart(doing, e.Part)
		// What it had used goes with it: the counters begin again at 0.
		a.before.UserSeconds -= used.UserSeconds
		a.before.SystemSeconds -= used.SystemSeconds
		a.before.ReadBytes -= used.ReadBytes
		a.before.WrittenBytes -= used.WrittenBytes
		a.before.Syscalls -= used.Syscalls
		return err
	case driver.RestartPart:
		return server.RestartPart(doing, e.Part)
	}
	return fmt.Errorf("nobody knows how to %s a part", e.Do)
}

// end waits for what is under way.
func (p *parting) end(*attempt) error {
	if p.done == nil {
		return nil
	}
	<-p.done
	return p.err
}

// tierMeasures are the percentiles of a tier's delays among the measures of an
// attempt.
var tierMeasures = map[string]float64{"p50": 50, "p90": 90, "p99": 99, "max": 100}

// decidePipeline settles the outcome. Loss, repeats and what the audit says of
// them are what was to be found out. Damage is a fault, and so is no verdict.
func (r *run) decidePipeline(t *trial) {
	at := &t.attempt
	at.Outcome, at.Reason = t.alone()
	if t.result == nil || t.result.Pipeline == nil {
		return
	}
	p := t.result.Pipeline
	if len(p.Tiers) == 0 {
		t.degrade(resultfile.Failed, "nobody looked into the tiers")
		return
	}
	last := p.Tiers[len(p.Tiers)-1]
	at.Lost, at.Doubled = last.Lost, last.Doubled
	at.Verified = at.Outcome == resultfile.Valid
	var missing, doubled, unreported, open, wrong int64
	for _, tier := range p.Tiers {
		at.Damaged += tier.Damaged
		missing, doubled = max(missing, tier.AuditMissing), max(doubled, tier.AuditDoubled)
		unreported, open = max(unreported, tier.AuditUnreported), max(open, tier.AuditOpen)
		wrong += distance(tier.AuditMissing, tier.Lost) + distance(tier.AuditDoubled, tier.Doubled)
		t.measure("lost_"+tier.Tier, float64(tier.Lost))
		t.measure("doubled_"+tier.Tier, float64(tier.Doubled))
		t.measure("audit_missing_"+tier.Tier, float64(tier.AuditMissing))
		t.measure("audit_doubled_"+tier.Tier, float64(tier.AuditDoubled))
	}
	if at.Damaged > 0 {
		t.degrade(resultfile.Invalid, "contents: of %d messages made, %d came damaged, or were never made", p.Made, at.Damaged)
	}
	if at.Outcome != resultfile.Valid {
		return
	}
	if p.Tiers[0].AuditMade == 0 {
		t.degrade(resultfile.Failed, "the audit has no verdict: no event says that a message was made")
		return
	}
	if p.Fault != "" {
		t.measure("fault_at_seconds", p.FaultAtSeconds)
	}
	t.measure("dropped", float64(p.Dropped))
	t.measure("audit_missing", float64(missing))
	t.measure("audit_doubled", float64(doubled))
	t.measure("audit_unreported", float64(unreported))
	t.measure("audit_open", float64(open))
	t.measure("audit_wrong", float64(wrong))
	t.measure("audit_missing_beyond_dropped", float64(distance(missing, p.Dropped)))
	if p.AuditComplete && missing+unreported > 0 {
		t.degrade(resultfile.Invalid, "the audit contradicts itself: all is complete, with %d messages missing and %d unreported", missing, unreported)
	}
}

// distance is how far two counts are from one another.
func distance(a, b int64) int64 { return max(a-b, b-a) }

// putAudit keeps what the audit of a pipeline said, with times of the attempt's
// clock. The error is of the result's folder only.
func (r *run) putAudit(t *trial) error {
	if t.result == nil || t.result.Pipeline == nil || len(t.result.Pipeline.Windows) == 0 || t.latency.began.IsZero() {
		return nil
	}
	began := float64(t.latency.began.UnixMilli()) / 1000
	windows := make([]resultfile.AuditWindow, len(t.result.Pipeline.Windows))
	for i, w := range t.result.Pipeline.Windows {
		w.Start = roundMilli(w.Start - began)
		windows[i] = w
	}
	return r.Results.PutAudit(t.attempt.ID, windows)
}

// roundMilli rounds seconds to milliseconds, which is what times of making have.
func roundMilli(seconds float64) float64 {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).Seconds()
}
