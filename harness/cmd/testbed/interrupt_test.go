package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// lastIsRabbitMQ is a seed that puts limit and kafka-b50 before rabbitmq.
const lastIsRabbitMQ = "1"

// Ctrl-C while a real server starts, and again while it is measured: each time
// all ends in time and nothing is left, and the run can be gone on with.
func TestInterruptRealServers(t *testing.T) {
	file, _ := namespaceTestbed(t, "none")
	s := newSite(t, file, hosttest.Programs(t, "testbed", "kafka"))
	startTestbed(t, s, "up", "--testbed", file).wantStatus(time.Minute, 0)
	before, out := s.traces(), t.TempDir()

	starting := startTestbed(t, s, "run", "--testbed", file, "--scenario", "smoke", "--system", "limit", "--system", "kafka-b50", "--system", "rabbitmq",
		"--messages", "100000", "--seed", lastIsRabbitMQ, "--out", out)
	starting.waitFor("RabbitMQ: start")
	s.waitForProcess(starting, "beam.smp")
	got := starting.interrupt()
	s.wantOnly(before)
	r := wantInterrupted(t, got, out)
	if now := attempts(r, resultfile.Interrupted); !slices.Contains(now, "fig4-producer-rabbitmq-1") {
		t.Errorf("RabbitMQ is not on record as interrupted: %v", now)
	}
	kept := attempts(r, resultfile.Valid)
	if len(kept) != 3 {
		t.Errorf("limit twice and kafka-b50 were to be valid before: %v", kept)
	}

	measuring := startTestbed(t, s, "run", "--testbed", file, "--resume", r.Dir)
	measuring.waitFor("RabbitMQ: measure")
	s.waitForGrowth(measuring, 4<<20)
	got = measuring.interrupt()
	s.wantOnly(before)
	r = wantInterrupted(t, got, out)
	wantPart(t, r)
	interrupted := attempts(r, resultfile.Interrupted)

	got = startTestbed(t, s, "run", "--testbed", file, "--resume", r.Dir).wantStatus(smokeLimit, 0)
	s.wantOnly(before)
	if !strings.Contains(got.err, ", kept") {
		t.Errorf("what was valid is not told to be kept:\n%s", got.err)
	}
	r = theRun(t, out)
	if r.Run.Interrupted {
		t.Error("the run that came to its end still says that it was interrupted")
	}
	if valid := attempts(r, resultfile.Valid); len(valid) != 5 || !slices.Equal(valid[:3], kept) {
		t.Errorf("valid at the end: %v; before the interrupts: %v", valid, kept)
	}
	if now := attempts(r, resultfile.Interrupted); !slices.Equal(now, interrupted) {
		t.Errorf("on record as interrupted are %v, before going on %v", now, interrupted)
	}
	startTestbed(t, s, "down", "--testbed", file).wantStatus(time.Minute, 0)
	if left := left(t, s.testbed.Link); len(left) != 0 {
		t.Errorf("down left %v", left)
	}
}

// wantPart wants what had been measured of RabbitMQ when it was interrupted.
func wantPart(t *testing.T, r *resultfile.Result) {
	t.Helper()
	i := slices.IndexFunc(r.Run.Attempts, func(a resultfile.Attempt) bool { return a.ID == "fig4-producer-rabbitmq-1-again2" })
	if i < 0 {
		t.Fatalf("no second attempt with RabbitMQ: %v", attempts(r, resultfile.Interrupted))
	}
	a := r.Run.Attempts[i]
	points := r.Points(a.ID)
	if a.Outcome != resultfile.Interrupted || a.Reason == "" || a.ClientMessages <= 0 || a.ClientMessages >= r.Run.Messages || len(points) < 2 || len(r.Samples(a.ID)) == 0 {
		t.Errorf("kept of the interrupted attempt: %+v, %d points, %d samples", a, len(points), len(r.Samples(a.ID)))
	}
	logs, err := os.ReadDir(filepath.Join(r.Dir, "logs", a.ID))
	if err != nil || len(logs) == 0 {
		t.Errorf("logs of the interrupted attempt: %v, %v", logs, err)
	}
}

// waitForProcess waits until a program of that name runs on the broker host.
func (s *site) waitForProcess(r *running, name string) {
	s.t.Helper()
	s.waitUntil(r, name+" runs", func() bool {
		for _, p := range s.processes(s.testbed.BrokerHost.Dir) {
			if strings.Contains(p, name) {
				return true
			}
		}
		return false
	})
}

// waitForGrowth waits until the broker host's files have grown by that much.
func (s *site) waitForGrowth(r *running, bytes int64) {
	s.t.Helper()
	s.waitUntil(r, "the store grows", s.growth(bytes))
}

// growth says whether the broker host's files have grown by that much from now on.
func (s *site) growth(bytes int64) func() bool {
	from := bytesBelow(s.testbed.BrokerHost.Dir)
	return func() bool { return bytesBelow(s.testbed.BrokerHost.Dir) >= from+bytes }
}

func (s *site) waitUntil(r *running, what string, holds func() bool) {
	s.t.Helper()
	if !s.comes(r, what, holds) {
		s.t.Fatalf("%v ended before %s:\n%s", r.cmd.Args, what, r.err)
	}
}

// comes waits until something holds, and says whether it did before the program
// had ended.
func (s *site) comes(r *running, what string, holds func() bool) bool {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-r.ended:
			return holds()
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain until %s:\n%s", what, r.err)
		}
	}
	return true
}

// lateTries is how many times a test begins again when what it was to break off in
// the middle had ended before it looked.
const lateTries = 5

// bytesBelow adds up the files of a folder in which files come and go.
func bytesBelow(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone since it was listed
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// wantInterrupted wants a run that was interrupted and says so everywhere.
func wantInterrupted(t *testing.T, got called, out string) *resultfile.Result {
	t.Helper()
	r := theRun(t, out)
	if got.status != 1 || !strings.Contains(got.err, "--resume "+r.Dir) {
		t.Errorf("exit status %d, want 1:\n%s", got.status, got.err)
	}
	if !r.Run.Interrupted || r.Run.Ended.IsZero() {
		t.Errorf("run.json says interrupted %v, ended %v", r.Run.Interrupted, r.Run.Ended)
	}
	return r
}

// attempts lists the IDs of the attempts with that outcome, in their order.
func attempts(r *resultfile.Result, o resultfile.Outcome) (ids []string) {
	for _, a := range r.Run.Attempts {
		if a.Outcome == o {
			ids = append(ids, a.ID)
		}
	}
	return ids
}
