package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

func names(groups []group) []string {
	var all []string
	for _, g := range groups {
		name := fmt.Sprintf("%d:%s", g.repetition, g.main.system.ID)
		if g.consume != nil {
			name += "+" + g.consume.system.ID
		}
		all = append(all, name)
	}
	return all
}

// The order is shuffled in each repetition, and a function of the seed.
func TestOrder(t *testing.T) {
	var systems []scenario.System
	for i := range 8 {
		systems = append(systems, system(fmt.Sprint("s", i), "none"))
	}
	plan := func(seed int64) []string {
		p := Plan{Seed: seed, Selection: scenario.Selection{Repeat: 3, Scenarios: []scenario.Scenario{
			scenarioOf("send", resultfile.Produce, systems...),
			scenarioOf("receive", resultfile.Consume, systems[:2]...),
		}}}
		g, err := p.groups()
		if err != nil {
			t.Fatal(err)
		}
		return names(g)
	}
	one, again, other := plan(1), plan(1), plan(2)
	if !slices.Equal(one, again) {
		t.Errorf("one seed, two orders: %v, %v", one, again)
	}
	if slices.Equal(one, other) {
		t.Errorf("two seeds, one order: %v", one)
	}
	if len(one) != 24 || !slices.Contains(one, "3:s1+s1") || !slices.Contains(one, "2:s7") {
		t.Errorf("groups %v", one)
	}
	cut := func(all []string) (ids []string) {
		for _, n := range all {
			ids = append(ids, n[2:])
		}
		return ids
	}
	if slices.Equal(cut(one[:8]), cut(one[8:16])) {
		t.Errorf("the second repetition has the order of the first: %v", one)
	}
}

func TestOneBacklogIsConsumedOnce(t *testing.T) {
	y := system("y", "none")
	y.Backlog = "x"
	p := Plan{Selection: scenario.Selection{Repeat: 1, Scenarios: []scenario.Scenario{
		scenarioOf("send", resultfile.Produce, system("x", "none")),
		scenarioOf("receive", resultfile.Consume, system("x", "none"), y),
	}}}
	if _, err := p.groups(); err == nil || !strings.Contains(err.Error(), "consume the same backlog") {
		t.Errorf("error %v", err)
	}
}

// fullHost has hardly any space left.
type fullHost struct {
	host.Host
	free int64
}

func (h fullHost) FreeBytes(context.Context, string) (int64, error) { return h.free, nil }

func TestCheck(t *testing.T) {
	p := newPlan(t, 10_000_000, scenarioOf("send", resultfile.Produce, system("x", "none")))
	p.Broker = fullHost{p.Broker, 3_200_000_000}
	err := p.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "3.2 GB free, but x needs 2.3 GB") || !strings.Contains(err.Error(), "--messages") {
		t.Errorf("error %v", err)
	}
	p.Selection.Messages = 1_000_000
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("with fewer messages: %v", err)
	}
	p.Selection.Scenarios[0].Systems[0].Options["fault"] = "fire"
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `send, system x: option fault = "fire"`) {
		t.Errorf("error %v", err)
	}
	p.Selection.Scenarios[0].Systems[0].Options["fault"] = "not-installed"
	if err := p.Check(t.Context()); err != nil {
		t.Errorf("a system that is not installed keeps the others from running: %v", err)
	}
}

// What needs no host is found without one.
func TestCheckOptions(t *testing.T) {
	p := newPlan(t, 10, scenarioOf("send", resultfile.Produce, system("x", "none")))
	p.Broker = nil
	if err := p.CheckOptions(t.Context()); err != nil {
		t.Error(err)
	}
	p.Selection.Scenarios[0].Systems[0].Options["fault"] = "fire"
	if err := p.CheckOptions(t.Context()); err == nil || !strings.Contains(err.Error(), `send, system x: option fault = "fire"`) {
		t.Errorf("error %v", err)
	}
	var h host.Host = noHost{}
	if _, err := host.Missing(t.Context(), h, "anything"); !errors.Is(err, errNoHost) {
		t.Errorf("error %v", err)
	}
}

func TestEstimate(t *testing.T) {
	slow := system("slow", "none")
	slow.ExpectedRate, slow.WarmUp = 1000, 0
	p := newPlan(t, 100_000, scenarioOf("send", resultfile.Produce, slow))
	p.Selection.Cap = 20 * time.Second
	p.Selection.Repeat = 3
	d, err := p.Estimate()
	if err != nil {
		t.Fatal(err)
	}
	// Held to 20 s of sending, and as long to consume it, three times.
	if want := 3 * (40*time.Second + startStop); d != want {
		t.Errorf("estimate %v, want %v", d, want)
	}
	p.StartStop, p.Remote = map[string]time.Duration{slow.Driver: time.Second}, true
	if d, err = p.Estimate(); err != nil || d != 3*(41*time.Second+remoteTime) {
		t.Errorf("over ssh, with a time of the driver's own: %v, %v", d, err)
	}
}

