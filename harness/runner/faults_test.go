package runner

import (
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

// A server that stalls, dies, blocks, or lies about its count (fault B21), and
// every other fault: it is the outcome of its own system, with a reason, and what was
// measured of it is kept; the sound system beside it is measured all the same.
func TestB21WhatTheServerDoesNotHaveDoesNotCount(t *testing.T) {
	const produce, consume = "send-x-1", "receive-x-1"
	for _, c := range []struct {
		fault            string
		produce, consume resultfile.Outcome
		reason           string // of the attempt that tells it
		in               string
	}{
		{"not-installed", resultfile.NotInstalled, resultfile.NotInstalled, "no package has it", produce},
		{"no-start", resultfile.Failed, resultfile.Failed, "port 1 is in use", produce},
		{"hang-start", resultfile.Failed, resultfile.Failed, "took no requests within 5s of its start (what it logged is kept in logs/send-x-1)", produce},
		{"death", resultfile.Failed, resultfile.Failed, "the server ended by itself; its log is in logs/send-x-1 (in the phase measure)", produce},
		{"death-told", resultfile.Failed, resultfile.Failed, "the server ended by itself; its log is in logs/send-x-1 (in the phase measure)", produce},
		{"death-consuming", resultfile.Invalid, resultfile.Failed, "the server ended by itself; its log is in logs/send-x-1 (in the phase measure)", consume},
		{"stuck", resultfile.Invalid, resultfile.Invalid, "of 20000 messages sent, 19000 never arrived: the server's count stood at 1000", produce},
		{"surplus", resultfile.Invalid, resultfile.Invalid, "the server counts 20001 messages, but 20000 were sent", produce},
		{"damaged", resultfile.Invalid, resultfile.Invalid, "1 damaged", consume},
		{"lost", resultfile.Invalid, resultfile.Invalid, "1 lost", consume},
		{"doubled", resultfile.Invalid, resultfile.Invalid, "1 doubled", produce},
		{"reordered", resultfile.Invalid, resultfile.Invalid, "1 reordered", produce},
		{"send-error", resultfile.Failed, resultfile.Failed, "sending message 1000: connection reset", produce},
		{"send-hang", resultfile.Failed, resultfile.Failed, "nothing moved any more for 3s", produce},
		{"receive-error", resultfile.Invalid, resultfile.Failed, "connection reset", consume},
		{"exit", resultfile.Failed, resultfile.Failed, "the client ended without a result: out of memory\ntestbed client on client: exit status 3", produce},
		{"stubborn", resultfile.Failed, resultfile.Failed, "the client gave up and could say no more: nothing moved any more", produce},
		{"blocked", resultfile.Invalid, resultfile.Invalid, "blocked by the broker: low on disk", produce},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := newPlan(t, 20_000,
				scenarioOf("send", resultfile.Produce, system("x", c.fault), system("sound", "none")),
				scenarioOf("receive", resultfile.Consume, system("x", c.fault), system("sound", "none")))
			if c.fault == "hang-start" {
				p.Start = 5 * time.Second // the other system has to start within it, too
			}
			if err := Run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			r := read(t, p)
			if got := attemptOf(t, r, produce); got.Outcome != c.produce {
				t.Errorf("%s: %s, want %s", produce, got.Outcome, c.produce)
			}
			if got := attemptOf(t, r, consume); got.Outcome != c.consume {
				t.Errorf("%s: %s, want %s", consume, got.Outcome, c.consume)
			}
			if got := attemptOf(t, r, c.in).Reason; !strings.Contains(got, c.reason) {
				t.Errorf("%s: reason %q, want %q in it", c.in, got, c.reason)
			}
			if got := attemptOf(t, r, c.in).Reason; c.fault == "blocked" && got != c.reason {
				t.Errorf("%s: reason %q, want %q alone: of every connection once", c.in, got, c.reason)
			}
			if strings.HasPrefix(c.fault, "send-") || c.fault == "death" {
				if a := attemptOf(t, r, produce); a.ClientMessages != 1000 || len(r.Points(produce)) == 0 {
					t.Errorf("what was measured is not kept: %+v, %d points", a, len(r.Points(produce)))
				}
			}
			for _, id := range []string{"send-sound-1", "receive-sound-1"} {
				if got := attemptOf(t, r, id); got.Outcome != resultfile.Valid {
					t.Errorf("%s: %s %s", id, got.Outcome, got.Reason)
				}
			}
			nothingLeft(t, p)
		})
	}
}
