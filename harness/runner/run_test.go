package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// system is one of the stand-in's faults as a system of a scenario.
func system(id, fault string, more ...string) scenario.System {
	o := driver.Options{"fault": fault}
	for i := 0; i+1 < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return scenario.System{
		ID: id, Label: id, Driver: "standin", Role: scenario.RoleSystem, Options: o, WarmUp: 500, Backlog: id,
		ExpectedRate: 1_000_000, StoredBytes: 209,
	}
}

func scenarioOf(name string, work resultfile.Work, systems ...scenario.System) scenario.Scenario {
	s := scenario.Scenario{Name: name, Title: name, Purpose: name, Work: work, PayloadBytes: 200, Queue: "bench", Limit: "none", Systems: systems}
	if work == resultfile.Consume {
		s.BacklogOf = "send"
	}
	return s
}

// optioned is the null driver for options that are none of its own.
type optioned struct{ driver.Null }

func (optioned) Check(context.Context, host.Host, driver.Options) error { return nil }

func (d optioned) Start(ctx context.Context, broker host.Host, dir string, _ driver.Options) (driver.Server, error) {
	return d.Null.Start(ctx, broker, dir, nil)
}

// outcomesOf is a scenario with a system of a driver for each outcome, which is
// its ID and its option "outcome", and with a last one, "none", of the stand-in,
// which cannot do such work. like has what else they are.
func outcomesOf(name string, work resultfile.Work, driverName string, like scenario.System, outcomes ...string) scenario.Scenario {
	s := scenarioOf(name, work)
	like.Role, like.ExpectedRate, like.StoredBytes = scenario.RoleSystem, 1000, 209
	for _, outcome := range outcomes {
		y := like
		y.ID, y.Label, y.Driver, y.Options = outcome, outcome, driverName, driver.Options{"outcome": outcome}
		s.Systems = append(s.Systems, y)
	}
	like.ID, like.Label, like.Driver = "none", "none", "standin"
	s.Systems = append(s.Systems, like)
	return s
}

