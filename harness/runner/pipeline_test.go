package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// piper is the null driver as a pipeline that moves nothing and says what the
// option "outcome" wants.
type piper struct{ optioned }

func (piper) Name() string { return "piper" }

func (d piper) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	null, err := d.optioned.Start(ctx, broker, dir, o)
	if err != nil || o["outcome"] == "no-parts" {
		return null, err
	}
	return &partedServer{Server: null, log: filepath.Join(dir, "parts.log")}, nil
}

// partedServer writes down what is done to its parts.
type partedServer struct {
	driver.Server
	log, done string
}

func (s *partedServer) Logs() []string {
	if s.done == "" {
		return nil
	}
	return []string{s.log}
}

func (s *partedServer) KillPart(_ context.Context, part string) (host.Usage, error) {
	if part == "nobody" {
		return host.Usage{}, errors.New("there is no such part")
	}
	return host.Usage{UserSeconds: 2}, s.note("killed " + part)
}

func (s *partedServer) RestartPart(_ context.Context, part string) error {
	return s.note("restarted " + part)
}

func (s *partedServer) note(what string) error {
	s.done += what + "\n"
	return os.WriteFile(s.log, []byte(s.done), 0o644)
}

func (piper) PipelineProgram() string { return "testbed" }

func (piper) Pipeline(ctx context.Context, _ driver.Target, o driver.Options, plan driver.PipelinePlan) (driver.PipelineResult, error) {
	r := driver.PipelineResult{Made: plan.Messages, MadeSeconds: 0.1, Seconds: 0.2, AuditComplete: true}
	if plan.Rate != 500 || plan.Stall <= 0 || filepath.Base(plan.Program) != "testbed" {
		return r, fmt.Errorf("the plan is not as it was asked for: %+v", plan)
	}
	if err := os.WriteFile(filepath.Join(plan.Dir, "mirror.log"), []byte("copied all\n"), 0o644); err != nil {
		return r, err
	}
	if err := plan.Ready(ctx); err != nil {
		return r, err
	}
	began := float64(time.Now().UnixMilli()) / 1000
	for i, tier := range resultfile.Tiers() {
		for range plan.Messages {
			plan.Delayed(i, time.Duration(i+1)*time.Second)
		}
		r.Tiers = append(r.Tiers, driver.TierResult{Tier: tier, Distinct: plan.Messages, AuditMade: plan.Messages, AuditCounted: plan.Messages})
		r.Windows = append(r.Windows, resultfile.AuditWindow{Tier: tier, Start: began, Seconds: 5, Made: plan.Messages, Counted: plan.Messages})
	}
	plan.Moved(plan.Messages, plan.Messages)
	plan.Note("said on the way")
	last := &r.Tiers[2]
	switch o["outcome"] {
	case "dropped":
		r.Dropped, r.Fault, r.FaultAtSeconds, r.AuditComplete = 7, "a set was left out", 0.05, false
		for i := range r.Tiers {
			r.Tiers[i].Lost, r.Tiers[i].AuditMissing, r.Tiers[i].Distinct = 7, 7, plan.Messages-7
		}
	case "wrong":
		last.Lost, last.Doubled, last.AuditDoubled = 3, 2, 4
	case "damaged":
		last.Damaged = 1
	case "silent":
		for i := range r.Tiers {
			r.Tiers[i].AuditMade = 0
		}
	case "contradiction":
		last.AuditMissing = 1
	case "error":
		return r, errors.New("the mirror does not come up")
	case "killed", "no-parts", "nobody":
		part := "broker 1"
		if o["outcome"] == "nobody" {
			part = "nobody"
		}
		err := plan.Part(ctx, part, driver.KillPart)
		return r, errors.Join(err, plan.Part(ctx, part, driver.RestartPart))
	}
	return r, nil
}

