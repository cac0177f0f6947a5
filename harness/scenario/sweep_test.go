package scenario

import (
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
