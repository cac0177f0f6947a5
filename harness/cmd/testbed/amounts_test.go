package main

import (
	"testing"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

func TestAmounts(t *testing.T) {
	s := scenario.Scenario{Work: resultfile.Consume, PayloadBytes: 200, BaseMessages: 1000}
	sel := scenario.Selection{Messages: 2000}
	for _, c := range []struct {
		system scenario.System
		want   string
	}{
		{scenario.System{Consumers: 1, PayloadBytes: 200}, ""},
		{scenario.System{Messages: 5000, PayloadBytes: 10, Consumers: 1}, "10,000 messages; payloads of 10 bytes"},
		{scenario.System{FillMessages: 3000, Consumers: 4, Before: []string{scenario.BeforeRestart, scenario.BeforeDropCache}},
			"6,000 messages stored before; 4 consumers, each of all messages; before it restart, drop-cache"},
	} {
		if got := amounts(sel, s, c.system); got != c.want {
			t.Errorf("%+v: %q, want %q", c.system, got, c.want)
		}
	}
}
