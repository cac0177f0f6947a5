package paper

import (
	"strings"
	"testing"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

func judgeRuns(t *testing.T, runs ...*resultfile.Result) map[string]Judged {
	t.Helper()
	out := map[string]Judged{}
	for _, j := range loadClaims(t).Judge(runs, scenariosOf(t)) {
		out[j.ID] = j
	}
	return out
}

// The verdicts follow the numbers: other numbers, other verdicts.
func TestVerdictsFollowTheNumbers(t *testing.T) {
	near := asMeasured() // to the paper's own numbers
	near["kafka-b1"], near["kafka-b1-plain"], near["kafka-b50"], near["kafka"] = 50_000, 50_000, 400_000, 22_000
	near["rabbitmq"], near["rabbitmq-plain"], near["activemq"], near["activemq-receipt"] = 5_000, 5_000, 450, 400
	slow := asMeasured()
	slow["kafka-b1"], slow["kafka-b1-plain"], slow["kafka-b50"], slow["kafka"] = 30_000, 30_000, 30_500, 15_000
	for _, c := range []struct {
		name  string
		rates map[string]float64
		want  map[string]Verdict
	}{
		{"as measured", asMeasured(), map[string]Verdict{"C1": InPart, "C2": InPart, "C3": InPart, "C4": Holds, "C5": Holds, "C6": Contradicted, "C8": InPart, "C9": InPart, "C10": InPart, "C11": InPart, "C15": InPart}},
		{"as in the paper", near, map[string]Verdict{"C1": Holds, "C2": Holds, "C3": Holds, "C4": Holds, "C5": Contradicted, "C6": InPart, "C9": Holds}},
		{"slow", slow, map[string]Verdict{"C1": Contradicted, "C2": Contradicted, "C3": Contradicted, "C4": Contradicted, "C5": Contradicted, "C6": Contradicted, "C9": Contradicted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judgeRuns(t, read(t, invented{name: "run", messages: 2_000_000, repeat: 2, rates: c.rates}.write(t, t.TempDir())))
			for id, want := range c.want {
				if got[id].Verdict != want {
					t.Errorf("%s: %s, want %s: %+v", id, got[id].Verdict, want, got[id].Checks)
				}
			}
			for _, id := range strings.Fields("C7 C12 C13 C14 C16 C17 C18 C19 C20 C21 C22") {
				const why = "waits for a run of the scenario"
				if got[id].Verdict != NotMeasured || !strings.Contains(got[id].Checks[0].Why, why) {
					t.Errorf("%s: %s %q", id, got[id].Verdict, got[id].Checks[0].Why)
				}
			}
		})
	}
}

func TestDecided(t *testing.T) {
	judged := func(id string, v Verdict) Judged { return Judged{Claim: Claim{ID: id}, Verdict: v} }
	r := Report{Claims: []Judged{judged("C1", InPart), judged("C2", Holds), judged("C3", NotMeasured), judged("C4", Holds)}}
	if got := r.Decided(); got != "holds: C2 C4; holds in part: C1" {
		t.Errorf("%q", got)
	}
	if got := (&Report{Claims: []Judged{judged("C3", NotTestable)}}).Decided(); got != "" {
		t.Errorf("%q", got)
	}
}

// What the broker did, not only how fast it was, decides claims.
func TestVerdictsOfCosts(t *testing.T) {
	change := func(a *resultfile.Attempt) {
		switch a.Scenario {
		case "fig4-producer":
			a.StoreBytesAfter += a.Messages * 20 // of overhead
		default:
			a.BrokerDiskWriteBytes = a.Messages // a byte for each, whoever serves
			a.BrokerResidentBytes = a.PayloadBytes
		}
	}
	got := judgeRuns(t, read(t, invented{name: "run", messages: 2_000_000, repeat: 1, rates: asMeasured(), change: change}.write(t, t.TempDir())))
	for id, want := range map[string][]Verdict{
		"C8": {Contradicted, NotTestable, InPart, NotMeasured}, "C11": {Contradicted, Holds, Holds}, "C15": {Holds, Contradicted, NotMeasured},
	} {
		for i, v := range want {
			if k := got[id].Checks[i]; k.Verdict != v {
				t.Errorf("%s, %s: %s, want %s (%+v)", id, k.Says, k.Verdict, v, k.First())
			}
		}
	}
	if got["C11"].Verdict != InPart {
		t.Errorf("C11: %s", got["C11"].Verdict)
	}
}

func TestNothingIsMeasured(t *testing.T) {
	got := judgeRuns(t)
	for id, j := range got {
		if j.Verdict != NotMeasured {
			t.Errorf("%s without a run: %s", id, j.Verdict)
		}
	}
	if why := got["C4"].Checks[0].Why; why != "waits for a run of the scenario fig4-producer with valid attempts of kafka-b1 and rabbitmq" {
		t.Errorf("C4: %s", why)
	}
	trial := read(t, invented{name: "trial", messages: 20_000, repeat: 1, rates: asMeasured()}.write(t, t.TempDir()))
	k := judgeRuns(t, trial)["C4"].Checks[0]
	if k.Verdict != NotMeasured || len(k.Passed) != 1 || k.Passed[0].Why != "it asked for 20,000 messages in an attempt, and 1,000,000 are wanted" {
		t.Errorf("a trial: %+v", k)
	}
	trial.Run.Messages, trial.Run.Testbed.Kind = 2_000_000, "local"
	k = judgeRuns(t, trial)["C4"].Checks[0]
	if k.Verdict != NotMeasured || len(k.Passed) != 1 || !strings.Contains(k.Passed[0].Why, "without a link") {
		t.Errorf("without a link: %+v", k)
	}
	trial.Run.Testbed.Kind = "ssh"
	trial.Run.Testbed.BrokerHost.Facts = append(trial.Run.Testbed.BrokerHost.Facts, resultfile.Fact{Name: resultfile.ShortLook, Value: "200ms only"})
	k = judgeRuns(t, trial)["C4"].Checks[0]
	if k.Verdict != NotMeasured || len(k.Passed) != 1 || !strings.Contains(k.Passed[0].Why, "--look-time") {
		t.Errorf("after a short look: %+v", k)
	}
	some := asMeasured()
	delete(some, "rabbitmq")
	j := judgeRuns(t, read(t, invented{name: "some", messages: 2_000_000, repeat: 1, rates: some}.write(t, t.TempDir())))
	if k := j["C4"].Checks[0]; k.Verdict != NotMeasured {
		t.Errorf("without RabbitMQ: %s", k.Verdict)
	}
}

// The interval is there from six repetitions on, and below that it is said
// that they are too few.
func TestTooFewRepetitionsSaySo(t *testing.T) {
	for _, c := range []struct {
		repeat   int
		interval bool
		says     string
	}{
		{1, false, "1 repetition, too few for an interval"},
		{2, false, "lowest .. highest 509,000 .. 514,000, 2 repetitions, too few for an interval"},
		{6, true, "95 % interval 509,000 .. 534,000, 6 repetitions"},
	} {
		k := judgeRuns(t, read(t, invented{name: "run", messages: 2_000_000, repeat: c.repeat, rates: map[string]float64{"limit": 563_000, "kafka-b1": 509_000}}.write(t, t.TempDir())))["C1"].Checks[0]
		f := k.First()
		if f == nil || f.Interval != c.interval || k.Spread(*f) != c.says {
			t.Errorf("%d repetitions: %+v %q", c.repeat, f, k.Spread(*f))
		}
		if share := f.Share(); share != "90.4 % of the limit" {
			t.Errorf("share %q", share)
		}
	}
}

// Two machines count for more than emulated hosts, then repetitions, then
// messages, then the date; the order in which they are named does not matter.
func TestWhichRunDecides(t *testing.T) {
	dir := t.TempDir()
	var runs []*resultfile.Result
	for _, v := range []invented{
		{name: "a", messages: 1_000_000, repeat: 1, real: true},
		{name: "b", messages: 1_000_000, repeat: 6},
		{name: "c", messages: 10_000_000, repeat: 2},
		{name: "d", messages: 5_000_000, repeat: 2},
	} {
		v.rates = map[string]float64{"kafka-b50": 560_000}
		runs = append(runs, read(t, v.write(t, dir)))
	}
	for range 4 {
		var names string
		for _, f := range judgeRuns(t, runs...)["C2"].Checks[0].Findings {
			names += f.Run.Run.Name
		}
		if names != "abcd" {
			t.Errorf("order %s", names)
		}
		runs = append(runs[1:], runs[0])
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		relation          Relation
		value, tolerance  float64
		low, number, high float64
		want              Verdict
		why               string
	}{
		{AtLeast, 2, 0, 2, 3, 4, Holds, ""},
		{AtLeast, 2, 0, 1.9, 3, 4, InPart, "the interval does not tell"},
		{AtLeast, 2, 0, 1, 1.5, 1.9, Contradicted, ""},
		{MoreThan, 4, 0, 4, 5, 6, InPart, "the interval does not tell"},
		{MoreThan, 4, 0, 3, 3.5, 4, Contradicted, ""},
		{AtMost, 1, 0, 0, 0.5, 1, Holds, ""},
		{AtMost, 1, 0, 1.1, 2, 3, Contradicted, ""},
		{About, 100, 0.25, 75, 100, 125, Holds, ""},
		{About, 100, 0.25, 70, 100, 125, InPart, "the interval does not tell"},
		{About, 100, 0.25, 126, 250, 300, InPart, "reached and exceeded, 2.50 times the paper's number"},
		{About, 100, 0.25, 10, 20, 74, Contradicted, ""},
		{Exactly, 9, 0.01, 9, 9.001, 9.01, Holds, ""},
		{Exactly, 9, 0.01, 9.1, 9.2, 9.3, Contradicted, ""},
		{Exactly, 9, 0.01, 8, 8.1, 8.2, Contradicted, ""},
		{None, 0, 0, 0, 0, 0, Holds, ""},
		{None, 0, 0, 0, 0, 1, InPart, "the interval does not tell"},
		{None, 0, 0, 1, 1, 1, Contradicted, ""},
		{Some, 0, 0, 0.1, 1, 2, Holds, ""},
		{Some, 0, 0, 0, 1, 2, InPart, "the interval does not tell"},
		{Some, 0, 0, 0, 0, 0, Contradicted, ""},
	} {
		k := Check{Quantity: plots.MessageRate, Relation: c.relation, Value: c.value, Tolerance: c.tolerance}
		got, why := k.decide(Finding{Low: c.low, Number: c.number, High: c.high, Interval: true})
		if got != c.want || why != c.why {
			t.Errorf("%+v: %s %q", c, got, why)
		}
	}
	// Of what is better the less of it there is, less goes further.
	for _, c := range []struct {
		low, number, high float64
		want              Verdict
	}{{75, 100, 125, Holds}, {126, 250, 300, Contradicted}, {10, 20, 74, InPart}} {
		k := Check{Quantity: plots.DelayLoadMean, Relation: About, Value: 100, Tolerance: 0.25}
		if got, why := k.decide(Finding{Low: c.low, Number: c.number, High: c.high, Interval: true}); got != c.want {
			t.Errorf("%+v: %s %q", c, got, why)
		}
	}
	if _, why := (Check{Relation: AtLeast, Value: 2}).decide(Finding{Low: 1, High: 3}); why != "the repetitions do not agree" {
		t.Errorf("without an interval: %s", why)
	}
}
