package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

func TestCeilingPrintsBothWorksOfEachSize(t *testing.T) {
	var out strings.Builder
	if err := runCeiling(t.Context(), []string{"--payload-bytes", "10,200", "--time", "20ms", "--dir", t.TempDir()}, stdio{Out: &out, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	var all []resultfile.Ceiling
	if err := json.Unmarshal([]byte(out.String()), &all); err != nil || len(all) != 4 {
		t.Fatalf("%s: %v, want four", out.String(), err)
	}
	for i, want := range []resultfile.Ceiling{{Work: "produce", PayloadBytes: 10}, {Work: "consume", PayloadBytes: 10}, {Work: "produce", PayloadBytes: 200}, {Work: "consume", PayloadBytes: 200}} {
		got := all[i]
		if got.MessagesPerSecond <= 0 {
			t.Errorf("%+v", got)
		}
		got.MessagesPerSecond = 0
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, args := range []string{"--payload-bytes 9", "--payload-bytes x", "--time 0s", "--time 1h", "now"} {
		if err := runCeiling(t.Context(), strings.Fields(args), stdio{Out: io.Discard, Err: io.Discard}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestClockAnswersUntilItsInputEnds(t *testing.T) {
	var out strings.Builder
	before := time.Now()
	if err := runClock(t.Context(), nil, stdio{In: strings.NewReader("\n\n"), Out: &out}); err != nil {
		t.Fatal(err)
	}
	answers := strings.Fields(out.String())
	if len(answers) != 2 {
		t.Fatalf("answers %q, want two", out.String())
	}
	for _, a := range answers {
		n, err := strconv.ParseInt(a, 10, 64)
		if at := time.Unix(0, n); err != nil || at.Before(before.Round(0)) || at.After(time.Now()) {
			t.Errorf("answer %q: %v, want the time", a, err)
		}
	}
}

func TestHowClocksAreTold(t *testing.T) {
	for _, c := range []struct {
		clock resultfile.Clock
		want  string
	}{
		{resultfile.Clock{Same: true}, "one machine with client, one clock"},
		{resultfile.Clock{OffsetSeconds: 0.0125, ErrorSeconds: 0.0005}, "12.500 ms ahead of that of client, within 0.500 ms; samples are shifted to the client host's clock"},
		{resultfile.Clock{OffsetSeconds: -2, ErrorSeconds: 0.001}, "2000.000 ms behind that of client, within 1.000 ms; samples are shifted to the client host's clock"},
	} {
		if got := clockText(c.clock, "client"); got != c.want {
			t.Errorf("%+v is told as %q, want %q", c.clock, got, c.want)
		}
	}
}

func TestPayloadSizesOfARun(t *testing.T) {
	sel := scenario.Selection{Scenarios: []scenario.Scenario{
		{Work: resultfile.Produce, PayloadBytes: 200, Systems: []scenario.System{{}, {PayloadBytes: 1000}, {PayloadBytes: 10}}},
		{Work: resultfile.Consume, PayloadBytes: 200, Systems: []scenario.System{{}}},
		{Work: resultfile.Rebalance, PayloadBytes: 50, Systems: []scenario.System{{}}},
	}}
	if got := payloadSizes(sel); got != "10,200,1000" {
		t.Errorf("payloads of %s, want 10, 200 and 1000", got)
	}
}

// What a system of its own size was asked for is kept in the size of the run.
func TestSystemsAreDescribedInTheSizeOfTheRun(t *testing.T) {
	s := scenario.Scenario{Work: resultfile.Consume, BaseMessages: 1000}
	sel := scenario.Selection{Messages: 500}
	for _, c := range []struct {
		sys  scenario.System
		want resultfile.System
	}{
		{scenario.System{}, resultfile.System{FillMessages: 500}},
		{scenario.System{Messages: 100}, resultfile.System{Messages: 50, FillMessages: 50}},
		{scenario.System{Messages: 100, FillMessages: 4000}, resultfile.System{Messages: 50, FillMessages: 2000}},
	} {
		got := resultfile.System{Messages: c.sys.Messages, FillMessages: c.sys.FillMessages}
		inSize(&got, sel, s, c.sys)
		if got.Messages != c.want.Messages || got.FillMessages != c.want.FillMessages {
			t.Errorf("%+v: %d messages and %d filled, want %d and %d", c.sys, got.Messages, got.FillMessages, c.want.Messages, c.want.FillMessages)
		}
	}
}
