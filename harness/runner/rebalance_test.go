package runner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// gatherer is the null driver with groups that do nothing but say what the
// option "outcome" wants.
type gatherer struct{ optioned }

func (gatherer) Name() string { return "gatherer" }

func (gatherer) Rebalance(_ context.Context, _ driver.Target, o driver.Options, plan driver.RebalancePlan) (driver.RebalanceResult, error) {
	plan.Moved(60)
	plan.Moved(100)
	r := driver.RebalanceResult{
		Partitions: 12, Settles: []float64{0.1, 0.4, 0.3, 0.2}, Tries: []int{1, 3, 2, 1}, KillSettles: []float64{7},
		QuietRequests: 33, QuietCommits: 10, QuietProofs: 20, QuietSeconds: 10,
		Sent: plan.Messages, Consumed: plan.Messages + 5, RepeatsUnclean: 5, Uncommitted: 9,
	}
	switch o["outcome"] {
	case "lost":
		r.Lost = 3
	case "exhausted":
		r.RepeatsUnclean, r.Uncommitted, r.Exhausted = 0, 0, true
	case "error":
		return r, errors.New("consumer 2 does not come up")
	}
	if len(plan.Helper) != 4 || plan.Helper[3] != "gatherer" || plan.Consumers != 4 {
		return r, errors.New("the plan is not as it was asked for")
	}
	return r, nil
}

func TestRebalance(t *testing.T) {
	p := newPlan(t, 100, outcomesOf("groups", resultfile.Rebalance, "gatherer", scenario.System{Consumers: 4}, "good", "exhausted", "lost", "error"))
	if err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r := read(t, p)
	good := attemptOf(t, r, "groups-good-1")
	if good.Outcome != resultfile.Valid || good.Messages != 105 || good.Doubled != 5 || good.Lost != 0 || !good.Verified {
		t.Errorf("%+v", good)
	}
	for name, want := range map[string]float64{
		"rebalance_partitions": 12, "settle_median_seconds": 0.25, "settle_max_seconds": 0.4, "settle_after_kill_seconds": 7, "tries_max": 3,
		"quiet_requests_per_second": 0.3, "quiet_commits_per_second": 1, "quiet_proofs_per_second": 2,
		"repeats_clean": 0, "repeats_unclean": 5, "repeats_bound": 9,
	} {
		if got, ok := good.Measures[name]; !ok || got != want {
			t.Errorf("%s = %v (%v), want %v", name, got, ok, want)
		}
	}
	// Where nothing was sent any more, nothing can have come twice.
	exhausted := attemptOf(t, r, "groups-exhausted-1")
	if _, ok := exhausted.Measures["repeats_unclean"]; ok || exhausted.Outcome != resultfile.Valid || !strings.Contains(strings.Join(exhausted.Notes, "\n"), "before a consumer was killed") {
		t.Errorf("%+v", exhausted)
	}
	for id, want := range map[string]struct {
		outcome resultfile.Outcome
		reason  string
	}{
		"lost":  {resultfile.Invalid, "3 reached no consumer"},
		"error": {resultfile.Failed, "consumer 2 does not come up"},
		"none":  {resultfile.Failed, "no groups of consumers"},
	} {
		if a := attemptOf(t, r, "groups-"+id+"-1"); a.Outcome != want.outcome || !strings.Contains(a.Reason, want.reason) {
			t.Errorf("%s: %s %q, want %s with %q", id, a.Outcome, a.Reason, want.outcome, want.reason)
		}
	}
}