// newPlan returns a plan on two local hosts that ends with the test.
func newPlan(t *testing.T, messages int64, scenarios ...scenario.Scenario) Plan {
	t.Helper()
	bin := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(bin, "testbed")); err != nil {
		t.Fatal(err)
	}
	open := func(name string) host.Host {
		h, err := host.Open(t.Context(), host.Config{Name: name, Kind: host.Local, Dir: t.TempDir(), BinDir: bin})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return h
	}
	p := Plan{
		Selection: scenario.Selection{Scenarios: scenarios, Messages: messages, Repeat: 1, Cap: 30 * time.Second},
		Client:    open("client"), Broker: open("broker"), Drivers: drivers(), Seed: 1,
		Stall: 3 * time.Second, Start: time.Minute, Look: 20 * time.Millisecond,
		Progress: func(u Update) {
			if u.Note != "" || u.Ended {
				t.Logf("%d/%d %s %s %s: %s %s", u.Number, u.Total, u.Attempt.ID, u.Phase, u.Note, u.Attempt.Outcome, u.Attempt.Reason)
			}
		},
	}
	run := resultfile.Run{Started: time.Now(), Commit: "test", Messages: messages, Repeat: 1}
	for _, s := range scenarios {
		run.Scenarios = append(run.Scenarios, s.Result())
	}
	p.Results, err = resultfile.Create(filepath.Join(t.TempDir(), "run"), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Results.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// read reads the result back, as whoever draws it would.
func read(t *testing.T, p Plan) *resultfile.Result {
	t.Helper()
	r, err := resultfile.Read(p.Results.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func attemptOf(t *testing.T, r *resultfile.Result, id string) resultfile.Attempt {
	t.Helper()
	for _, a := range r.Run.Attempts {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no attempt %s", id)
	panic("unreachable")
}

// nothingLeft checks that the broker host's folder is empty again.
func nothingLeft(t *testing.T, p Plan) {
	t.Helper()
	left, err := os.ReadDir(p.Broker.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left on the broker host: %v", left)
	}
}

func TestCompleteRun(t *testing.T) {
	t.Parallel()
	null := scenario.System{ID: "null", Label: "null", Driver: "null", Role: scenario.RoleLimit, Backlog: "null", ExpectedRate: 1_000_000, StoredBytes: 1}
	alone := system("alone", "none")
	p := newPlan(t, 60_000,
		scenarioOf("send", resultfile.Produce, system("sound", "none"), null, alone),
		scenarioOf("receive", resultfile.Consume, system("sound", "none"), null))
	p.Selection.Repeat = 2
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	if n := len(r.Run.Attempts); n != 10 {
		t.Errorf("%d attempts, 10 wanted", n)
	}
	for i, a := range r.Run.Attempts {
		if a.Outcome != resultfile.Valid || !a.Verified || a.Lost+a.Doubled+a.Damaged+a.Reordered != 0 {
			t.Errorf("%s: %s %s, verified %v", a.ID, a.Outcome, a.Reason, a.Verified)
		}
		if a.Messages != 60_000 || a.ClientMessages != 60_000 || a.PayloadBytes != 60_000*200 || a.Order != i+1 {
			t.Errorf("%s: %d messages (%d by the client), %d bytes, order %d", a.ID, a.Messages, a.ClientMessages, a.PayloadBytes, a.Order)
		}
		if a.System != "null" && a.StoredBytes != 60_000*209 {
			t.Errorf("%s: %d bytes in the server's format", a.ID, a.StoredBytes)
		}
		points, samples := r.Points(a.ID), r.Samples(a.ID)
		if len(points) < 2 || points[0] != (resultfile.Point{}) {
			t.Fatalf("%s: points %v", a.ID, points)
		}
		if last := points[len(points)-1]; last.Arrived != a.Messages || last.Seconds != a.Seconds {
			t.Errorf("%s: last point %+v, headline %d messages in %v s", a.ID, last, a.Messages, a.Seconds)
		}
		for _, name := range []string{"client", "broker"} {
			if !slices.ContainsFunc(samples, func(s resultfile.Sample) bool { return s.Host == name }) {
				t.Errorf("%s: no sample of the %s host", a.ID, name)
			}
		}
		if a.ClientCPUSeconds <= 0 {
			t.Errorf("%s: the client used %v s", a.ID, a.ClientCPUSeconds)
		}
	}
	if r.Run.Interrupted || r.Run.Ended.IsZero() {
		t.Errorf("run ended %v, interrupted %v", r.Run.Ended, r.Run.Interrupted)
	}
	if log, err := os.ReadFile(p.Results.Path("logs", "send-sound-1", "server.log")); err != nil || string(log) != "started\n" {
		t.Errorf("the server's log: %q, %v", log, err)
	}
	nothingLeft(t, p)
}

// Without a consume of its own a produce is verified all the same.
func TestProduceAloneIsVerified(t *testing.T) {
	t.Parallel()
	p := newPlan(t, 5_000, scenarioOf("send", resultfile.Produce, system("sound", "none"), system("x", "damaged")))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	if a := attemptOf(t, r, "send-sound-1"); a.Outcome != resultfile.Valid || !a.Verified {
		t.Errorf("%+v", a)
	}
	if a := attemptOf(t, r, "send-x-1"); a.Outcome != resultfile.Invalid || a.Damaged != 1 || a.Lost != 1 {
		t.Errorf("%+v", a)
	}
}

// The cap ends sending and receiving; what is left of the backlog is consumed
// unmeasured, so that all of it is verified.
func TestCap(t *testing.T) {
	t.Parallel()
	p := newPlan(t, 1_000_000,
		scenarioOf("send", resultfile.Produce, system("x", "slow")),
		scenarioOf("receive", resultfile.Consume, system("x", "slow")))
	p.Selection.Cap = 400 * time.Millisecond
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	sent, received := attemptOf(t, r, "send-x-1"), attemptOf(t, r, "receive-x-1")
	for _, a := range []resultfile.Attempt{sent, received} {
		if a.Outcome != resultfile.Valid || a.Messages == 0 {
			t.Errorf("%+v", a)
		}
	}
	if sent.Messages >= 1_000_000 || !slices.ContainsFunc(sent.Notes, func(n string) bool { return strings.HasPrefix(n, "held to 400ms") }) {
		t.Errorf("sent %d, notes %q", sent.Messages, sent.Notes)
	}
	if received.Messages > sent.Messages {
		t.Errorf("received %d of %d", received.Messages, sent.Messages)
	}
}

// What warms a system up may be of another size, and sent by a client of other
// options, than what is measured.
func TestWarmUpOfItsOwn(t *testing.T) {
	t.Parallel()
	good, bad := system("good", "none"), system("bad", "none")
	for _, y := range []*scenario.System{&good, &bad} {
		y.WarmUpBytes, y.WarmUpOptions = 50, driver.Options{"warm": "50"}
	}
	bad.WarmUpBytes = 60
	p := newPlan(t, 2000, scenarioOf("send", resultfile.Produce, good, bad), scenarioOf("receive", resultfile.Consume, good))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	for _, id := range []string{"send-good-1", "receive-good-1"} {
		if a := attemptOf(t, r, id); a.Outcome != resultfile.Valid || a.PayloadBytes != 2000*200 {
			t.Errorf("%+v", a)
		}
	}
	if a := attemptOf(t, r, "send-bad-1"); a.Outcome != resultfile.Failed || !strings.Contains(a.Reason, "warm-up: sending message 0: a message of 60 bytes, where 50 are wanted") {
		t.Errorf("%+v", a)
	}
}

// A system that does not promise order is not at fault without it; all else that is
// wrong with its messages counts as with the others.
func TestMayReorder(t *testing.T) {
	t.Parallel()
	x, y := system("x", "reordered"), system("y", "doubled")
	x.MayReorder, y.MayReorder = true, true
	p := newPlan(t, 20_000, scenarioOf("send", resultfile.Produce, x, y), scenarioOf("receive", resultfile.Consume, x))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	for _, id := range []string{"send-x-1", "receive-x-1"} {
		if a := attemptOf(t, r, id); a.Outcome != resultfile.Valid || a.Reordered != 1 || !a.Verified {
			t.Errorf("%+v", a)
		}
	}
	if a := attemptOf(t, r, "send-y-1"); a.Outcome != resultfile.Invalid || a.Doubled != 1 {
		t.Errorf("%+v", a)
	}
}

// An interrupt ends everything within seconds, keeps what was measured, and
// leaves nothing; even a client that does not listen cannot hold it up.
func TestInterrupt(t *testing.T) {
	for _, fault := range []string{"send-hang", "stubborn", "hang-start"} {
		t.Run(fault, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			p := newPlan(t, 20_000,
				scenarioOf("send", resultfile.Produce, system("x", fault)),
				scenarioOf("receive", resultfile.Consume, system("x", fault)))
			p.Stall, p.Start = time.Minute, time.Minute
			p.Progress = func(u Update) {
				if u.Phase == Measure && u.Done >= 1000 || u.Phase == Start && fault == "hang-start" {
					interrupt()
				}
			}
			started := time.Now()
			if err := Run(ctx, p); !errors.Is(err, ErrInterrupted) {
				t.Fatalf("error %v", err)
			}
			if took := time.Since(started); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			r := read(t, p)
			if !r.Run.Interrupted {
				t.Error("the run does not say that it was interrupted")
			}
			for _, a := range r.Run.Attempts {
				if a.Outcome != resultfile.Interrupted {
					t.Errorf("%s: %s %s", a.ID, a.Outcome, a.Reason)
				}
			}
			if a := attemptOf(t, r, "send-x-1"); fault != "hang-start" && (a.ClientMessages != 1000 || len(r.Points(a.ID)) == 0) {
				t.Errorf("what was measured is not kept: %+v", a)
			}
			nothingLeft(t, p)
		})
	}
}

// A run that is resumed makes what is not valid yet, beside what was made
// before, and nothing else.
func TestResume(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	x := system("x", "gate", "gate", gate)
	p := newPlan(t, 5_000,
		scenarioOf("send", resultfile.Produce, x, system("sound", "none")),
		scenarioOf("receive", resultfile.Consume, x, system("sound", "none")))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var kept []string
	p.Progress = func(u Update) {
		if u.Kept {
			kept = append(kept, u.Attempt.ID)
		}
	}
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := read(t, p)
	for _, a := range r.Run.Attempts {
		got = append(got, a.ID+" "+string(a.Outcome))
	}
	slices.Sort(got)
	want := []string{
		"receive-sound-1 valid", "receive-x-1 failed", "receive-x-1-again2 valid",
		"send-sound-1 valid", "send-x-1 failed", "send-x-1-again2 valid",
	}
	if !slices.Equal(got, want) {
		t.Errorf("attempts %q, want %q", got, want)
	}
	if !slices.Equal(kept, []string{"send-sound-1", "receive-sound-1"}) {
		t.Errorf("kept %q", kept)
	}
}
