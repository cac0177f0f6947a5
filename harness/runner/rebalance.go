package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

// rebalanceGroup has the consumers of a group join and leave while messages are
// sent, and puts on record how the group settles and what it repeats.
func (r *run) rebalanceGroup(ctx context.Context, g group) error {
	return r.single(ctx, g, func(s *session, t *trial) {
		s.client(ctx, t, s.rebalanceSpec(t))
	}, r.decideRebalance)
}

// rebalanceSpec says what the client has to do that runs a group.
func (s *session) rebalanceSpec(t *trial) Spec {
	spec := s.spec(t)
	spec.Work, spec.Measured = resultfile.Rebalance, true
	spec.Messages = s.Selection.MessagesOf(t.scenario, t.system)
	spec.Group = &GroupSpec{Consumers: t.system.Consumers, Seed: s.Seed + int64(t.attempt.Repetition)}
	return spec
}

// decideRebalance settles the outcome. Repeats are what was to be found out;
// a message that was lost or damaged is a fault.
func (r *run) decideRebalance(t *trial) {
	at := &t.attempt
	at.Outcome, at.Reason = t.alone()
	if t.result == nil || t.result.Group == nil {
		return
	}
	g := t.result.Group
	at.Lost, at.Doubled, at.Damaged = g.Lost, g.RepeatsClean+g.RepeatsUnclean, g.Damaged
	at.Verified = at.Outcome == resultfile.Valid
	t.measure("rebalance_partitions", float64(g.Partitions))
	if len(g.Settles) > 0 {
		t.measure("settle_median_seconds", median(g.Settles))
		t.measure("settle_max_seconds", slices.Max(g.Settles))
	}
	if len(g.Tries) > 0 {
		t.measure("tries_max", float64(slices.Max(g.Tries)))
	}
	if len(g.KillSettles) > 0 {
		t.measure("settle_after_kill_seconds", slices.Max(g.KillSettles))
	}
	if g.QuietSeconds > 0 {
		// What is left is coordination; proofs are heartbeats like ZooKeeper's pings.
		t.measure("quiet_requests_per_second", float64(g.QuietRequests-g.QuietCommits-g.QuietProofs)/g.QuietSeconds)
		t.measure("quiet_commits_per_second", float64(g.QuietCommits)/g.QuietSeconds)
		t.measure("quiet_proofs_per_second", float64(g.QuietProofs)/g.QuietSeconds)
	}
	switch {
	case at.Outcome != resultfile.Valid:
	case g.Exhausted:
		at.Notes = append(at.Notes, fmt.Sprintf("all of %d messages were sent before a consumer was killed: what comes twice was not found out; state more messages", g.Sent))
	default:
		t.measure("repeats_clean", float64(g.RepeatsClean))
		t.measure("repeats_unclean", float64(g.RepeatsUnclean))
		t.measure("repeats_bound", float64(g.Uncommitted))
	}
	if g.Lost > 0 || g.Damaged > 0 {
		t.degrade(resultfile.Invalid, "contents: of %d messages sent, %d reached no consumer of the group, and %d came damaged", g.Sent, g.Lost, g.Damaged)
	}
}

// median is the one in the middle, of an even number the mean of both.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// GroupSpec is what a client is told that runs a group of consumers.
type GroupSpec struct {
	Consumers int   `json:"consumers"`
	Seed      int64 `json:"seed"`
}

// rebalance has the driver run the group.
func (c *client) rebalance(ctx context.Context) error {
	grouper, ok := c.driver.(driver.Grouper)
	if !ok {
		return fmt.Errorf("%s has no groups of consumers that share partitions", c.driver.Name())
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	recorder, err := c.newRecorder()
	if err != nil {
		return err
	}
	if err := c.phase(ctx, Measure); err != nil {
		return err
	}
	processor, children := processorSeconds(), childrenSeconds()
	recorder.Start()
	consumed := int64(0)
	result, err := grouper.Rebalance(ctx, c.spec.Target, c.spec.Options, driver.RebalancePlan{
		RunID: c.spec.RunID, PayloadBytes: c.spec.PayloadBytes, Messages: c.spec.Messages,
		Consumers: c.spec.Group.Consumers, Seed: c.spec.Group.Seed,
		Helper: []string{program, "client", "--helper", c.driver.Name()}, Stall: c.spec.Stall,
		Moved: func(n int64) {
			recorder.Add(n - consumed)
			recorder.Arrived(n)
			consumed = n
			c.moved.Add(1)
		},
	})
	end := recorder.Stop()
	c.result.CPUSeconds = processorSeconds() - processor + childrenSeconds() - children
	c.result.Group = &result
	c.result.Sent, c.result.ClientSeconds = result.Sent, end.Seconds
	c.result.Messages, c.result.Seconds = result.Consumed, end.Seconds
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	return c.phase(ctx, Verify)
}

// childrenSeconds is what the processes that this one has started, and that
// have ended, have used.
func childrenSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0 // cannot be: the arguments are right
	}
	return seconds(u.Utime) + seconds(u.Stime)
}