func TestPipeline(t *testing.T) {
	s := outcomesOf("pipes", resultfile.Pipeline, "piper", scenario.System{Rate: 500},
		"good", "dropped", "wrong", "damaged", "silent", "contradiction", "error", "killed", "no-parts", "nobody")
	s.Chart = resultfile.OverTiers
	p := newPlan(t, 100, s)
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	good := attemptOf(t, r, "pipes-good-1")
	if good.Outcome != resultfile.Valid || good.Messages != 100 || good.Seconds != 0.2 || good.Lost != 0 || !good.Verified || !strings.Contains(strings.Join(good.Notes, "\n"), "said on the way") {
		t.Errorf("%+v", good)
	}
	for name, want := range map[string]float64{"audit_missing": 0, "audit_wrong": 0, "audit_missing_beyond_dropped": 0, "audit_open": 0, "dropped": 0} {
		if got, ok := good.Measures[name]; !ok || got != want {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, want)
		}
	}
	for i, tier := range resultfile.Tiers() {
		for _, statistic := range []string{"mean", "p50", "max"} {
			name := "delay_" + tier + "_" + statistic + "_seconds"
			if got, want := good.Measures[name], float64(i+1); got < want*0.999 || got > want*1.001 {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
	}
	// The delays of every tier, and what the audit said, by the attempt's clock.
	if l := r.Latency(good.ID); l == nil || len(l.Tiers) != 3 || l.Tiers[resultfile.TagLoad].TotalCount() != 100 || l.Planned != nil {
		t.Errorf("delays %+v", l)
	}
	if audit := r.Audit(good.ID); len(audit) != 3 || audit[2].Tier != resultfile.TagLoad || audit[2].Start < -1 || audit[2].Start > 60 || audit[2].Made != 100 {
		t.Errorf("audit %+v", audit)
	}
	if log, err := os.ReadFile(p.Results.Path("logs", good.ID, "mirror.log")); err != nil || string(log) != "copied all\n" {
		t.Errorf("%q, %v", log, err)
	}
	if left, err := filepath.Glob(filepath.Join(p.Client.Dir(), "*-pipeline")); err != nil || len(left) > 0 {
		t.Errorf("left on the client host: %v, %v", left, err)
	}
	dropped := attemptOf(t, r, "pipes-dropped-1")
	if dropped.Outcome != resultfile.Valid || dropped.Lost != 7 || dropped.Measures["audit_missing"] != 7 || dropped.Measures["audit_missing_beyond_dropped"] != 0 || dropped.Measures["fault_at_seconds"] != 0.05 {
		t.Errorf("%+v", dropped)
	}
	// What the audit did not see, and what it saw too much of.
	if wrong := attemptOf(t, r, "pipes-wrong-1"); wrong.Measures["audit_wrong"] != 3+2 {
		t.Errorf("%+v", wrong)
	}
	killed := attemptOf(t, r, "pipes-killed-1")
	if log, err := os.ReadFile(p.Results.Path("logs", killed.ID, "parts.log")); err != nil || string(log) != "killed broker 1\nrestarted broker 1\n" || killed.BrokerCPUSeconds != 2 {
		t.Errorf("%q, %v, %+v", log, err, killed)
	}
	for id, want := range map[string]struct {
		outcome resultfile.Outcome
		reason  string
	}{
		"killed":        {resultfile.Valid, ""},
		"damaged":       {resultfile.Invalid, "1 came damaged"},
		"silent":        {resultfile.Failed, "no verdict"},
		"contradiction": {resultfile.Invalid, "contradicts itself"},
		"error":         {resultfile.Failed, "the mirror does not come up"},
		"no-parts":      {resultfile.Failed, "piper has no parts"},
		"nobody":        {resultfile.Failed, "kill of nobody: there is no such part"},
		"none":          {resultfile.Failed, "standin is no pipeline"},
	} {
		if a := attemptOf(t, r, "pipes-"+id+"-1"); a.Outcome != want.outcome || !strings.Contains(a.Reason, want.reason) {
			t.Errorf("%s: %s %q, want %s with %q", id, a.Outcome, a.Reason, want.outcome, want.reason)
		}
	}
}
