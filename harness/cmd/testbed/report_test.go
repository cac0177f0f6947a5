package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/paper"
)

// The claims name scenarios and systems of this testbed.
func TestClaimsNameWhatThereIs(t *testing.T) {
	known, err := knownSystems()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := paper.LoadClaims(known); err != nil {
		t.Error(err)
	}
	if len(known["fig4-producer"]) == 0 {
		t.Errorf("known are %v", known)
	}
}

func TestReportOfSeveralRuns(t *testing.T) {
	one, two := syntheticRun(t, "one", 1000), syntheticRun(t, "two", 900)
	breakPoints(t, two, "rabbitmq")
	to := filepath.Join(t.TempDir(), "to")
	out, err := call(runReport, one, two, filepath.Join(to, "none"), "--out", to)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		filepath.Join(to, "report.html") + "\n", filepath.Join(to, "REPORT.md") + "\n", "left out: none/: none holds no run",
		"damaged, and so left out: two: points/rabbitmq.csv", "Of 22 claims: not measured yet: 22.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	page, err := os.ReadFile(filepath.Join(to, "report.html"))
	if err != nil || !strings.Contains(string(page), "Synthetic kafka") {
		t.Errorf("report.html: %v", err)
	}
}

// A run that is too small, or measured something else, decides nothing, and
// says so.
func TestRunIsJudged(t *testing.T) {
	dir := syntheticRun(t, "run", 1000)
	var told strings.Builder
	if err := judgeRun(dir, stdio{Out: &told, Err: &told}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Claims decided by it: none of the paper's, since ", ". Report: " + filepath.Join(dir, "report.html") + "\n"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q, want %q", told.String(), want)
		}
	}
	t.Log(told.String())
	if _, err := os.Stat(filepath.Join(dir, "REPORT.md")); err != nil {
		t.Error(err)
	}
}

// Each reason for deciding nothing is said once, with the claims that it keeps.
func TestWhyNone(t *testing.T) {
	small, local := paper.Passed{Why: "it is too small"}, paper.Passed{Why: "there was no link"}
	open := func(p ...paper.Passed) paper.JudgedCheck {
		return paper.JudgedCheck{Verdict: paper.NotMeasured, Passed: p}
	}
	claims := []paper.Judged{
		{Claim: paper.Claim{ID: "C1"}, Checks: []paper.JudgedCheck{open(small), open(small), open()}},
		{Claim: paper.Claim{ID: "C2"}, Checks: []paper.JudgedCheck{open(local), {Verdict: paper.NotTestable}}},
		{Claim: paper.Claim{ID: "C3"}, Checks: []paper.JudgedCheck{open(small)}},
	}
	if got, want := whyNone(claims), "it is too small (C1, C3); there was no link (C2)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	claims[1].Checks[1] = paper.JudgedCheck{Check: paper.Check{Beside: true}, Verdict: paper.Holds}
	if got, want := whyNone(claims[1:2]), "there was no link (C2); what it measured only stands beside a verdict (C2)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := whyNone(claims[:0]); !strings.Contains(got, "no claim asks") {
		t.Errorf("%q", got)
	}
}

// Where the report goes unless --out says otherwise.
func TestReportFolder(t *testing.T) {
	for _, c := range []struct {
		out  string
		dirs []string
		want string
	}{
		{"", []string{"results/local/a/"}, "results/local/a"},
		{"", []string{"results/local/a/", "results/local/b"}, "results/local"},
		{"x", []string{"a/b", "c/d"}, "x"},
	} {
		if got, err := reportFolder(c.out, c.dirs); err != nil || got != c.want {
			t.Errorf("%q %q: %q, %v", c.out, c.dirs, got, err)
		}
	}
	for _, c := range []struct {
		args  []string
		usage bool
		want  string
	}{
		{nil, true, "name the folder of a run"},
		{[]string{"a/b", "c/d"}, true, "say with --out"},
		{[]string{"--outt", "x"}, true, "unknown flag"},
		{[]string{t.TempDir()}, false, "there is no run to report on"},
	} {
		_, err := call(runReport, c.args...)
		var u usageError
		if err == nil || errors.As(err, &u) != c.usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
