package paper

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

func loadGoals(t testing.TB) *Goals {
	t.Helper()
	g, err := LoadGoals(scenariosOf(t))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// goalRun is a run of invented rates of ceilings-produce and ceilings-both.
func goalRun(t *testing.T, name string, repeat int, messages int64, kind string, rates map[string]float64) *resultfile.Result {
	t.Helper()
	y := func(id, role string) resultfile.System {
		return resultfile.System{ID: id, Label: "Synthetic " + id, Driver: "kafka", Role: role, Messages: messages, Settings: []resultfile.Setting{{Row: "version", Value: "invented"}}}
	}
	started := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	dir := writeRun(t, filepath.Join(t.TempDir(), name), resultfile.Run{
		Started: started, Ended: started.Add(time.Hour), Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)", Seed: 7,
		Testbed: resultfile.Testbed{
			Kind: kind, Emulated: true, ClientHost: resultfile.Host{Name: "client", Facts: inventedFacts()}, BrokerHost: resultfile.Host{Name: "broker", Facts: inventedFacts()},
			LinkGoodputMbps: 941, LinkReverseGoodputMbps: 941, UnshapedGoodputMbps: 20_000, UnshapedReverseGoodputMbps: 20_000, LinkNote: "invented link",
		},
		Messages: 1_000_000, Repeat: repeat, Scenarios: []resultfile.Scenario{
			{Name: "ceilings-produce", Title: "Synthetic", Work: resultfile.Produce, PayloadBytes: 200, Chart: resultfile.Bars, Link: resultfile.LinkUnshaped, Systems: []resultfile.System{y("limit", resultfile.RoleLimit), y("kafka-50", resultfile.RoleSystem)}},
			{Name: "ceilings-both", Title: "Synthetic", Work: resultfile.Produce, PayloadBytes: 200, Chart: resultfile.Bars, Link: resultfile.LinkUnshaped, Systems: []resultfile.System{y("kafka-both", resultfile.RoleSystem)}},
		},
	}, func(t testing.TB, w *resultfile.Writer, s resultfile.Scenario, y resultfile.System, repetition, order int) {
		a, err := w.Begin(resultfile.Attempt{Scenario: s.Name, System: y.ID, Repetition: repetition, Order: order, Started: started})
		if err != nil {
			t.Fatal(err)
		}
		rate := rates[y.ID] * (1 + float64(repetition)/1000)
		a.Outcome, a.Ended, a.Verified = resultfile.Valid, started.Add(time.Minute), true
		a.Seconds = 2
		a.Messages = int64(rate * a.Seconds)
		a.PayloadBytes, a.StoredBytes, a.ClientMessages, a.ClientSeconds = a.Messages*200, a.Messages*209, a.Messages, 2
		a.BrokerCPUSeconds = 2
		a.Measures = map[string]float64{"broker_resident_peak_bytes": 40 << 20, "broker_gc_seconds": 0.03}
		points := []resultfile.Point{{}, {Seconds: 2, Messages: a.Messages, Bytes: a.PayloadBytes, Arrived: a.Messages}}
		if err := w.PutAttempt(a, points, nil); err != nil {
			t.Fatal(err)
		}
	})
	return read(t, dir)
}

func goalNamed(t *testing.T, goals []JudgedGoal, path string) JudgedGoal {
	t.Helper()
	i := slices.IndexFunc(goals, func(j JudgedGoal) bool { return strings.HasPrefix(j.Path, path) })
	if i < 0 {
		t.Fatalf("no goal %q", path)
	}
	return goals[i]
}

