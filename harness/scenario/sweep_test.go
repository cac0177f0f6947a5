package scenario

import (
	"fmt"
	"strings"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

const sweepHead = `
name = "a"
title = "A"
purpose = "to test"
work = "produce"
limit = "none"
chart = "sweep"
axis = { label = "messages a request", log = true }
`

const sweepSystem = `
[[system]]
id = "x"
label = "X of %s"
driver = "null"
expected_rate = 1000
stored_bytes = 209
options = { batch = 7, mode = "m" }
`

func selected(t *testing.T, text string) (Selection, []System) {
	t.Helper()
	sel, err := library("a", text).Select([]string{"a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sel, sel.Scenarios[0].Systems
}

func TestSweepMakesASystemOfEachValue(t *testing.T) {
	_, systems := selected(t, sweepHead+sweepSystem+`sweep = { key = "options.batch", values = [1, 50] }`)
	if len(systems) != 2 {
		t.Fatalf("%d systems, want 2", len(systems))
	}
	for i, want := range []System{
		{ID: "x-1", Label: "X of 1", X: 1, Options: driver.Options{"batch": "1", "mode": "m"}},
		{ID: "x-50", Label: "X of 50", X: 50, Options: driver.Options{"batch": "50", "mode": "m"}},
	} {
		got := systems[i]
		if got.ID != want.ID || got.Label != want.Label || got.X != want.X || got.Series != "x" || got.StoredBytes != 209 ||
			got.Options["batch"] != want.Options["batch"] || got.Options["mode"] != "m" || len(got.Options) != 2 {
			t.Errorf("system %d: %+v, want %+v", i, got, want)
		}
	}
}

// x is a factor, so that the axis has a unit that people read.
func TestSweepInAnotherUnit(t *testing.T) {
	_, systems := selected(t, sweepHead+sweepSystem+"x = 0.0000001\nseries = \"An X\"\n"+`sweep = { key = "bytes", values = [1_000_000, 3_000_000] }`)
	if got := systems[1]; got.ID != "x-3000000" || got.X != 0.3 || got.Label != "X of 0.3" || got.Series != "An X" || got.Messages != 15_000 {
		t.Errorf("%+v: want 3,000,000 bytes of payload as 15,000 messages, at 0.3", got)
	}
}

// What is expected follows the size of payload: a disk that is large enough for
// the messages must not be refused, nor one that is too small be taken.
func TestSweepOfPayloadsExpectsOtherSizes(t *testing.T) {
	sel, systems := selected(t, sweepHead+sweepSystem+"bytes = 200_000\n"+`sweep = { key = "payload_bytes", values = [10, 200, 1_000_000] }`)
	for i, want := range []System{
		{PayloadBytes: 10, Messages: 20_000, StoredBytes: 19, ExpectedRate: 4000},
		{PayloadBytes: 200, Messages: 1000, StoredBytes: 209, ExpectedRate: 1000},
		{PayloadBytes: 1_000_000, Messages: 1, StoredBytes: 1_000_009, ExpectedRate: 1},
	} {
		got := systems[i]
		if sel.Scenarios[0].PayloadOf(got) != want.PayloadBytes || got.Messages != want.Messages || got.StoredBytes != want.StoredBytes || got.ExpectedRate != want.ExpectedRate {
			t.Errorf("system %d: %+v, want %+v", i, got, want)
		}
	}
}

func TestLabelsAreForPeople(t *testing.T) {
	for v, want := range map[float64]string{1: "1", 0.05: "0.05", 999: "999", 1000: "1,000", 1234567.5: "1,234,567.5"} {
		if got := grouped(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

// A run of another size than the file states brings all amounts to its size.
func TestAmountsFollowTheSizeOfTheRun(t *testing.T) {
	text := strings.Replace(sweepHead, `work = "produce"`, `work = "consume"`, 1) + "messages = 1_000_000\n" + sweepSystem +
		`sweep = { key = "fill_messages", values = [1, 4_000_000] }`
	sel, systems := selected(t, text)
	s := sel.Scenarios[0]
	for _, run := range []struct{ messages, measured, small, large int64 }{{1_000_000, 1_000_000, 1, 4_000_000}, {1000, 1000, 1, 4000}, {2_000_000, 2_000_000, 2, 8_000_000}} {
		sel.Messages = run.messages
		if m, a, b := sel.MessagesOf(s, systems[0]), sel.FillOf(s, systems[0]), sel.FillOf(s, systems[1]); m != run.measured || a != run.small || b != run.large {
			t.Errorf("a run of %d: %d messages, filled with %d and %d; want %+v", run.messages, m, a, b, run)
		}
	}
}

func TestSweepRefuses(t *testing.T) {
	for _, c := range []struct{ sweep, want string }{
		{`sweep = { key = "label", values = [1] }`, `key = "label": one of bytes, consumers`},
		{`sweep = { key = "bytes", values = [] }`, "values is empty"},
		{`sweep = { key = "bytes", values = [0] }`, "value 0: more than 0 is wanted"},
		{`sweep = { key = "payload_bytes", values = [9] }`, "payload_bytes = 9: from 10 to"},
		{`sweep = { key = "consumers", values = [2] }`, "consumers = 2"},
		{`sweep = { key = "bytes", values = [1, 1] }`, "there are two of that id"},
	} {
		_, err := library("a", sweepHead+sweepSystem+c.sweep).Select([]string{"a"}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.sweep, err, c.want)
		}
	}
	plain := strings.Replace(sweepSystem, " of %s", "", 1) + `sweep = { key = "bytes", values = [1] }`
	if _, err := library("a", sweepHead+plain).Select([]string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "%s, is wanted") {
		t.Errorf("a label without the value's place: %v", err)
	}
}

func TestChartsAreChecked(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`chart = "sweep"`, `chart = "pie"`, `chart = "pie"`},
		{`chart = "sweep"`, `chart = "bars"`, "axis"},
		{`axis = { label = "messages a request", log = true }`, ``, "axis"},
		{`limit = "none"`, "limit = \"none\"\nseconds = 3.0", "seconds = 3"},
	} {
		text := strings.Replace(sweepHead, c.old, c.new, 1) + sweepSystem
		if _, err := library("a", text).Select([]string{"a"}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.new, err, c.want)
		}
	}
	sel, _ := selected(t, sweepHead+"shows = [\"message rate\"]\n"+sweepSystem)
	if r := sel.Scenarios[0].Result(); r.Chart != resultfile.Sweep || r.Axis == nil || r.Axis.Label != "messages a request" || !r.Axis.Log || len(r.Shows) != 1 {
		t.Errorf("the result's scenario: %+v", r)
	}
}

// What a scenario can say of producers, of consumers beside them, of the broker's
// cores and of the link, and what it cannot.
func TestTogetherAndLinkKeys(t *testing.T) {
	const head = "name = \"s\"\ntitle = \"t\"\npurpose = \"p\"\nwork = %q\nlimit = \"l\"\n%s\n[[system]]\nid = \"x\"\nlabel = \"X %%s\"\ndriver = \"d\"\nexpected_rate = 1\nstored_bytes = 1\n%s\n"
	load := func(work, top, system string) (file, error) {
		return parse("s.toml", fmt.Appendf(nil, head, work, top, system))
	}
	f, err := load("produce", "link = \"unshaped\"", "producers = 4\nfill_messages = 10\nbeside = 3\nsweep = { key = \"cores\", values = [1, 2, 8] }")
	if err != nil {
		t.Fatal(err)
	}
	s := f.scenario()
	if !s.Unshaped || len(s.Systems) != 3 {
		t.Fatalf("%+v", s)
	}
	if y := s.Systems[1]; y.ID != "x-2" || y.Cores != 2 || y.X != 2 || y.Producers != 4 || y.Beside != 3 {
		t.Errorf("%+v", y)
	}
	if y := s.Result().Systems[2]; y.Cores != 8 || y.Producers != 4 || y.Beside != 3 {
		t.Errorf("%+v", y)
	}
	f, err = load("produce", "", "sweep = { key = \"producers\", values = [1, 200] }")
	if err != nil {
		t.Fatal(err)
	}
	if s := f.scenario(); s.Unshaped || s.Systems[0].Producers != 1 || s.Systems[1].Producers != 200 || s.Result().Systems[0].Producers != 0 {
		t.Errorf("%+v", s)
	}
	for want, text := range map[string][3]string{
		"link = \"fast\"":  {"produce", "link = \"fast\"", ""},
		"producers = 2":    {"consume", "", "producers = 2"},
		"producers = 2000": {"produce", "", "producers = 2000"},
		"beside = 1":       {"produce", "", "beside = 1"},
		"beside = 2":       {"consume", "", "beside = 2\nfill_messages = 5"},
		"cores = -1":       {"produce", "", "cores = -1"},
	} {
		if _, err := load(text[0], text[1], text[2]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Systems that want more cores than there are, are left out with a note; what the
// selection was made of stays as it was.
func TestWithinCores(t *testing.T) {
	sel := Selection{Notes: []string{"before"}, Scenarios: []Scenario{
		{Name: "a", Systems: []System{{ID: "one", Cores: 1}, {ID: "four", Cores: 4}, {ID: "any"}}},
		{Name: "b", Systems: []System{{ID: "eight", Cores: 8}}},
	}}
	got := sel.WithinCores(2)
	if len(got.Scenarios) != 1 || len(got.Scenarios[0].Systems) != 2 || got.Scenarios[0].Systems[1].ID != "any" {
		t.Errorf("%+v", got.Scenarios)
	}
	if len(got.Notes) != 3 || !strings.Contains(got.Notes[1], "four") || !strings.Contains(got.Notes[2], "eight") {
		t.Errorf("%q", got.Notes)
	}
	if len(sel.Scenarios) != 2 || len(sel.Scenarios[0].Systems) != 3 || len(sel.Notes) != 1 {
		t.Errorf("%+v", sel)
	}
}
