package runner

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// filled is a scenario whose systems' brokers are filled for it.
func filled(name string, systems ...scenario.System) scenario.Scenario {
	s := scenarioOf(name, resultfile.Consume, systems...)
	s.BacklogOf = ""
	return s
}

func TestFilledConsume(t *testing.T) {
	t.Parallel()
	x := system("x", "none")
	x.Before = []string{scenario.BeforeRestart, scenario.BeforeDropCache}
	x.FillOptions = driver.Options{"at": "7"}
	x.PayloadBytes = 40
	x.FillMessages = 8_000
	null := scenario.System{ID: "null", Label: "null", Driver: "null", Role: scenario.RoleLimit, Consumers: 1, ExpectedRate: 1_000_000, StoredBytes: 1}
	p := newPlan(t, 5_000, filled("cold", x, null))
	var phases []Phase
	p.Progress = func(u Update) {
		if u.Attempt.System == "x" && !u.Ended && u.Note == "" && (len(phases) == 0 || phases[len(phases)-1] != u.Phase) {
			phases = append(phases, u.Phase)
		}
	}
	if err := errors.Join(p.Check(t.Context()), Run(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	a := attemptOf(t, r, "cold-x-1")
	if a.Outcome != resultfile.Valid || !a.Verified || a.Messages != 5_000 || a.PayloadBytes != 5_000*40 || a.Lost+a.Doubled+a.Damaged+a.Reordered != 0 {
		t.Errorf("%+v", a)
	}
	names := slices.Sorted(maps.Keys(a.Measures))
	want := []string{"broker_disk_read_bytes", "broker_gc_seconds", "broker_resident_peak_bytes", "broker_syscalls", "cache_left_bytes",
		"fill_messages", "moved_from_seconds", "restart_seconds", "store_index_bytes", "store_log_bytes", "store_other_bytes"}
	if !slices.Equal(names, want) {
		t.Errorf("measures %q, want %q", names, want)
	}
	if m := a.Measures; m["fill_messages"] != 8_000 || m["moved_from_seconds"] <= 0 || m["moved_from_seconds"] > firstSampleLimit.Seconds() || m["broker_gc_seconds"] < 1 ||
		m["store_index_bytes"]+m["store_log_bytes"]+m["store_other_bytes"] != float64(a.StoreBytesAfter-a.StoreBytesBefore) {
		t.Errorf("measures %v, store %d to %d bytes", m, a.StoreBytesBefore, a.StoreBytesAfter)
	}
	if !slices.Equal(phases, []Phase{Reset, Start, Fill, Restart, DropCache, WarmUp, Measure, Verify}) {
		t.Errorf("phases %q", phases)
	}
	for _, log := range []string{"client-fill.log", "client-consume.log", "server.log"} {
		if _, err := os.Stat(p.Results.Path("logs", "cold-x-1", log)); err != nil {
			t.Error(err)
		}
	}
	if a := attemptOf(t, r, "cold-null-1"); a.Outcome != resultfile.Valid || a.Messages != 5_000 || len(a.Measures) != 2 || a.Measures["moved_from_seconds"] <= 0 || a.Measures["fill_messages"] != 5_000 {
		t.Errorf("%+v", a)
	}
	nothingLeft(t, p)
}

// What goes wrong with a broker that is filled is named, whatever it is.
func TestFillFaults(t *testing.T) {
	restart := []string{scenario.BeforeRestart}
	for _, c := range []struct {
		fault   string
		filling string // fault of the filling client alone
		kind    string
		before  []string
		outcome resultfile.Outcome
		reason  string
	}{
		{"not-installed", "", "log", nil, resultfile.NotInstalled, "no package has it"},
		{"no-start", "", "log", nil, resultfile.Failed, "port 1 is in use"},
		{"none", "stuck", "log", nil, resultfile.Failed, "filling the broker: of 3000 messages sent, 1000 had arrived in bench: nothing moved any more for 1s"},
		{"none", "surplus", "log", nil, resultfile.Failed, "filling the broker: the server counts 3001 messages in bench, but 3000 were sent"},
		{"none", "send-error", "log", nil, resultfile.Failed, "filling the broker: sending message 1000: connection reset"},
		{"none", "send-hang", "log", nil, resultfile.Failed, "nothing moved any more for 1s"},
		{"none", "death", "log", nil, resultfile.Failed, "filling the broker: the server ended by itself; its log is in logs/cold-x-1 (in the phase fill)"},
		{"none", "exit", "log", nil, resultfile.Failed, "exit status 3"},
		{"none", "", "bare", restart, resultfile.Failed, "standin is no system that can be stopped and started again over the same data (in the phase restart)"},
		{"no-shut", "", "log", restart, resultfile.Failed, "stopping standin cleanly: it does not listen (in the phase restart)"},
		{"no-restart", "", "log", restart, resultfile.Failed, "(its log is in logs/cold-x-1): no requests were taken within 5s"},
		{"lost", "none", "log", restart, resultfile.Invalid, "1 lost"},
		{"damaged", "none", "log", nil, resultfile.Invalid, "1 damaged"},
		{"death-consuming", "none", "log", restart, resultfile.Failed, "the server ended by itself; its log is in logs/cold-x-1 (in the phase measure)"},
	} {
		t.Run(c.fault+"-"+c.filling+"-"+c.kind, func(t *testing.T) {
			t.Parallel()
			x := system("x", c.fault, "kind", c.kind)
			x.Before = c.before
			if c.filling != "" {
				x.FillOptions = driver.Options{"fault": c.filling}
			}
			p := newPlan(t, 3_000, filled("cold", x))
			if strings.Contains(c.reason, "for 1s") || c.outcome == resultfile.Invalid {
				p.Stall = time.Second // it is waited for
			}
			if c.fault == "no-restart" {
				p.Start = 5 * time.Second // its first start has to come within it, too
			}
			if err := Run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			a := attemptOf(t, read(t, p), "cold-x-1")
			if a.Outcome != c.outcome || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("%s, reason %q; want %s, %q", a.Outcome, a.Reason, c.outcome, c.reason)
			}
			nothingLeft(t, p)
		})
	}
}

// A produce on top of a fill is counted from there, and all of both is
// verified.
func TestProduceOnFill(t *testing.T) {
	t.Parallel()
	sound, lost, stuck := system("sound", "none"), system("lost", "lost", "at", "4000"), system("stuck", "stuck")
	for _, s := range []*scenario.System{&sound, &lost, &stuck} {
		s.FillMessages = 3_000
		s.FillOptions = driver.Options{"fault": "none"}
	}
	p := newPlan(t, 5_000, scenarioOf("send", resultfile.Produce, sound, lost, stuck), scenarioOf("receive", resultfile.Consume, system("sound", "none")))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	a := attemptOf(t, r, "send-sound-1")
	if a.Outcome != resultfile.Valid || !a.Verified || a.Messages != 5_000 || a.Measures["fill_messages"] != 3_000 {
		t.Errorf("%+v", a)
	}
	if points := r.Points(a.ID); points[len(points)-1].Arrived != 5_000 {
		t.Errorf("last point %+v", points[len(points)-1])
	}
	if a := attemptOf(t, r, "receive-sound-1"); a.Outcome != resultfile.Valid || a.Messages != 8_000 {
		t.Errorf("%+v", a)
	}
	if a := attemptOf(t, r, "send-lost-1"); a.Outcome != resultfile.Invalid || a.Lost != 1 {
		t.Errorf("%+v", a)
	}
	if a := attemptOf(t, r, "send-stuck-1"); a.Outcome != resultfile.Failed || !strings.Contains(a.Reason, "the server counts 1000 messages in bench before the first was sent, where 3000 are") {
		t.Errorf("%s %s", a.Outcome, a.Reason)
	}
}

// A fill that nobody asked about is held to the cap, and what came is the
// backlog.
func TestFillIsHeld(t *testing.T) {
	t.Parallel()
	slow := system("x", "none")
	slow.WarmUp, slow.FillOptions = 0, driver.Options{"fault": "slow"}
	p := newPlan(t, 100_000, filled("cold", slow))
	p.Selection.Cap = 300 * time.Millisecond
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(t, read(t, p), "cold-x-1")
	if a.Outcome != resultfile.Valid || a.Messages == 0 || a.Messages >= 100_000 || a.Measures["fill_messages"] != float64(a.Messages) {
		t.Errorf("%+v", a)
	}
	if !slices.ContainsFunc(a.Notes, func(n string) bool { return strings.HasPrefix(n, "filling was held to 300ms") }) {
		t.Errorf("notes %q", a.Notes)
	}
}

// An interrupt while a broker is filled ends it, and the attempt is made again
// by the run that is resumed.
func TestInterruptedFillIsResumed(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	x := system("x", "none")
	x.FillOptions = driver.Options{"fault": "send-hang"}
	p := newPlan(t, 3_000, filled("cold", x))
	p.Stall = time.Minute
	p.Progress = func(u Update) {
		if u.Phase == Fill && u.Done >= 1000 {
			interrupt()
		}
	}
	if err := Run(ctx, p); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("error %v", err)
	}
	if a := attemptOf(t, read(t, p), "cold-x-1"); a.Outcome != resultfile.Interrupted || !strings.Contains(a.Reason, "interrupted in the phase fill") {
		t.Errorf("%s %s", a.Outcome, a.Reason)
	}
	nothingLeft(t, p)
	p.Selection.Scenarios[0].Systems[0].FillOptions = nil
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if a := attemptOf(t, read(t, p), "cold-x-1-again2"); a.Outcome != resultfile.Valid {
		t.Errorf("%s %s", a.Outcome, a.Reason)
	}
	estimate, err := p.Estimate()
	if err != nil || estimate != 0 {
		t.Errorf("%v is left, %v", estimate, err)
	}
}

