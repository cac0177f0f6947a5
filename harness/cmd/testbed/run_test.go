package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/runner"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

// nullScenario writes a scenario of the null driver.
func nullScenario(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".toml")
	text := fmt.Sprintf(`
name = %q
title = "Ceiling"
purpose = "The ceiling of the testbed itself."
work = "produce"
limit = "none"
messages = 50_000
repeat = 2
cap = "none"

[[system]]
id = "null"
label = "Null driver"
driver = "null"
warm_up = 100
expected_rate = 1_000_000
stored_bytes = 1

[[system]]
id = "again"
label = "Null driver again"
driver = "null"
expected_rate = 1_000_000
stored_bytes = 1
`, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func localTestbed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "local.toml")
	text := fmt.Sprintf("kind = \"local\"\n[client]\ndir = %q\n[broker]\ndir = %q\n", t.TempDir(), t.TempDir())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// theRun returns the only run in a folder.
func theRun(t *testing.T, out string) *resultfile.Result {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("runs %v, %v", dirs, err)
	}
	r, err := resultfile.Read(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What a user types and sees, of a run that is complete.
func TestRun(t *testing.T) {
	bin, out := hosttest.Programs(t, "testbed"), filepath.Join(t.TempDir(), "out")
	path, tb := nullScenario(t, "ceiling"), localTestbed(t)
	got := callTestbed(t, bin, "run", "--testbed", tb, "--scenario", path, "--out", out, "--seed", "7", "--figures")
	if got.status != 0 {
		t.Fatalf("exit status %d\n%s%s", got.status, got.out, got.err)
	}
	for _, want := range []string{"TCP goodput", "50,000 messages an attempt, 2 repetitions, no cap, seed 7", "This takes at most about", "[1/4] ceiling", "measure", "valid, ", "4 of 4 attempts valid. Results, figures and tables: "} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q is not told:\n%s", want, got.err)
		}
	}
	for _, want := range []string{"Null driver again", "50,000 messages asked for in each attempt, 2 repetitions, no cap"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not printed:\n%s", want, got.out)
		}
	}
	r := theRun(t, out)
	if len(r.Run.Attempts) != 4 || r.Run.Seed != 7 || r.Run.Testbed.LinkGoodputMbps <= 0 || len(r.Run.Testbed.BrokerHost.Facts) == 0 {
		t.Errorf("run %+v", r.Run)
	}
	if c := r.Run.Commit; c == "" || c == "unknown" {
		t.Errorf("commit %q", c)
	}
	for _, sys := range r.Run.Scenarios[0].Systems {
		if len(sys.Settings) == 0 {
			t.Errorf("%s has no settings", sys.ID)
		}
	}
	kept, err := os.ReadFile(filepath.Join(r.Dir, "scenarios", "ceiling.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if asRead, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, asRead) {
		t.Errorf("the scenario is not kept as it was read: %v", err)
	}
	if !strings.HasSuffix(r.Run.Name, "Z-ceiling") {
		t.Errorf("the run's name is %q", r.Run.Name)
	}
}

