package pipeline

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// shortPeriods are options of a small pipeline in which everything is soon through,
// and no session ends because the machine is busy with the other ones.
func shortPeriods(f fault, acks string) driver.Options {
	return driver.Options{
		"front-ends": "2", "flush-interval": "20ms", "session-timeout": "5s", "linger": "100ms", "audit-window": "1s", "load-interval": "300ms",
		"fault": string(f), "acks": acks,
	}
}

// watched is a plan whose functions note what they are told.
type watched struct {
	driver.PipelinePlan
	mu      sync.Mutex
	delays  [3]int64
	arrived int64
	notes   []string
	parts   []string
}

func newWatched(t *testing.T, program string, server driver.Server, messages int64) *watched {
	w := &watched{}
	w.PipelinePlan = driver.PipelinePlan{
		RunID: 7, PayloadBytes: 200, Messages: messages, Rate: 1000, Program: program, Dir: t.TempDir(), Stall: time.Minute,
		Ready: func(context.Context) error { return nil },
		Delayed: func(tier int, delay time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if delay < 0 || delay > time.Minute {
				t.Errorf("a delay of %v", delay)
			}
			w.delays[tier]++
		},
		Moved: func(made, arrived int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.arrived = max(w.arrived, arrived)
			if arrived > made {
				t.Errorf("%d have come of %d made", arrived, made)
			}
		},
		Note: func(text string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, text)
		},
		Part: func(ctx context.Context, part string, do driver.PartAction) error {
			w.mu.Lock()
			w.parts = append(w.parts, fmt.Sprint(do, " ", part))
			w.mu.Unlock()
			if do == driver.KillPart {
				_, err := server.(driver.Parted).KillPart(ctx, part)
				return err
			}
			return server.(driver.Parted).RestartPart(ctx, part)
		},
	}
	return w
}

// The whole pipeline with its real programs: what it finds in each tier and what
// the audit says of it are the same, with nothing wrong and with everything that
// can be done to it.
func TestPipeline(t *testing.T) {
	bin := hosttest.Programs(t, "kafka")
	for _, c := range []struct {
		fault fault
		acks  string
	}{{faultNone, "none"}, {faultBroker, "flushed"}, {faultMirror, "none"}, {faultSet, "none"}} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			h := hosttest.Open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir(), BinDir: bin})
			o := shortPeriods(c.fault, c.acks)
			if err := New().Check(t.Context(), h, o); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			s, err := New().Start(t.Context(), h, filepath.Join(h.Dir(), "server"), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			if n := len(s.Processes()); n != 6 || len(s.Logs()) != n {
				t.Errorf("%d processes with logs %v, want a balancer, 3 brokers and 2 ZooKeepers", n, s.Logs())
			}
			w := newWatched(t, filepath.Join(bin, "kafka"), s, 3000)
			r, err := New().(driver.Pipeliner).Pipeline(t.Context(), s.Target(), o, w.PipelinePlan)
			for _, note := range w.notes {
				t.Log(note)
			}
			if err != nil {
				t.Fatalf("%+v, %v", r, err)
			}
			t.Logf("%+v", r)
			check(t, c.fault, w, r)
		})
	}
}

// check looks at what was found of 3,000 messages.
func check(t *testing.T, f fault, w *watched, r driver.PipelineResult) {
	t.Helper()
	if r.Made != 3000 || len(r.Tiers) != 3 || r.Seconds < 2 || (r.Dropped > 0) != (f == faultSet) || (r.Fault != "") != (f != faultNone) {
		t.Errorf("made %d in %v s, dropped %d, %d tiers, fault %q", r.Made, r.Seconds, r.Dropped, len(r.Tiers), r.Fault)
	}
	if r.AuditComplete != (f != faultSet) {
		t.Errorf("by the audit all is complete: %v", r.AuditComplete)
	}
	for i, tier := range r.Tiers {
		if tier.Tier != resultfile.Tiers()[i] || tier.Damaged != 0 || tier.AuditUnreported != 0 || tier.AuditOpen != 0 || tier.AuditMade != r.Made {
			t.Errorf("%+v", tier)
		}
		if tier.Lost != r.Dropped || tier.AuditMissing != tier.Lost {
			t.Errorf("%s: %d lost, %d missing by the audit, %d were left out", tier.Tier, tier.Lost, tier.AuditMissing, r.Dropped)
		}
		if tier.AuditDoubled != tier.Doubled || tier.Doubled > 0 && f != faultBroker && f != faultMirror {
			t.Errorf("%s: %d doubled, %d by the audit", tier.Tier, tier.Doubled, tier.AuditDoubled)
		}
		if tier.Distinct != r.Made-r.Dropped || w.delays[i] != tier.Distinct {
			t.Errorf("%s: %d came, %d delays", tier.Tier, tier.Distinct, w.delays[i])
		}
	}
	if w.arrived != r.Tiers[loadTier].Distinct {
		t.Errorf("told of %d that arrived", w.arrived)
	}
	if want := map[fault]string{faultBroker: "[kill live-broker-1 restart live-broker-1]"}[f]; want != "" && fmt.Sprint(w.parts) != want {
		t.Errorf("parts: %v", w.parts)
	}
	made := map[string]int64{}
	for _, window := range r.Windows {
		made[window.Tier] += window.Made
		if window.Seconds != 1 || math.Abs(window.Start-float64(time.Now().Unix())) > 600 {
			t.Errorf("%+v", window)
		}
	}
	if made[resultfile.TagLive] != r.Made || made[resultfile.TagLoad] != r.Made {
		t.Errorf("made by the windows: %v", made)
	}
	if logs, err := filepath.Glob(filepath.Join(w.Dir, "*.log")); err != nil || len(logs) < 7 {
		t.Errorf("logs %v, %v", logs, err)
	}
}
