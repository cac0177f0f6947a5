package paper

import (
	"fmt"
	"strings"

	"kafkalab/plots"
	"kafkalab/results/resultfile"
)

// environment says under what conditions a run took place, beside what its
// hosts are.
func environment(run resultfile.Run) string {
	var out []string
	t := run.Testbed
	if t.RAID10 {
		out = append(out, "The broker's data lay on a RAID 10 that was made for the run, of six files on one disk.")
	}
	out = append(out, limitsText(t.BrokerLimits))
	if t.HeldMemoryBytes > 0 {
		out = append(out, fmt.Sprintf("The broker host is a virtual machine with a balloon: its free memory (%s GiB at the beginning) was held and given up as others wanted it, so that its own host could not take it back.", plots.Rounded(float64(t.HeldMemoryBytes)/(1<<30))))
	}
	if t.HeldInPart {
		out = append(out, "The broker host's free memory was held for a part of the run's attempts only, so that rates of the others may spread more.")
	}
	if c := t.Clock; c != nil && c.Same {
		out = append(out, "Both hosts have one clock, so latencies from one to the other need no correction.")
	} else if c != nil {
		out = append(out, fmt.Sprintf("The broker host's clock stood %+.3f ms from the client host's, at most %.3f ms wrong; latencies from one to the other are corrected by that.", 1e3*c.OffsetSeconds, 1e3*c.ErrorSeconds))
	}
	for _, c := range run.Ceilings {
		out = append(out, fmt.Sprintf("Without a system behind it, the testbed itself comes to %s messages/s (%s, payload of %s bytes).", plots.Rounded(c.MessagesPerSecond), c.Work, plots.Whole(int64(c.PayloadBytes))))
	}
	return strings.Join(out, " ")
}

func limitsText(l *resultfile.Limits) string {
	switch {
	case l == nil:
		return "Cores and memory of the brokers were not held."
	case l.Cores == "" && l.MemoryBytes == 0:
		return "Cores and memory of the brokers were not held: " + l.Note + "."
	}
	s := "Every broker was held to"
	if l.Cores != "" {
		s += " the cores " + l.Cores
	}
	if l.MemoryBytes > 0 {
		if l.Cores != "" {
			s += " and"
		}
		s += fmt.Sprintf(" %s MB of memory, page cache included", plots.Rounded(float64(l.MemoryBytes)/1e6))
	}
	if l.Note != "" {
		s += " (" + l.Note + ")"
	}
	return s + "."
}