// A run that is interrupted ends cleanly, and can be gone on with, if it is
// still the same run.
func TestInterruptAndResume(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	path, tb := nullScenario(t, "ceiling"), localTestbed(t)
	s := newSite(t, tb, bin)
	var out string
	var got called
	for range lateTries {
		out = filepath.Join(t.TempDir(), "out")
		run := startTestbed(t, s, "run", "--testbed", tb, "--scenario", path, "--out", out)
		run.waitFor("[2/4]")
		_ = run.cmd.Process.Signal(syscall.SIGINT) // fails only if it has ended
		if got = run.end(patience); got.status != 0 {
			break
		}
		t.Logf("it had ended before it was to be interrupted:\n%s", got.err)
	}
	if got.status != 1 {
		t.Fatalf("exit status %d\n%s", got.status, got.err)
	}
	r := theRun(t, out)
	if !r.Run.Interrupted {
		t.Error("the run does not say that it was interrupted")
	}
	if want := "testbed run --testbed " + tb + " --resume " + r.Dir; !strings.Contains(got.err, want) {
		t.Errorf("how to go on is not told (%s):\n%s", want, got.err)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--messages", "7"}, "--messages 7: the run to go on with has 50000"},
		{[]string{"--seed", "1234567890"}, "--seed 1234567890: the run"},
		{[]string{"--cap", "5s"}, "--cap 5s: the run"},
		{[]string{"--repeat", "1"}, "more can be added"},
		{[]string{"--scenario", "smoke"}, "--scenario [smoke]: the run"},
		{[]string{"--system", "null"}, "--system [null]: the run"},
	} {
		args := append([]string{"run", "--testbed", tb, "--resume", r.Dir}, c.args...)
		if got := callTestbed(t, bin, args...); got.status != 1 || !strings.Contains(got.err, c.want) {
			t.Errorf("%v: exit status %d, %s", c.args, got.status, got.err)
		}
	}
	if got := callTestbed(t, bin, "run", "--resume", r.Dir); got.status != 1 || !strings.Contains(got.err, `was of kind "local", and this one is of kind "netns"`) || strings.Contains(got.err, "goodput") {
		t.Errorf("without the testbed's file: exit status %d, %s", got.status, got.err)
	}
	if got := callTestbed(t, bin, "run", "--testbed", localTestbedNamed(t, "elsewhere"), "--resume", r.Dir); got.status != 1 || !strings.Contains(got.err, `the client host was "client" and is "elsewhere"`) {
		t.Errorf("another testbed: exit status %d, %s", got.status, got.err)
	}

	got = callTestbed(t, bin, "run", "--testbed", tb, "--resume", r.Dir)
	if got.status != 0 || !strings.Contains(got.err, "kept") {
		t.Fatalf("going on: exit status %d\n%s%s", got.status, got.out, got.err)
	}
	after := theRun(t, out)
	valid := 0
	for _, a := range after.Run.Attempts {
		if a.Outcome == resultfile.Valid {
			valid++
		}
	}
	if valid != 4 || after.Run.Interrupted || len(after.Run.Attempts) < len(r.Run.Attempts) {
		t.Errorf("after going on: %d valid, %+v", valid, after.Run)
	}

	// What is complete is shown at once: nothing is measured, no host is opened.
	got = callTestbed(t, bin, "run", "--testbed", tb, "--resume", r.Dir)
	if got.status != 0 || !strings.Contains(got.err, "nothing is left to be measured") || strings.Contains(got.err, "goodput") || !strings.Contains(got.out, "Null driver again") {
		t.Errorf("going on with a complete run: exit status %d\n%s%s", got.status, got.out, got.err)
	}
	if again := theRun(t, out); len(again.Run.Attempts) != len(after.Run.Attempts) {
		t.Errorf("%d attempts, before %d", len(again.Run.Attempts), len(after.Run.Attempts))
	}

	if err := os.WriteFile(path, append([]byte("# changed\n"), mustRead(t, path)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := callTestbed(t, bin, "run", "--testbed", tb, "--resume", r.Dir, "--repeat", "3"); got.status != 1 || !strings.Contains(got.err, "the scenario ceiling was changed") {
		t.Errorf("a changed scenario: exit status %d, %s", got.status, got.err)
	}
}

// A folder that takes no files is refused before anything is measured.
func TestRunRefusesAFolderThatTakesNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// /proc refuses even root.
	for _, folder := range []string{file, filepath.Join(file, "below"), "/proc/kafkalab"} {
		var out, errs bytes.Buffer
		status := realMain(t.Context(), []string{"run", "--testbed", localTestbed(t), "--scenario", nullScenario(t, "ceiling"), "--out", folder}, stdio{strings.NewReader(""), &out, &errs})
		if status != 1 || !strings.Contains(errs.String(), folder) || !strings.Contains(errs.String(), "--out") || strings.Contains(errs.String(), "goodput") {
			t.Errorf("%s: exit status %d, %s", folder, status, errs.String())
		}
	}
	folder := filepath.Join(t.TempDir(), "a", "b")
	if err := takesFiles(folder); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestGoOn(t *testing.T) {
	for _, c := range []struct {
		kind    host.Kind
		testbed string
		raid10  bool
		figures bool
		look    time.Duration
		want    string
	}{
		{host.Namespace, "", true, true, 0, calledAs() + " up --raid10 && " + calledAs() + " run --resume dir --figures"},
		{host.Namespace, "", false, true, defaultLook, calledAs() + " up && " + calledAs() + " run --resume dir --figures"},
		{host.Namespace, "my.toml", false, false, 0, calledAs() + " up --testbed my.toml && " + calledAs() + " run --testbed my.toml --resume dir"},
		{host.SSH, "my.toml", false, true, 200 * time.Millisecond, calledAs() + " run --testbed my.toml --resume dir --figures --look-time 200ms"},
	} {
		f := &runFlags{testbed: &c.testbed, raid10: &c.raid10, figures: c.figures, look: c.look}
		if got := f.goOn(c.kind, "dir"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// absent is a driver whose system is not installed, so that it knows nothing of
// its version.
type absent struct {
	driver.Null
	check error
}

func (absent) Name() string { return "absent" }

func (a absent) Check(context.Context, host.Host, driver.Options) error { return a.check }

func (absent) Settings(context.Context, host.Host, driver.Options) ([]driver.Setting, error) {
	return nil, errors.New("no program knows its version")
}

// A system that is not installed is described as such, and does not keep the
// others from being measured.
func TestSettingsOfWhatIsNotInstalled(t *testing.T) {
	d := absent{driver.NewNull(), fmt.Errorf("%w: the package x has it", driver.ErrNotInstalled)}
	plan := runner.Plan{Drivers: driver.NewTable(d)}
	rows, err := settings(t.Context(), plan, scenario.System{Driver: "absent"})
	if err != nil || len(rows) != len(driver.SettingRows) || rows[0].Value != "not installed" {
		t.Errorf("%v, %v", rows, err)
	}
	d.check = nil
	plan.Drivers = driver.NewTable(d)
	if _, err := settings(t.Context(), plan, scenario.System{Driver: "absent"}); err == nil || !strings.Contains(err.Error(), "no program knows") {
		t.Errorf("an error of another kind: %v", err)
	}
}

func localTestbedNamed(t *testing.T, client string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "named.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "kind = \"local\"\n[client]\nname = %q\ndir = %q\n", client, t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--messages", "0"}, 2, "--messages 0"},
		{[]string{"--messages", "many"}, 2, "many"},
		{[]string{"--repeat", "-1"}, 2, "--repeat -1"},
		{[]string{"--repeat", "2000000000"}, 2, "up to 1000"},
		{[]string{"--messages", "4611686018427387904"}, 2, "up to 1000000000000"},
		{[]string{"--cap", "soon"}, 2, `--cap = "soon"`},
		{[]string{"--cap", ""}, 2, `--cap = ""`},
		{[]string{"--out", "x", "--resume", "y"}, 2, "exclude each other"},
		{[]string{"stray"}, 2, `"stray"`},
		{[]string{"--scenario", "fig9"}, 1, `no scenario "fig9"`},
		{[]string{"--system", "rabbit-mq"}, 1, `did you mean "rabbitmq"?`},
		{[]string{"--testbed", "/nowhere.toml"}, 1, "/nowhere.toml"},
		{[]string{"--resume", "/nowhere"}, 1, "/nowhere"},
	} {
		var out, errs bytes.Buffer
		status := realMain(t.Context(), append([]string{"run"}, c.args...), stdio{strings.NewReader(""), &out, &errs})
		if status != c.status || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: exit status %d (want %d), %s", c.args, status, c.status, errs.String())
		}
	}
}

// The plan alone: nothing is made and nothing measured.
func TestRunPlan(t *testing.T) {
	var out, errs bytes.Buffer
	folder := filepath.Join(t.TempDir(), "out")
	status := realMain(t.Context(), []string{"run", "--plan", "--scenario", nullScenario(t, "ceiling"), "--repeat", "6", "--seed", "7", "--out", folder}, stdio{strings.NewReader(""), &out, &errs})
	if status != 0 || !strings.Contains(out.String(), "6 repetitions, no cap, seed 7") || !strings.Contains(out.String(), "takes at most about") || errs.Len() > 0 {
		t.Errorf("exit status %d\n%s%s", status, out.String(), errs.String())
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was made: %v", folder, err)
	}
}

func TestListCommand(t *testing.T) {
	var text, asJSON, errs bytes.Buffer
	if status := realMain(t.Context(), []string{"list"}, stdio{nil, &text, &errs}); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	names, err := scenario.NewLibrary(scenarios.Files).Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append([]string{"Producer performance", "runs fig4-producer, fig5-consumer"}, names...) {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the list:\n%s", want, text.String())
		}
	}
	if lines := strings.Count(text.String(), "\n"); lines > 2*len(names)+4 || strings.Contains(text.String(), "kafka-b50") {
		t.Errorf("%d lines for %d scenarios:\n%s", lines, len(names), text.String())
	}
	text.Reset()
	if status := realMain(t.Context(), []string{"list", "fig4-producer", nullScenario(t, "five")}, stdio{nil, &text, &errs}); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	for _, want := range []string{"fig4-producer: Producer performance", "limit: A 1 Gb/s wire", "the paper's claims: C", "kafka-b50 ", "five: Ceiling", "null   Null driver"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not told:\n%s", want, text.String())
		}
	}
	if status := realMain(t.Context(), []string{"list", "fig4-produce"}, stdio{nil, &text, &errs}); status != 1 || !strings.Contains(errs.String(), `did you mean "fig4-producer"?`) {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
	if status := realMain(t.Context(), []string{"list", "--json"}, stdio{nil, &asJSON, &errs}); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}
	var entries []map[string]any
	if err := json.Unmarshal(asJSON.Bytes(), &entries); err != nil || len(entries) < 3 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// Every command says how it is used, with an example, and takes no nonsense.
func TestEveryCommandHelps(t *testing.T) {
	for _, c := range commands() {
		var out, errs bytes.Buffer
		if status := realMain(t.Context(), []string{c.name, "--help"}, stdio{strings.NewReader(""), &out, &errs}); status != 0 {
			t.Errorf("%s --help: exit status %d", c.name, status)
		}
		if help := out.String() + errs.String(); !strings.Contains(help, "Example") {
			t.Errorf("%s --help shows no example:\n%s", c.name, help)
		}
		for line := range strings.Lines(out.String() + errs.String()) {
			if len(line) > helpWidth+1 {
				t.Errorf("%s --help: %d columns: %s", c.name, len(line)-1, line)
			}
		}
		if status := realMain(t.Context(), []string{c.name, "--no-such-flag"}, stdio{strings.NewReader(""), &out, &errs}); status != 2 {
			t.Errorf("%s --no-such-flag: exit status %d", c.name, status)
		}
	}
}

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	a := resultfile.Attempt{ID: "s-x-1", Scenario: "s", Repetition: 1}
	at := func(phase runner.Phase) runner.Update {
		return runner.Update{Attempt: a, Label: "X", Number: 1, Total: 3, Phase: phase, Left: 10 * time.Minute}
	}
	p.update(at(runner.Measure))
	for done := range int64(5) { // one line for a phase, however much moves
		u := at(runner.Measure)
		u.Done, u.Of = done, 5
		p.update(u)
	}
	note := at(runner.Verify)
	note.Note = "held to 45s"
	p.update(note)
	end := at(runner.Verify)
	end.Ended = true
	end.Attempt.Outcome, end.Attempt.Messages, end.Attempt.Seconds, end.Attempt.Verified = resultfile.Valid, 1000, 2, true
	end.Attempt.BrokerCPUSeconds = 0.15
	p.update(end)
	end.Attempt.Outcome, end.Attempt.Reason = resultfile.Failed, "port 1 is in use"
	p.update(end)
	p.close()
	want := `[1/3] s  X: measure (about 10 minutes left in all)
[1/3] s  X: held to 45s
[1/3] s  X: valid, 500 messages/s (1,000 in 2.00 s, broker 150.0 µs of processor a message), repetition 1
[1/3] s  X: failed, 500 messages/s (1,000 in 2.00 s, broker 150.0 µs of processor a message): port 1 is in use, repetition 1
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// An attempt that failed and was made again counts for nothing against a run.
func TestVerdict(t *testing.T) {
	failed := resultfile.Attempt{ID: "a", Scenario: "s", System: "x", Repetition: 1, Outcome: resultfile.Failed, Reason: "it died"}
	valid := resultfile.Attempt{ID: "b", Scenario: "s", System: "x", Repetition: 1, Outcome: resultfile.Valid}
	if err := verdictOf(resultfile.Run{Attempts: []resultfile.Attempt{failed}}); err == nil || !strings.Contains(err.Error(), "it died") {
		t.Errorf("error %v", err)
	}
	if err := verdictOf(resultfile.Run{Attempts: []resultfile.Attempt{failed, valid}}); err != nil {
		t.Errorf("error %v", err)
	}
	second := failed
	second.Repetition = 2
	if got := tally(resultfile.Run{Attempts: []resultfile.Attempt{failed, valid, second}}); got != "1 of 2 attempts valid." {
		t.Errorf("%s", got)
	}
}
