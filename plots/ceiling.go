package plots

import (
	"fmt"
	"strings"

	"kafkalab/results/resultfile"
)

// harnessFactor is how far a system must stay below what the client half does
// without a system: one that is closer may be as fast as the harness, and not
// slower than it.
const harnessFactor = 2

// harnessBound is the mark of a system that is closer than that.
const harnessBound = "harness-bound"

// ceilingOf is the rate of the null driver for the work and the payloads of a
// system, in messages a second; 0: it was not measured. A crash sends as a
// produce does, and so does a stream; the consumers of a group and the front ends
// of a pipeline are processes of their own.
func ceilingOf(run resultfile.Run, s resultfile.Scenario, y resultfile.System) float64 {
	work := s.Work
	if work == resultfile.Rebalance || work == resultfile.Pipeline {
		return 0
	}
	if work != resultfile.Consume {
		work = resultfile.Produce
	}
	payload, rate := payloadOf(s, y.ID), 0.0
	for _, c := range run.Ceilings {
		if c.PayloadBytes == payload && (c.Work == s.Work || c.Work == work) && c.MessagesPerSecond > 0 {
			rate = c.MessagesPerSecond
			if c.Work == s.Work {
				break
			}
		}
	}
	return rate
}

// ofCeiling is the share of the harness's own rate that a system reaches, and
// whether that marks it; 0: not known.
func ofCeiling(run resultfile.Run, s resultfile.Scenario, y resultfile.System, messagesPerSecond float64) (share float64, bound bool) {
	ceiling := ceilingOf(run, s, y)
	if ceiling <= 0 {
		return 0, false
	}
	share = messagesPerSecond / ceiling
	return share, share*harnessFactor > 1
}

// ceilingLine says what the harness itself can do with the payloads of the
// systems shown, and which of them come too near to it; "" if it was not
// measured.
func ceilingLine(r *resultfile.Result, s resultfile.Scenario, shown func(resultfile.System) bool) string {
	var payloads []int
	ceilings := make(map[int]float64)
	var marked []resultfile.System
	measured := false
	for _, y := range s.Systems {
		ceiling := ceilingOf(r.Run, s, y)
		if !shown(y) || ceiling == 0 {
			continue
		}
		payload := payloadOf(s, y.ID)
		if ceilings[payload] == 0 {
			payloads = append(payloads, payload)
		}
		ceilings[payload] = ceiling
		rates := ratesOf(validAttempts(r, s, y))
		measured = measured || rates.N > 0
		if _, bound := ofCeiling(r.Run, s, y, rates.Median); bound && rates.N > 0 && y.Role != resultfile.RoleLimit {
			marked = append(marked, y)
		}
	}
	if len(payloads) == 0 {
		return ""
	}
	var parts []string
	for _, p := range payloads {
		parts = append(parts, fmt.Sprintf("%s messages/s of %s bytes", number(roundTo3(ceilings[p])), number(float64(p))))
	}
	line := "The harness alone, without a system, does " + strings.Join(parts, ", ")
	switch {
	case !measured:
		return line + "."
	case len(marked) == 0 && s.Work == resultfile.Stream:
		return "" // planned rates are far below it
	case len(marked) == 0:
		return line + "; every system is further below it than a factor of two."
	}
	return fmt.Sprintf("%s. Closer to that than a factor of two, and so %s: %s.", line, harnessBound, listed(s, marked, func([]resultfile.System) string { return "" }))
}
