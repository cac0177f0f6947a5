package paper

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/scenario"
	"kafkalab/plots"
	"kafkalab/results/resultfile"
	"kafkalab/scenarios"
)

// soak writes a run of the scenario of that name, of invented numbers: of each
// minute the share of the planned rate that was kept.
func soak(t testing.TB, path string, repeat int, kept ...float64) string {
	t.Helper()
	const rate = 115_740
	return writeRun(t, path, resultfile.Run{
		Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Ended: time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC), Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)",
		Testbed: resultfile.Testbed{Kind: "netns", Emulated: true, ClientHost: resultfile.Host{Name: "client", Facts: inventedFacts()}, BrokerHost: resultfile.Host{Name: "broker", Facts: inventedFacts()},
			LinkGoodputMbps: 941, LinkReverseGoodputMbps: 941, LinkNote: "invented"},
		Messages: 208_332_000, Repeat: repeat,
		Scenarios: []resultfile.Scenario{{Name: "soak", Title: "Soak (synthetic)", Work: resultfile.Stream, Chart: resultfile.OverTime, PayloadBytes: 200, Limit: "invented", Purpose: "synthetic",
			Systems: []resultfile.System{{ID: "kafka", Label: "Synthetic kafka", Driver: "kafka", Role: resultfile.RoleSystem, Rate: rate, Settings: []resultfile.Setting{{Row: "version", Value: "synthetic"}}}}}},
	}, func(t testing.TB, w *resultfile.Writer, s resultfile.Scenario, y resultfile.System, repetition, order int) {
		points := []resultfile.Point{{}}
		n := 0.0
		for minute, share := range kept {
			for i := 1; i <= 60; i++ {
				n += rate * share
				points = append(points, resultfile.Point{Seconds: float64(60*minute + i), Messages: int64(n), Bytes: 200 * int64(n), Arrived: int64(n)})
			}
		}
		sent, seconds := int64(n), float64(60*len(kept))
		a, err := w.Begin(resultfile.Attempt{
			Scenario: s.Name, System: y.ID, Repetition: repetition, Order: order, Outcome: resultfile.Valid, Messages: sent, PayloadBytes: 200 * sent, StoredBytes: 209 * sent,
			Seconds: seconds, ClientMessages: sent, ClientSeconds: seconds, Verified: true, Measures: map[string]float64{"rate_wanted": rate, "rate_achieved": n / seconds},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.PutAttempt(a, points, []resultfile.Sample{{Host: "client"}, {Host: "broker"}}); err != nil {
			t.Fatal(err)
		}
	})
}

// of is so many minutes of one share after another.
func of(shares ...float64) []float64 {
	var out []float64
	for i := 0; i < len(shares); i += 2 {
		out = append(out, slices.Repeat([]float64{shares[i+1]}, int(shares[i]))...)
	}
	return out
}

// A run of half an hour is judged by the interval over its minutes and as a
// whole; one that is too short, or that has repetitions, by those.
func TestMinutesOfOneRun(t *testing.T) {
	const disagree = "the run and the interval over its minutes do not agree"
	for _, c := range []struct {
		name    string
		repeat  int
		kept    []float64
		verdict Verdict
		why     string
		minutes int
		spread  string
	}{
		{"even", 1, of(30, 1), Holds, "", 28, "over the minutes of one run: median 100.0, 95 % interval 100.0 .. 100.0, 28 minutes; of other runs it says nothing"},
		{"a beginning and an end that are slow", 1, of(1, 0.9, 28, 1, 1, 0.9), Holds, "", 28, "over the minutes of one run: median 100.0, 95 % interval 100.0 .. 100.0, 28 minutes; of other runs it says nothing"},
		{"half of it slow", 1, of(15, 0.97, 15, 1), InPart, disagree, 28, "over the minutes of one run: median 98.5, 95 % interval 97.0 .. 100.0, 28 minutes; of other runs it says nothing"},
		{"minutes of nothing that a median does not show", 1, of(12, 1, 6, 0, 12, 1), InPart, disagree, 28, "over the minutes of one run: median 100.0, 95 % interval 100.0 .. 100.0, 28 minutes; of other runs it says nothing"},
		{"slow", 1, of(30, 0.5), Contradicted, "", 28, "over the minutes of one run: median 50.0, 95 % interval 50.0 .. 50.0, 28 minutes; of other runs it says nothing"},
		{"just long enough", 1, of(8, 1), Holds, "", 6, "over the minutes of one run: median 100.0, 95 % interval 100.0 .. 100.0, 6 minutes; of other runs it says nothing"},
		{"too short", 1, of(7, 1), Holds, "", 0, "1 repetition, too few for an interval"},
		{"repetitions", 2, of(30, 1), Holds, "", 0, "lowest .. highest 100.0 .. 100.0, 2 repetitions, too few for an interval"},
		{"six of them", 6, of(8, 1), Holds, "", 0, "95 % interval 100.0 .. 100.0, 6 repetitions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := judgeRuns(t, read(t, soak(t, filepath.Join(t.TempDir(), "run"), c.repeat, c.kept...)))["C22"]
			k := j.Checks[0]
			f := k.First()
			if f == nil {
				t.Fatalf("%+v", k)
			}
			if k.Verdict != c.verdict || k.Why != c.why || f.Minutes != c.minutes || f.Interval != (c.minutes > 0 || c.repeat >= 6) || f.Repetitions != c.repeat || k.Spread(*f) != c.spread {
				t.Errorf("%s (%s), %+v, %q", k.Verdict, k.Why, f, k.Spread(*f))
			}
			remark := "fewer than six repetitions"
			switch {
			case c.minutes > 0:
				remark = "with the interval over the minutes of one run"
			case c.repeat >= 6:
				remark = ""
			}
			if got := j.Remark(); got != remark {
				t.Errorf("remark %q, want %q", got, remark)
			}
		})
	}
}