func TestLines(t *testing.T) {
	var got []string
	w := &lines{handle: func(line []byte) error { got = append(got, string(line)); return nil }}
	for _, part := range []string{"a", "b\nc", "\n\nlonger line", " of parts\nrest"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%q: %d, %v", part, n, err)
		}
	}
	if want := []string{"ab", "c", "", "longer line of parts"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	if _, err := w.Write(make([]byte, maxLineBytes)); err == nil {
		t.Error("a line without end was taken")
	}
}

// The client refuses what no runner would send, before it does anything.
func TestClientRefusesBadSpecs(t *testing.T) {
	for spec, want := range map[string]string{
		"":                   "no specification",
		"{":                  "specification: ",
		`{"driver":"null"}`:  `work ""`,
		`{"work":"produce"}`: "queue \"\", 0 messages",
		`{"work":"produce","driver":"none","queue":"q","messages":1,"stall_ns":1}`:                                          `no system named "none"`,
		`{"work":"produce","driver":"null","queue":"q","messages":1,"stall_ns":1,"warm_up_messages":1,"warm_up_queue":"q"}`: `warm-up queue "q"`,
	} {
		var out strings.Builder
		err := RunClient(t.Context(), strings.NewReader(spec+"\n"), &out, drivers())
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: error %v, output %q, want %s", spec, err, out.String(), want)
		}
	}
}

// A client whose input ends knows that the testbed is gone, and ends.
func TestClientEndsWithItsRunner(t *testing.T) {
	dir := t.TempDir()
	spec := fmt.Sprintf(`{"driver":"null","target":{"addr":"x","extra":{"dir":%q}},"work":"produce","queue":"q","payload_bytes":200,"messages":10,"stall_ns":60000000000}`+"\n", dir)
	var out strings.Builder
	if err := RunClient(t.Context(), strings.NewReader(spec), &out, drivers()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), errRunnerGone.Error()) {
		t.Errorf("output %s", out.String())
	}
}

// What is stored before the measuring counts for time and space, and is held to
// the cap only where its size is not what the scenario asks about.
func TestEstimateOfFills(t *testing.T) {
	x := system("x", "none")
	x.ExpectedRate, x.WarmUp, x.Consumers = 1000, 0, 3
	x.Before = []string{scenario.BeforeRestart, scenario.BeforeDropCache}
	p := newPlan(t, 100_000, filled("cold", x))
	p.Selection.Cap = 20 * time.Second
	sys := &p.Selection.Scenarios[0].Systems[0]
	check := func(what string, seconds int, stored int64) {
		t.Helper()
		groups, err := p.groups()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.estimate(groups[0]), time.Duration(seconds)*time.Second+startStop+restartTime+dropTime; got != want {
			t.Errorf("%s: estimate %v, want %v", what, got, want)
		}
		if got, want := p.storedBytes(groups[0]), stored*209*11/10; got != want {
			t.Errorf("%s: %d bytes stored, want %d", what, got, want)
		}
	}
	check("held", 20+3*20, 80_000)
	sys.FillMessages = 50_000
	check("stated", 50+3*50, 50_000)
	sys.Capped = true
	check("stated, and capped", 20+3*20, 50_000)
	p.Selection.Cap = 0
	sys.Cap, sys.Consumers = 10*time.Second, 1
	check("capped in a run without a cap", 10+10, 40_000)
}

// The need of the largest run that can be asked for is not reckoned past the
// end of a number, behind which it would seem to fit.
func TestSpaceForTheMostMessages(t *testing.T) {
	x := system("x", "none")
	x.StoredBytes = 1 << 32
	p := newPlan(t, scenario.MaxMessages, scenarioOf("large", resultfile.Produce, x))
	p.Selection.Cap = 0
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ask for fewer messages") {
		t.Errorf("error %v", err)
	}
}

// A warm-up is at a rate of its own, where it has one, and takes nothing of what
// the cap allows.
func TestEstimateOfWarmUps(t *testing.T) {
	x := system("x", "none")
	x.ExpectedRate, x.WarmUp = 1000, 50_000
	p := newPlan(t, 100_000, scenarioOf("send", resultfile.Produce, x))
	p.Selection.Cap = 20 * time.Second
	for rate, warmUp := range map[int64]time.Duration{0: 100 * time.Second, 10_000: 10 * time.Second} {
		p.Selection.Scenarios[0].Systems[0].WarmUpRate = rate
		if d, err := p.Estimate(); err != nil || d != warmUp+40*time.Second+startStop {
			t.Errorf("warm-up at %d messages/s: estimate %v, error %v", rate, d, err)
		}
	}
}

func TestCheckWarmUpOptions(t *testing.T) {
	x := system("x", "none")
	x.WarmUpOptions = map[string]string{"fault": "fire"}
	p := newPlan(t, 1000, scenarioOf("send", resultfile.Produce, x))
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `send, system x: warm_up_options: option fault = "fire"`) {
		t.Errorf("error %v", err)
	}
}

func TestCheckFillOptions(t *testing.T) {
	x := system("x", "none")
	x.FillOptions = map[string]string{"fault": "fire"}
	p := newPlan(t, 1000, filled("cold", x))
	if err := p.Check(t.Context()); err == nil || !strings.Contains(err.Error(), `cold, system x: fill_options: option fault = "fire"`) {
		t.Errorf("error %v", err)
	}
}