// A goal is met by its median, as a ratio or by itself, across scenarios too.
func TestGoalsAreJudged(t *testing.T) {
	g := loadGoals(t)
	rates := map[string]float64{"limit": 4_000_000, "kafka-50": 2_800_000, "kafka-both": 1_000_000}
	goals := g.Judge(goalRun(t, "run", 6, 6_000_000, "netns", rates))
	for _, c := range []struct {
		path    string
		verdict Verdict
		number  string
		wanted  string
	}{
		{"produce, batch 50, unshaped", Met, "0.70", "≥ 0.65"},
		{"produce, batch 1, unshaped", NotMeasured, "–", "≥ 0.50"},
		{"produce (batch 50) while", NotMet, "0.36", "≥ 0.40"},
		{"broker's resident memory, 1 producer", Met, "40 MiB", "≤ 48 MiB"},
		{"garbage collection's share of the broker's processor time, batch 50", NotMet, "1.5 %", "≤ 1 %"},
	} {
		j := goalNamed(t, goals, c.path)
		if j.Verdict != c.verdict || j.Number() != c.number || j.Wanted() != c.wanted {
			t.Errorf("%s: %s %s, wanted %s (%s)", c.path, j.Verdict, j.Number(), j.Wanted(), j.Why)
		}
	}
	if j := goalNamed(t, goals, "produce, batch 50, unshaped"); !j.Interval || !strings.Contains(j.Spread(), " .. ") || !strings.Contains(j.Medians(), "MB/s / ") {
		t.Errorf("%q, %q", j.Spread(), j.Medians())
	}
	// Scenarios that the run has not are no part of it.
	if slices.ContainsFunc(goals, func(j JudgedGoal) bool { return j.RunBy == "scale" }) {
		t.Error("goals of scale for a run of ceilings")
	}
	var text strings.Builder
	if err := GoalsTable(goals).Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TCP to file, 1 MiB writes", "0.70", "≥ 0.65", "met", "not met", "Of 10 goals: met: 2, not met: 3, not measured yet: 5."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

func TestWordsOfGoals(t *testing.T) {
	for want, j := range map[string]JudgedGoal{
		"≤ 4":       {Goal: Goal{Against: "x", Relation: AtMost, Value: 4}},
		"≥ 0.50":    {Goal: Goal{Against: "x", Relation: AtLeast, Value: 0.5}},
		"≥ 1.00":    {Goal: Goal{Against: "x", Relation: AtLeast, Value: 1}},
		"≥ 0.95":    {Goal: Goal{Quantity: plots.OfFirstGB, Relation: AtLeast, Value: 0.95}},
		"≤ 1 %":     {Goal: Goal{Quantity: plots.GCShare, Relation: AtMost, Value: 0.01}},
		"≤ 256 MiB": {Goal: Goal{Quantity: plots.ResidentPeak, Relation: AtMost, Value: 256 << 20}},
	} {
		if got := j.Wanted(); got != want || j.Number() != "–" || j.Spread() != "–" || j.Medians() != "–" {
			t.Errorf("%q, want %q; %s %s %s", got, want, j.Number(), j.Spread(), j.Medians())
		}
	}
	if got := times(90.904); got != "90.9" {
		t.Errorf("%q", got)
	}
	// Two digits that are those of the goal do not tell whether it is met.
	near := Goal{Against: "x", Relation: AtLeast, Value: 0.98}
	for v, want := range map[float64]string{0.98: "0.98", 0.9812: "0.981", 0.9775: "0.978", 0.99: "0.99"} {
		if got := near.show(v); got != want {
			t.Errorf("%v beside a goal of 0.98: %q, want %q", v, got, want)
		}
	}
}

// What the median says is so even where not all of the interval does, and the
// table says that.
func TestGoalsAtTheBorder(t *testing.T) {
	g := loadGoals(t)
	j := goalNamed(t, g.Judge(goalRun(t, "run", 6, 6_000_000, "netns", map[string]float64{"limit": 4_000_000, "kafka-50": 2_600_100, "kafka-both": 1})), "produce, batch 50, unshaped")
	if j.Verdict != Met || !strings.Contains(j.Said(), "both sides") {
		t.Errorf("%s (%v, %v .. %v)", j.Said(), j.Finding.Number, j.Low, j.High)
	}
}

// Trials decide nothing.
func TestGoalsOfTrials(t *testing.T) {
	g := loadGoals(t)
	rates := map[string]float64{"limit": 4_000_000, "kafka-50": 2_800_000, "kafka-both": 1_000_000}
	hasty := goalRun(t, "hasty", 6, 6_000_000, "netns", rates)
	hasty.Run.Testbed.BrokerHost.Facts = append(hasty.Run.Testbed.BrokerHost.Facts, resultfile.Fact{Name: resultfile.ShortLook, Value: "200ms only"})
	for why, r := range map[string]*resultfile.Result{
		"valid repetitions: 4": goalRun(t, "few", 4, 6_000_000, "netns", rates),
		"30,000 messages":      goalRun(t, "small", 6, 30_000, "netns", rates),
		"without a link":       goalRun(t, "local", 6, 6_000_000, "local", rates),
		"--look-time":          hasty,
	} {
		j := goalNamed(t, g.Judge(r), "produce, batch 50, unshaped")
		if j.Verdict != Undecided || !strings.Contains(j.Why, why) || j.Number() != "0.70" {
			t.Errorf("%s: %s, %s", why, j.Said(), j.Number())
		}
	}
}

// What it is held against must be as large as the system's own attempts, and a cap
// that has cut one of either leaves nothing to be said.
func TestGoalsOfSmallAttempts(t *testing.T) {
	g := loadGoals(t)
	rates := func(limit, kafka float64) map[string]float64 {
		return map[string]float64{"limit": limit, "kafka-50": kafka, "kafka-both": 1_000_000}
	}
	smallLimit := goalRun(t, "limit", 6, 6_000_000, "netns", rates(4_000_000, 2_800_000))
	smallLimit.Run.Scenarios[0].Systems[0].Messages = 30_000
	oneCut := goalRun(t, "one", 6, 6_000_000, "netns", rates(4_000_000, 2_800_000))
	for i, a := range oneCut.Run.Attempts {
		if a.System == "kafka-50" && a.Repetition == 3 {
			oneCut.Run.Attempts[i].Messages, oneCut.Run.Attempts[i].Seconds = 980_700, 0.35
		}
	}
	for name, c := range map[string]struct {
		run *resultfile.Result
		why string
	}{
		"the limit asked for few":   {smallLimit, "30,000 messages were asked for"},
		"the limit was cut":         {goalRun(t, "cut", 6, 6_000_000, "netns", rates(400_000, 280_000)), "an attempt moved 560,"},
		"one attempt was cut":       {oneCut, "moved 980,700 messages, and 1,000,000 are wanted"},
		"all are as large as asked": {goalRun(t, "whole", 6, 6_000_000, "netns", rates(4_000_000, 2_800_000)), ""},
	} {
		j := goalNamed(t, g.Judge(c.run), "produce, batch 50, unshaped")
		if want := c.why; j.Number() != "0.70" || want == "" && j.Verdict != Met || want != "" && (j.Verdict != Undecided || !strings.Contains(j.Why, want)) {
			t.Errorf("%s: %s, %s", name, j.Number(), j.Said())
		}
	}
}

// Real hosts keep the link that they have. Where that is full, it is the link that was
// measured; where it is fast enough, it was the system.
func TestGoalsOnAnotherLink(t *testing.T) {
	g := loadGoals(t)
	for mbps, verdict := range map[float64]Verdict{5_000: Undecided, 100_000: Met} {
		r := goalRun(t, "run", 6, 6_000_000, "ssh", map[string]float64{"limit": 4_000_000, "kafka-50": 2_800_000, "kafka-both": 1_000_000})
		r.Run.Testbed.LinkGoodputMbps = mbps
		for i := range r.Run.Scenarios {
			r.Run.Scenarios[i].Link = resultfile.LinkAsItIs
		}
		j := goalNamed(t, g.Judge(r), "produce, batch 50, unshaped")
		if j.Verdict != verdict || j.Number() != "0.70" || (verdict == Undecided) != strings.Contains(j.Why, "own link") {
			t.Errorf("%v Mbit/s: %s, %s", mbps, j.Number(), j.Said())
		}
	}
}

// Of several runs the one that says most decides, and one that decides goes
// before any that does not.
func TestGoalsOfSeveralRuns(t *testing.T) {
	g := loadGoals(t)
	fast := map[string]float64{"limit": 4_000_000, "kafka-50": 3_900_000, "kafka-both": 1_000_000}
	slow := map[string]float64{"limit": 4_000_000, "kafka-50": 1_000_000, "kafka-both": 1_000_000}
	trial, real := goalRun(t, "trial", 9, 30_000, "netns", fast), goalRun(t, "whole", 6, 6_000_000, "netns", slow)
	for _, runs := range [][]*resultfile.Result{{trial, real}, {real, trial}} {
		goals := g.JudgeAll(runs)
		if j := goalNamed(t, goals, "produce, batch 50, unshaped"); j.Verdict != NotMet || j.Run != real {
			t.Errorf("%s by %s", j.Said(), j.Run.Run.Name)
		} else if got := j.InOthers(); got != "trial: 0.97 (not decided)" {
			t.Errorf("in other runs: %q", got)
		}
		if j := goalNamed(t, goals, "1,000 partitions"); j.Verdict != NotMeasured || !strings.Contains(j.Why, "scale") || len(goals) != len(g.Goals) {
			t.Errorf("%d goals, %s", len(goals), j.Said())
		}
	}
	if got := g.JudgeAll([]*resultfile.Result{read(t, invented{name: "run", messages: 2_000_000, repeat: 2, rates: asMeasured()}.write(t, t.TempDir()))}); got != nil {
		t.Errorf("%d goals of a run that has none", len(got))
	}
}

// The report shows them in both forms, of one run and of several.
func TestGoalsInTheReport(t *testing.T) {
	rates := map[string]float64{"limit": 4_000_000, "kafka-50": 2_800_000, "kafka-both": 1_000_000}
	one := goalRun(t, "one", 6, 6_000_000, "netns", rates).Dir
	two := goalRun(t, "two", 6, 6_000_000, "netns", rates).Dir
	for _, dirs := range [][]string{{one}, {one, two}} {
		report, err := New(dirs, filepath.Dir(one), scenariosOf(t))
		if err != nil {
			t.Fatal(err)
		}
		page, err := report.HTML()
		if err != nil {
			t.Fatal(err)
		}
		markdown, err := report.Markdown()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Goals", "TCP to file, 1 MiB writes", "≥ 0.65", "0.70", "not measured yet (waits for a run of the scenario scale)", "link unshaped"} {
			if !strings.Contains(string(page), want) || !strings.Contains(string(markdown), want) {
				t.Errorf("of %d runs, in the page %v, in Markdown %v: %q", len(dirs), strings.Contains(string(page), want), strings.Contains(string(markdown), want), want)
			}
		}
		// The number leads to its run, and the goal that it is held to does not.
		if want := fmt.Sprintf("| [0.70](%s) |", report.Of(goalNamed(t, report.Goals, "produce, batch 50, unshaped").Finding).Link); !strings.Contains(string(markdown), want) || strings.Contains(string(markdown), "[≥ 0.65]") {
			t.Errorf("of %d runs: no %q, or a link at the goal", len(dirs), want)
		}
	}
}

