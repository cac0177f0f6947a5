package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/scenario"
)

func TestTellCaps(t *testing.T) {
	six := 6 * time.Second
	s := scenario.Scenario{Name: "acks", Systems: []scenario.System{{Label: "A"}, {Label: "B", Cap: six}, {Label: "C", Cap: six}, {Label: "D", Cap: 2 * six}}}
	var out strings.Builder
	tellCaps(&out, scenario.Selection{Cap: 45 * time.Second}, s)
	if want := "acks, held to 6s: B; C\nacks, held to 12s: D\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	s.Systems[3].Cap = six
	out.Reset()
	tellCaps(&out, scenario.Selection{Cap: 45 * time.Second}, s)
	if want := "acks, held to 6s: every system but A\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	s.Systems[0].Cap = six
	out.Reset()
	tellCaps(&out, scenario.Selection{Cap: 45 * time.Second}, s)
	if want := "acks, held to 6s: every system\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// An option that no driver takes, or what no figure can show, is found by the
// plan, and a scenario is called by its name there, not by its path.
func TestPlanChecksOptions(t *testing.T) {
	path := nullScenario(t, "five")
	call := func() (int, string) {
		var out, errs bytes.Buffer
		status := realMain(t.Context(), []string{"run", "--testbed", localTestbed(t), "--scenario", path, "--messages", "1", "--plan"}, stdio{strings.NewReader(""), &out, &errs})
		return status, out.String() + errs.String()
	}
	if status, told := call(); status != 0 || !strings.HasPrefix(told, "five: 1 message an attempt, 2 repetitions, no cap") {
		t.Errorf("exit status %d, %s", status, told)
	}
	text := mustRead(t, path)
	bad := filepath.Join(filepath.Dir(path), "five.toml")
	if err := os.WriteFile(bad, append(text, "messages = 50_000\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, told := call(); status != 0 || !strings.HasPrefix(told, "five: 1 message an attempt where no other number is named below, 2 repetitions, no cap") {
		t.Errorf("exit status %d, %s", status, told)
	}
	if err := os.WriteFile(bad, append(text, "options = { acks = \"wat\" }\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, told := call(); status != 1 || !strings.Contains(told, "five, system again: ") || !strings.Contains(told, "acks") {
		t.Errorf("exit status %d, %s", status, told)
	}
	text = append([]byte("chart = \"bars\"\nshows = [\"message rate\", \"nonsense\"]\n"), text...)
	if err := os.WriteFile(bad, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, told := call(); status != 1 || !strings.Contains(told, `five.toml: shows "nonsense"`) {
		t.Errorf("exit status %d, %s", status, told)
	}
}

func TestTimeLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "longer than estimated", time.Second: "about 1 second left in all", 10 * time.Minute: "about 10 minutes left in all",
	} {
		if got := timeLeft(d, " in all"); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