// Of two runs of which one has repetitions, each has an interval of its own
// kind: minutes are never put to repetitions.
func TestMinutesAreNotMixedWithRepetitions(t *testing.T) {
	dir := t.TempDir()
	long := read(t, soak(t, filepath.Join(dir, "long"), 1, of(30, 1)...))
	often := read(t, soak(t, filepath.Join(dir, "often"), 6, of(30, 0.999)...))
	fs := judgeRuns(t, long, often)["C22"].Checks[0].Findings
	if len(fs) != 2 || fs[0].Run != often || fs[0].Minutes != 0 || fs[0].Repetitions != 6 || fs[1].Minutes != 28 || fs[1].Repetitions != 1 {
		t.Errorf("%+v", fs)
	}
}

// Both forms of the report say what the interval is over, in the table of the
// claims and beside each number.
func TestReportNamesTheMinutes(t *testing.T) {
	dir := t.TempDir()
	r := makeReport(t, soak(t, filepath.Join(dir, "a"), 1, of(7, 1)...), soak(t, filepath.Join(dir, "b"), 1, of(30, 1)...))
	page, markdown := forms(t, r)
	for form, text := range map[string][]byte{HTMLName: page, MarkdownName: markdown} {
		for what, want := range map[string]int{
			"over the minutes of one run: median": 3, "with the interval over the minutes of one run": 1, "has its interval over the minutes of one run, where paper/claims.toml says so": 1,
		} {
			if got := bytes.Count(text, []byte(what)); got != want {
				t.Errorf("%s says %q %d times, want %d", form, what, got, want)
			}
		}
	}
	again, againMarkdown := forms(t, makeReport(t, filepath.Join(dir, "b"), filepath.Join(dir, "a")))
	if !bytes.Equal(page, again) || !bytes.Equal(markdown, againMarkdown) {
		t.Error("the second report differs from the first")
	}
}

// Only scenarios that make one attempt, of eight minutes and more, take their
// interval from its minutes.
func TestMinutesAreOfLongScenarios(t *testing.T) {
	library, n := scenario.NewLibrary(scenarios.Files), 0
	for _, c := range loadClaims(t).Claims {
		for _, k := range c.Checks {
			if k.IntervalOver == "" {
				continue
			}
			n++
			sel, err := library.Select([]string{k.Scenario}, []string{k.System})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sel.Scenarios {
				for _, y := range s.Systems {
					if seconds := float64(sel.MessagesOf(s, y)) / y.Rate; sel.Repeat != 1 || !(seconds >= 8*60) {
						t.Errorf("%s, %s: %s, %s: %d attempts of %v s", c.ID, k.Says, s.Name, y.ID, sel.Repeat, seconds)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("no check takes its interval from minutes")
	}
}

// An interval that cannot be is no check.
func TestIntervalIsReadStrictly(t *testing.T) {
	whole := Check{Says: "invented", Scenario: "soak", System: "kafka", Quantity: plots.DataRate, Statistic: Median, IntervalOver: OverMinutes, Relation: AtLeast, Value: 1}
	if err := whole.check(scenariosOf(t)); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(k *Check){
		`interval = "hours": "minutes" or nothing`:                     func(k *Check) { k.IntervalOver = "hours" },
		`interval = "minutes": broker CPU is not known of each minute`: func(k *Check) { k.Quantity = plots.BrokerCPU },
		`interval = "minutes" belongs to statistic = "median"`:         func(k *Check) { k.Statistic, k.Against = MedianRatio, "kafka" },
		"names no quantity, or a scenario that is not built": func(k *Check) {
			*k = Check{Says: "invented", Scenario: "soak", NotBuilt: true, IntervalOver: OverMinutes}
		},
	} {
		k := whole
		change(&k)
		if err := k.check(scenariosOf(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A median in a unit of its own says which.
func TestWordsOfMinutes(t *testing.T) {
	k := Check{Quantity: plots.DataRate, Statistic: Median}
	f := Finding{Number: 23.1e6, Low: 50e3, High: 23.2e6, Interval: true, Repetitions: 1, Minutes: 28, MinuteMedian: 23e6}
	if got, want := k.Spread(f), "over the minutes of one run: median 23 MB/s, 95 % interval 50 kB/s .. 23.2 MB/s, 28 minutes; of other runs it says nothing"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