// An interrupt while a server comes back does not wait for it.
func TestInterruptedRestart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	x := system("x", "no-restart")
	x.Before = []string{scenario.BeforeRestart}
	p := newPlan(t, 100, filled("cold", x))
	p.Start = time.Minute
	p.Progress = func(u Update) {
		if u.Phase == Restart {
			interrupt()
		}
	}
	if err := Run(ctx, p); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("error %v", err)
	}
	if a := attemptOf(t, read(t, p), "cold-x-1"); a.Outcome != resultfile.Interrupted || a.Measures["fill_messages"] != 100 {
		t.Errorf("%s %s, measures %v", a.Outcome, a.Reason, a.Measures)
	}
	nothingLeft(t, p)
}

// What was there before is told apart when time was over before all was
// verified, and the time grows with it.
func TestFillIsVerifiedFirst(t *testing.T) {
	r := &run{Plan: Plan{Progress: func(Update) {}}}
	produce := &trial{entry: entry{scenario: scenario.Scenario{Work: resultfile.Produce}}, stored: 3000}
	produce.attempt.Outcome = resultfile.Valid
	found := &Result{Partly: true}
	found.Contents.Received = 3500
	r.contents(produce, &trial{entry: produce.entry, result: found})
	want := "contents checked in part, without a fault: 3500 messages within the time for it, of which 3000 were there before the measuring"
	if a := produce.attempt; a.Outcome != resultfile.Valid || a.Verified || !slices.Equal(a.Notes, []string{want}) {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		limit         time.Duration
		measured, all int64
		want          time.Duration
	}{
		{30 * time.Second, 100, 400, 2 * time.Minute},
		{30 * time.Second, 100, 100, 30 * time.Second},
		{30 * time.Second, 0, 100, 30 * time.Second},
		{0, 100, 400, 0},
	} {
		if got := verifyLimit(c.limit, c.measured, c.all); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