func TestGoalsAreReadStrictly(t *testing.T) {
	const good = "least_repetitions = 5\nleast_messages = 1\n[[goal]]\npath = \"p\"\nceiling = \"c\"\nrun = \"s\"\nscenario = \"s\"\nsystem = \"x\"\nquantity = \"log rate\"\nagainst = \"y\"\nrelation = \"at least\"\nvalue = 1\n"
	known := map[string][]string{"s": {"x", "y"}}
	if g, err := parseGoals([]byte(good), known); err != nil || g.Goals[0].AgainstScenario != "s" || g.Goals[0].AgainstQuantity != plots.LogRate {
		t.Fatalf("%+v, %v", g, err)
	}
	for want, change := range map[string][2]string{
		"unknown key":          {"ceiling", "seiling"},
		"goals.toml:4:":        {"path = \"p\"", "path = p"},
		"two goals":            {"[[goal]]", "[[goal]]\npath = \"p\"\nceiling = \"c\"\nrun = \"s\"\nscenario = \"s\"\nsystem = \"x\"\nquantity = \"log rate\"\nagainst = \"y\"\nrelation = \"at least\"\nvalue = 1\n[[goal]]"},
		"no such scenario":     {"run = \"s\"", "run = \"t\""},
		"there is no scenario": {"scenario = \"s\"", "scenario = \"t\""},
		"has no system":        {"system = \"x\"", "system = \"z\""},
		"there is no quantity": {"log rate", "lag rate"},
		"relation":             {"at least", "about"},
		"value":                {"value = 1", "value = -1"},
		"belong to against":    {"against = \"y\"", "against_quantity = \"message rate\""},
		"has to say":           {"ceiling = \"c\"", ""},
		"least_repetitions":    {"least_repetitions = 5", ""},
		"path is missing":      {"path = \"p\"", ""},
	} {
		if _, err := parseGoals([]byte(strings.Replace(good, change[0], change[1], 1)), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
