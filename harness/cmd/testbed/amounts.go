package main

import (
	"fmt"
	"strings"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// amounts says what a system sends or receives otherwise than the run as a
// whole; "" if nothing.
func amounts(sel scenario.Selection, s scenario.Scenario, sys scenario.System) string {
	var said []string
	if sys.Messages > 0 {
		said = append(said, counted(sel.MessagesOf(s, sys), "message"))
	}
	if sys.PayloadBytes > 0 && sys.PayloadBytes != s.PayloadBytes {
		said = append(said, "payloads of "+counted(int64(sys.PayloadBytes), "byte"))
	}
	if sys.FillMessages > 0 {
		said = append(said, counted(sel.FillOf(s, sys), "message")+" stored before")
	}
	if sys.Consumers > 1 && s.Work == resultfile.Consume {
		said = append(said, fmt.Sprintf("%d consumers, each of all messages", sys.Consumers))
	}
	if sys.Producers > 1 {
		said = append(said, fmt.Sprintf("%d producers, which share them", sys.Producers))
	}
	if sys.Beside > 0 {
		said = append(said, counted(int64(sys.Beside), "consumer")+" meanwhile, of what was stored before")
	}
	if sys.Cores > 0 {
		said = append(said, "a broker of "+counted(int64(sys.Cores), "core"))
	}
	if len(sys.Before) > 0 {
		said = append(said, "before it "+strings.Join(sys.Before, ", "))
	}
	return strings.Join(said, "; ")
}
