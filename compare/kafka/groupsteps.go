package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kafkalab/kafka/registry"
)

// join has one more consumer join, and waits until the group has settled. Its
// process is there before the time is taken.
func (g *groupRun) join(ctx context.Context) error {
	number := g.numbers
	g.numbers++
	m, err := startMember(ctx, number, g.plan.Helper, memberSpec{
		ZooKeeper: g.zooKeeper, Group: groupName, Topic: groupTopic, ID: fmt.Sprintf("c%d", number), RunID: g.plan.RunID,
		Session: g.opts.cluster.session, CommitInterval: g.opts.cluster.commitInterval, FetchBytes: g.opts.fetchBytes,
	}, func(h handedOut) { g.ledger.add(h, g.plan.Messages) }, g.cancel)
	if err != nil {
		return err
	}
	g.members = append(g.members, m)
	return g.change(ctx, "consumer "+m.id+" joined", func() error {
		_, err := m.ask(ctx, cmdJoin)
		return err
	})
}

// leave has a consumer leave cleanly, and waits until the group has settled.
func (g *groupRun) leave(ctx context.Context, i int) error {
	m := g.members[i]
	err := g.change(ctx, "consumer "+m.id+" left", func() error {
		_, err := m.ask(ctx, cmdLeave)
		m.left = true
		g.members = slices.Delete(g.members, i, i+1)
		return err
	})
	if m.left {
		m.end()
	}
	return err
}

// change makes a change and keeps how long the group takes until it has
// settled, and how many tries of a rebalance the busiest consumer needs.
func (g *groupRun) change(ctx context.Context, what string, do func() error) error {
	before, err := g.stats(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	took, err := g.settled(ctx, began)
	if err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	after, err := g.stats(ctx)
	if err != nil {
		return err
	}
	tries := int64(0)
	for number, st := range after {
		tries = max(tries, st.Tries-before[number].Tries)
	}
	g.result.Settles = append(g.result.Settles, took.Seconds())
	g.result.Tries = append(g.result.Tries, int(tries))
	return nil
}

// kill ends a consumer with SIGKILL. Its partitions are others' once its
// session has ended. What it had been handed and had not committed may come
// again.
func (g *groupRun) kill(ctx context.Context, i int) error {
	m := g.members[i]
	g.members = slices.Delete(g.members, i, i+1)
	g.killed[m.number] = true
	began := time.Now()
	m.kill()
	committed, err := g.registry.Offsets(ctx, groupName, groupTopic)
	if err != nil {
		return fmt.Errorf("offsets of the killed consumer: %w", err)
	}
	g.result.Uncommitted += g.ledger.uncommitted(m.number, committed)
	took, err := g.settled(ctx, began)
	if err != nil {
		return fmt.Errorf("after consumer %s was killed: %w", m.id, err)
	}
	g.result.KillSettles = append(g.result.KillSettles, took.Seconds())
	return nil
}

// quiet counts what the consumers ask of ZooKeeper while nothing changes and
// messages come.
func (g *groupRun) quiet(ctx context.Context) error {
	before, err := g.stats(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if !sleep(ctx, g.opts.cluster.quiet) {
		return context.Cause(ctx)
	}
	after, err := g.stats(ctx)
	if err != nil {
		return err
	}
	r := &g.result
	r.QuietSeconds += time.Since(began).Seconds()
	for number, st := range after {
		r.QuietRequests += st.Requests - before[number].Requests
		r.QuietCommits += st.Commits - before[number].Commits
		r.QuietProofs += st.Proofs - before[number].Proofs
	}
	return nil
}

// errExpired is the end of a measuring in which a session has ended that nobody
// ended: what came of it can be told from nothing else.
var errExpired = errors.New("its session with ZooKeeper has expired although nobody killed it: the machine is too busy for the option session-timeout")

// stats asks all consumers for their counters, by their numbers.
func (g *groupRun) stats(ctx context.Context) (map[int]memberStats, error) {
	all := make(map[int]memberStats, len(g.members))
	for _, m := range g.members {
		e, err := m.ask(ctx, cmdStats)
		if err != nil {
			return nil, err
		}
		if e.Stats == nil {
			return nil, fmt.Errorf("consumer %s: %s: it says %+v", m.id, cmdStats, e)
		}
		if e.Stats.Sessions > 1 {
			return nil, fmt.Errorf("consumer %s: %w", m.id, errExpired)
		}
		all[m.number] = *e.Stats
	}
	return all, nil
}

// settled waits until every partition has an owner in the group, no two
// consumers differ by more than one partition, and that stays so. It returns
// the time until it had become so.
func (g *groupRun) settled(ctx context.Context, began time.Time) (took time.Duration, err error) {
	var since time.Time // when it had become so; zero: it is not
	err = g.await(ctx, settlePoll, func() (string, error) {
		looked := time.Now()
		why, err := g.unsettled(ctx)
		switch {
		case err != nil:
			return "", err
		case why != "":
			since = time.Time{}
			return why, errNotYet
		case since.IsZero():
			since = looked
		}
		return "it has not stayed settled", orNil(nil, looked.Sub(since) >= settleStays)
	})
	return since.Sub(began), err
}

// unsettled says what is not settled yet, "" for nothing.
func (g *groupRun) unsettled(ctx context.Context) (string, error) {
	owners, err := g.registry.Owners(ctx, groupName, groupTopic)
	if err != nil {
		return "", err
	}
	shares := make(map[string]int, len(g.members))
	for _, m := range g.members {
		shares[registry.ThreadID(groupName+"_"+m.id, 0)] = 0
	}
	for p, thread := range owners {
		if _, ours := shares[thread]; !ours {
			return fmt.Sprintf("partition %v is still owned by %s", p, thread), nil
		}
		shares[thread]++
	}
	if len(owners) < g.partitions {
		return fmt.Sprintf("%d of %d partitions have an owner", len(owners), g.partitions), nil
	}
	least, most := g.partitions, 0
	for _, n := range shares {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		return fmt.Sprintf("shares from %d to %d partitions", least, most), nil
	}
	return "", nil
}

// errNotYet says that something that is waited for is not so yet.
var errNotYet = errors.New("not yet")

// orNil returns err, or else whether what is waited for has come.
func orNil(err error, come bool) error {
	if err == nil && !come {
		return errNotYet
	}
	return err
}

// await looks again and again until look returns no error, for the time of a
// stall. Any error but errNotYet ends it.
func (g *groupRun) await(ctx context.Context, every time.Duration, look func() (why string, err error)) error {
	limit := time.Now().Add(g.plan.Stall)
	for {
		why, err := look()
		if !errors.Is(err, errNotYet) {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("for %v: %s", g.plan.Stall, why)
		}
		if !sleep(ctx, every) {
			return context.Cause(ctx)
		}
	}
}
