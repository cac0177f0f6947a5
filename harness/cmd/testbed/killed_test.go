package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// kill -9 of the testbed in the middle of an attempt: nothing keeps running,
// what was valid stays as it was, the attempt stands there as interrupted, and
// going on makes what is missing, with names of its own.
func TestResumeAfterKill(t *testing.T) {
	file, _ := namespaceTestbed(t, "none")
	s := newSite(t, file, hosttest.Programs(t, "testbed", "kafka"))
	startTestbed(t, s, "up", "--testbed", file).wantStatus(time.Minute, 0)
	before, out := s.traces(), ""
	var was *resultfile.Result
	var valid, cut []string
	for range lateTries {
		out = t.TempDir()
		r := startTestbed(t, s, "run", "--testbed", file, "--scenario", "smoke", "--system", "limit", "--system", "kafka-b50", "--messages", "300000", "--repeat", "2", "--out", out)
		if s.comes(r, "the second repetition of Kafka is measured", func() bool { return strings.Count(r.err.String(), "Kafka, batch 50: measure") >= 2 }) &&
			s.comes(r, "the store grows", s.growth(1<<20)) {
			_ = r.cmd.Process.Kill() // fails only if it has ended
		}
		r.end(patience)
		s.wantOnly(before)
		was = theRun(t, out)
		valid, cut = attempts(was, resultfile.Valid), attempts(was, resultfile.Interrupted)
		if slices.Contains(cut, "fig4-producer-kafka-b50-2") {
			break
		}
		t.Logf("the attempt had ended before it was to be killed:\n%s", r.err)
	}
	if !slices.Contains(cut, "fig4-producer-kafka-b50-2") || len(valid) < 3 || !was.Run.Ended.IsZero() {
		t.Fatalf("after the kill: interrupted %v, valid %v, ended %v", cut, valid, was.Run.Ended)
	}
	table := startTestbed(t, s, "compare", was.Dir).end(time.Minute)
	if !strings.Contains(table.out+table.err, "Kafka") {
		t.Errorf("what there is of it cannot be shown: %+v", table)
	}
	kept := textOf(t, was, append(valid, cut...))

	got := startTestbed(t, s, "run", "--testbed", file, "--resume", was.Dir).wantStatus(smokeLimit, 0)
	s.wantOnly(before)
	now := theRun(t, out)
	for id, text := range textOf(t, now, append(valid, cut...)) {
		if text != kept[id] {
			t.Errorf("%s was changed from\n%s to\n%s", id, kept[id], text)
		}
	}
	if n := len(attempts(now, resultfile.Valid)); n != 6 || now.Run.Ended.IsZero() || now.Run.Interrupted {
		t.Errorf("%d valid attempts, ended %v, interrupted %v:\n%s", n, now.Run.Ended, now.Run.Interrupted, got.err)
	}
	startTestbed(t, s, "down", "--testbed", file).wantStatus(time.Minute, 0)
}

// textOf is everything that a run keeps of some attempts.
func textOf(t *testing.T, r *resultfile.Result, ids []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range r.Run.Attempts {
		if !slices.Contains(ids, a.ID) {
			continue
		}
		text, err := json.Marshal([]any{a, r.Points(a.ID), r.Samples(a.ID)})
		if err != nil {
			t.Fatal(err)
		}
		out[a.ID] = string(text)
	}
	return out
}

// Two runs of the same scenarios that start in the same second, or one whose
// folder is there already, share no folder.
func TestRunsNeverShareAFolder(t *testing.T) {
	bin, out := hosttest.Programs(t, "testbed"), t.TempDir()
	path := nullScenario(t, "ceiling")
	s := newSite(t, localTestbed(t), bin)
	var all []*running
	for range 3 {
		all = append(all, startTestbed(t, s, "run", "--testbed", localTestbed(t), "--scenario", path, "--repeat", "1", "--out", out))
	}
	for _, r := range all {
		r.wantStatus(2*time.Minute, 0)
	}
	for _, r := range all {
		told := r.err.String()
		plan, look := strings.Index(told, "This takes at most about"), strings.Index(told, "TCP goodput")
		if plan < 0 || look < plan {
			t.Errorf("the plan is not told first:\n%s", told)
		}
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 3 {
		t.Errorf("folders %v, %v", entries, err)
	}
}
