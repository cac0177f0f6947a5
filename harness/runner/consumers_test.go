package runner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// Several consumers at once each get everything: of one log, or of a queue each.
func TestSeveralConsumers(t *testing.T) {
	t.Parallel()
	log, queues := system("log", "none"), system("queues", "none", "kind", "queues")
	log.Consumers, queues.Consumers = 4, 3
	p := newPlan(t, 20_000, filled("fan", log, queues))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	for id, all := range map[string]int64{"fan-log-1": 80_000, "fan-queues-1": 60_000} {
		a := attemptOf(t, r, id)
		if a.Outcome != resultfile.Valid || !a.Verified || a.Messages != all || a.PayloadBytes != all*200 || a.Measures["fill_messages"] != 20_000 {
			t.Errorf("%+v", a)
		}
		slowest, fastest := a.Measures["consumer_slowest_rate"], a.Measures["consumer_fastest_rate"]
		if slowest <= 0 || fastest < slowest || slowest < 20_000/a.Seconds*0.999 {
			t.Errorf("%s: consumers at %v to %v messages/s; all were done after %v s", id, slowest, fastest, a.Seconds)
		}
		if points := r.Points(id); points[len(points)-1].Messages != all {
			t.Errorf("%s: last point %+v", id, points[len(points)-1])
		}
	}
	nothingLeft(t, p)
}

func TestSeveralConsumersFail(t *testing.T) {
	for _, c := range []struct {
		fault, kind string
		outcome     resultfile.Outcome
		reason      string
	}{
		{"none", "bare", resultfile.Failed, "filling the broker: standin has no way for one message to reach 3 consumers"},
		{"half", "queues", resultfile.Failed, "of 2000 messages sent, 0 had arrived in bench-3: nothing moved any more for 1s"},
		{"lost", "queues", resultfile.Invalid, "consumer 1 of 3: of 1999 messages received: 1 lost"},
		{"receive-error", "log", resultfile.Failed, "of 3: connection reset"},
		{"death-consuming", "log", resultfile.Failed, "the server ended by itself"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			x := system("x", c.fault, "kind", c.kind)
			x.Consumers = 3
			p := newPlan(t, 2_000, filled("fan", x))
			if strings.Contains(c.reason, "for 1s") || c.outcome == resultfile.Invalid {
				p.Stall = time.Second // it is waited for
			}
			if err := Run(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			a := attemptOf(t, read(t, p), "fan-x-1")
			if a.Outcome != c.outcome || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("%s, reason %q; want %s, %q", a.Outcome, a.Reason, c.outcome, c.reason)
			}
			if _, told := a.Measures["consumer_slowest_rate"]; told && c.outcome == resultfile.Failed {
				t.Errorf("measures %v of a consume that failed", a.Measures)
			}
			nothingLeft(t, p)
		})
	}
}

// With a cap what is left is consumed unmeasured, by each of them.
func TestSeveralConsumersAreHeld(t *testing.T) {
	t.Parallel()
	x := system("x", "slow")
	x.Consumers, x.WarmUp, x.FillMessages = 2, 0, 8_000
	x.FillOptions = driver.Options{"fault": "none"}
	p := newPlan(t, 8_000, filled("fan", x))
	p.Selection.Cap = 300 * time.Millisecond
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	a := attemptOf(t, read(t, p), "fan-x-1")
	if a.Outcome != resultfile.Valid || a.Messages == 0 || a.Messages >= 16_000 {
		t.Errorf("%+v", a)
	}
	if !slices.ContainsFunc(a.Notes, func(n string) bool {
		return strings.HasPrefix(n, "held to 300ms") && strings.Contains(n, "of 16000 messages were consumed")
	}) {
		t.Errorf("notes %q", a.Notes)
	}
}
