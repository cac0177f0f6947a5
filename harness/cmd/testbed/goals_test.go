package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/link"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// ceilingsRun makes a result folder of invented numbers of ceilings-produce.
func ceilingsRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	system := func(id, role string) resultfile.System {
		return resultfile.System{ID: id, Label: "Synthetic " + id, Driver: "kafka", Role: role, Messages: 6_000_000}
	}
	w, err := resultfile.Create(dir, resultfile.Run{
		Started: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Messages: 1_000_000, Repeat: 6, Testbed: resultfile.Testbed{Kind: "netns", Emulated: true},
		Scenarios: []resultfile.Scenario{{Name: "ceilings-produce", Title: "Synthetic", Work: resultfile.Produce, PayloadBytes: 200, Chart: resultfile.Bars,
			Link: resultfile.LinkUnshaped, Systems: []resultfile.System{system("limit", resultfile.RoleLimit), system("kafka-50", resultfile.RoleSystem)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for r := 1; r <= 6; r++ {
		for i, id := range []string{"limit", "kafka-50"} {
			a, err := w.Begin(resultfile.Attempt{Scenario: "ceilings-produce", System: id, Repetition: r, Order: 2*r + i})
			if err != nil {
				t.Fatal(err)
			}
			a.Outcome, a.Messages, a.PayloadBytes, a.StoredBytes = resultfile.Valid, 6_000_000, 1_200_000_000, 1_254_000_000
			a.Seconds = float64(4+i) / 4 // the system reaches 0.8 of the limit
			points := []resultfile.Point{{}, {Seconds: a.Seconds, Messages: a.Messages, Bytes: a.PayloadBytes, Arrived: a.Messages}}
			if err := w.PutAttempt(a, points, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// The goals stand on the terminal, in tables.md and in the report, with what was
// measured beside each; runs that bear on none show none.
func TestGoalsAreShown(t *testing.T) {
	dir := ceilingsRun(t)
	if _, err := call(runPlot, dir); err != nil {
		t.Fatal(err)
	}
	page := string(mustRead(t, filepath.Join(dir, "tables.md")))
	f := newRunFlags(stdio{Out: os.Stderr, Err: os.Stderr})
	var out, errs strings.Builder
	if err := f.conclude(dir, stdio{Out: &out, Err: &errs}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TCP to file, 1 MiB writes", "0.80", "≥ 0.65", "met", "not measured yet"} {
		if !strings.Contains(page, want) || !strings.Contains(out.String(), want) {
			t.Errorf("%q in tables.md: %v, on the terminal: %v", want, strings.Contains(page, want), strings.Contains(out.String(), want))
		}
	}
	if at := strings.Index(page, "\n## Goals\n"); at < 0 || at > strings.Index(page, "\n## Synthetic") {
		t.Errorf("the goals do not come first:\n%.800s", page)
	}
	other := syntheticRun(t, "one", 1000)
	if _, err := call(runPlot, other); err != nil {
		t.Fatal(err)
	}
	if page := string(mustRead(t, filepath.Join(other, "tables.md"))); strings.Contains(page, "Goals") {
		t.Error("goals of a run that bears on none")
	}
}

// A run has the link without its rate, measures it so, says so, and puts the rate
// back; and it puts it back too where one that was killed has not.
func TestRunOnAnUnshapedLink(t *testing.T) {
	bin, out, file := hosttest.Programs(t, "testbed"), filepath.Join(t.TempDir(), "out"), hosttest.NamespaceTestbed(t)
	path := nullScenario(t, "free")
	text := append([]byte("link = \"unshaped\"\n"), mustRead(t, path)...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tb, err := scenario.LoadTestbed(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Up(t.Context(), tb.Link, io.Discard); err != nil {
		t.Fatal(err)
	}
	shaped := func() bool {
		for _, e := range []struct{ namespace, device string }{{tb.Link.Client.Namespace, tb.Link.Client.Device}, {tb.Link.Broker.Namespace, tb.Link.Broker.Device}} {
			out, err := exec.Command("tc", "-netns", e.namespace, "qdisc", "show", "dev", e.device).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !strings.Contains(string(out), "tbf") {
				return false
			}
		}
		return true
	}
	// As a killed run leaves it.
	if out, err := exec.Command("tc", "-netns", tb.Link.Broker.Namespace, "qdisc", "delete", "dev", tb.Link.Broker.Device, "root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := callTestbed(t, bin, "run", "--testbed", file, "--scenario", path, "--repeat", "1", "--out", out)
	if got.status != 0 {
		t.Fatalf("exit status %d\n%s%s", got.status, got.out, got.err)
	}
	if !shaped() {
		t.Error("the link is without a rate after the run")
	}
	r := theRun(t, out)
	if s := r.Run.Scenarios[0]; s.Link != resultfile.LinkUnshaped {
		t.Errorf("the scenario's link: %q", s.Link)
	}
	bed := r.Run.Testbed
	if bed.LinkGoodputMbps > 1100 || bed.UnshapedGoodputMbps <= 0 || bed.UnshapedReverseGoodputMbps <= 0 {
		t.Errorf("goodput %v and %v with the rate, %v and %v without", bed.LinkGoodputMbps, bed.LinkReverseGoodputMbps, bed.UnshapedGoodputMbps, bed.UnshapedReverseGoodputMbps)
	}
	for _, want := range []string{"(not held to a rate)", "held to no rate meanwhile"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not told:\n%s", want, got.err)
		}
	}
	if !strings.Contains(got.out, "link unshaped") {
		t.Errorf("the table does not say what the link was:\n%s", got.out)
	}
	// Without a link to take the rate off, the result says that it is as it is.
	out = filepath.Join(t.TempDir(), "out")
	if got := callTestbed(t, bin, "run", "--testbed", localTestbed(t), "--scenario", path, "--repeat", "1", "--out", out); got.status != 0 {
		t.Fatalf("exit status %d\n%s%s", got.status, got.out, got.err)
	}
	if s := theRun(t, out).Run.Scenarios[0]; s.Link != resultfile.LinkAsItIs {
		t.Errorf("the scenario's link: %q", s.Link)
	}
}
