package plots

import (
	"fmt"
	"slices"

	"kafkalab/results/resultfile"
)

// attempts returns everything that was tried of a system in a scenario, in the
// order of the run's list, but for valid attempts that were made once more: of
// each repetition only the last valid one counts.
func attempts(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) []resultfile.Attempt {
	var out []resultfile.Attempt
	for _, a := range r.Run.Attempts {
		if a.Scenario != s.Name || a.System != y.ID {
			continue
		}
		if last, ok := r.Run.ValidAttempt(a.Scenario, a.System, a.Repetition); ok && a.Outcome == resultfile.Valid && a.ID != last.ID {
			continue
		}
		out = append(out, a)
	}
	return out
}

// validAttempts returns those that count.
func validAttempts(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) []resultfile.Attempt {
	return slices.DeleteFunc(attempts(r, s, y), func(a resultfile.Attempt) bool { return a.Outcome != resultfile.Valid })
}

// summaryOf summarises one quantity of attempts. Where ok is false the
// quantity was not measured.
func summaryOf(as []resultfile.Attempt, quantity func(resultfile.Attempt) (v float64, ok bool)) Summary {
	return Summarise(valuesOf(as, quantity))
}

func valuesOf(as []resultfile.Attempt, quantity func(resultfile.Attempt) (v float64, ok bool)) []float64 {
	var values []float64
	for _, a := range as {
		if v, ok := quantity(a); ok {
			values = append(values, v)
		}
	}
	return values
}

func ratesOf(as []resultfile.Attempt) Summary { return summaryOf(as, rate) }

// The quantities that are summarised. Messages and seconds are above 0 in
// every valid attempt.

func rate(a resultfile.Attempt) (float64, bool) { return a.MessagesPerSecond(), true }

func dataRate(a resultfile.Attempt) (float64, bool) {
	return float64(a.PayloadBytes) / a.Seconds, a.PayloadBytes > 0
}

// logRate is in bytes of the system's own message format a second.
func logRate(a resultfile.Attempt) (float64, bool) {
	return float64(a.StoredBytes) / a.Seconds, a.StoredBytes > 0
}

func clientRate(a resultfile.Attempt) (float64, bool) {
	if a.ClientSeconds <= 0 {
		return 0, false
	}
	return float64(a.ClientMessages) / a.ClientSeconds, true
}

// brokerMicros is the broker's processor time a message, in µs.
func brokerMicros(a resultfile.Attempt) (float64, bool) {
	return a.BrokerCPUSeconds * 1e6 / float64(a.Messages), a.BrokerCPUSeconds > 0
}

func clientMicros(a resultfile.Attempt) (float64, bool) {
	return a.ClientCPUSeconds * 1e6 / float64(a.Messages), a.ClientCPUSeconds > 0
}

// storeBytes is the disk space that the store grew by, per message. What was removed
// meanwhile was there before.
func storeBytes(a resultfile.Attempt) (float64, bool) {
	grown := float64(a.StoreBytesAfter-a.StoreBytesBefore) + a.Measures["store_removed_bytes"]
	return grown / float64(a.Messages), grown > 0
}

func residentBytes(a resultfile.Attempt) (float64, bool) {
	return float64(a.BrokerResidentBytes), a.BrokerResidentBytes > 0
}

// diskWrites is what the broker's processes wrote, while it was measured.
func diskWrites(a resultfile.Attempt) (float64, bool) { return float64(a.BrokerDiskWriteBytes), true }

// gcShare is the part of the broker's processor time that went to garbage
// collection.
func gcShare(a resultfile.Attempt) (float64, bool) {
	v, ok := a.Measures["broker_gc_seconds"]
	return v / a.BrokerCPUSeconds, ok && a.BrokerCPUSeconds > 0
}

func formatBytes(a resultfile.Attempt) (float64, bool) {
	return float64(a.StoredBytes) / float64(a.Messages), a.StoredBytes > 0
}

// payloadOf is the size of the payloads of a system, in bytes.
func payloadOf(s resultfile.Scenario, system string) int {
	for _, y := range s.Systems {
		if y.ID == system && y.PayloadBytes > 0 {
			return y.PayloadBytes
		}
	}
	return s.PayloadBytes
}

// whyAbsent says in a few words why a system has no valid attempt.
func whyAbsent(r *resultfile.Result, s resultfile.Scenario, y resultfile.System) string {
	as := attempts(r, s, y)
	if len(as) == 0 {
		return "not run"
	}
	last := as[len(as)-1]
	if last.Outcome == resultfile.NotInstalled {
		return string(last.Outcome)
	}
	return fmt.Sprintf("%s: %s", last.Outcome, last.Reason)
}
