package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// What the group that is measured consumes, and is called.
const (
	groupTopic = "bench"
	groupName  = "g"
)

// Times of the measuring of a group.
const (
	// settlePoll is the time between two looks at the owners, so the times until
	// a group has settled are known no closer than that. Each look costs
	// ZooKeeper a request for each partition.
	settlePoll = 10 * time.Millisecond
	// settleStays is how long a group must stay settled to count as settled.
	settleStays = 250 * time.Millisecond
	drainPoll   = 10 * time.Millisecond
	movedEvery  = 100 * time.Millisecond
	// exchanges is how many consumers leave and are replaced at most.
	exchanges = 3
)

// Rebalance has the consumers of a group join, one after the other, while
// messages are sent; counts what they ask of ZooKeeper while nothing changes;
// has some leave cleanly and others take their place, and one be killed; and
// has all leave but the last, which consumes what is left.
func (k kafka) Rebalance(ctx context.Context, target driver.Target, o driver.Options, plan driver.RebalancePlan) (driver.RebalanceResult, error) {
	opts, err := readOptions(o)
	zooKeeper := target.Extra[zooKeeperKey]
	switch {
	case err != nil:
		return driver.RebalanceResult{}, err
	case zooKeeper == "":
		return driver.RebalanceResult{}, errors.New("kafka: a group meets in ZooKeeper: give the option brokers = 2 or more")
	case plan.Consumers < 2 || len(plan.Helper) == 0 || plan.Stall <= 0 || plan.Messages <= 0:
		return driver.RebalanceResult{}, fmt.Errorf("kafka: group of %d consumers, %d messages, stall %v, helper %q: 2 or more consumers, messages, a time and a program are wanted",
			plan.Consumers, plan.Messages, plan.Stall, plan.Helper)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := &groupRun{
		opts: opts, plan: plan, zooKeeper: zooKeeper, cancel: cancel,
		ledger: newGroupLedger(), killed: map[int]bool{},
		rng: rand.New(rand.NewPCG(uint64(plan.Seed), uint64(plan.Consumers))),
	}
	err = g.run(ctx)
	if err != nil && context.Cause(ctx) != nil && !errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx) // what ended it, and not what that caused
	}
	g.conclude()
	return g.result, err
}

// groupRun is one measuring of a group.
type groupRun struct {
	opts      options
	plan      driver.RebalancePlan
	zooKeeper string
	cancel    context.CancelCauseFunc
	rng       *rand.Rand

	registry   *registry.Registry
	partitions int
	ledger     *groupLedger
	killed     map[int]bool // by the number of the consumer
	members    []*memberProcess
	numbers    int // given so far
	traffic    *traffic
	result     driver.RebalanceResult
}

func (g *groupRun) run(ctx context.Context) (err error) {
	zk, err := coord.Connect(ctx, coord.Config{Servers: g.zooKeeper, SessionTimeout: g.opts.cluster.session})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, zk.Close()) }()
	g.registry = registry.New(zk)
	if err := g.createTopic(ctx); err != nil {
		return fmt.Errorf("making the topic: %w", err)
	}
	stopTelling := g.tellMoved()
	defer stopTelling()
	defer g.endAll()
	t, err := startTraffic(ctx, g.zooKeeper, groupTopic, g.opts, g.plan.RunID, g.plan.PayloadBytes, g.plan.Messages, g.cancel)
	if err != nil {
		return fmt.Errorf("starting the producer: %w", err)
	}
	g.traffic = t
	err = g.steps(ctx)
	ending, cancel := context.WithTimeout(ctx, g.plan.Stall)
	defer cancel()
	sent, endErr := t.end(ending)
	g.result.Sent = sent
	if err = errors.Join(err, endErr); err != nil {
		return err
	}
	return g.drain(ctx, sent)
}

// createTopic makes the topic at every broker, and waits until all partitions
// are in the registry.
func (g *groupRun) createTopic(ctx context.Context) error {
	brokers, err := g.registry.Brokers(ctx)
	if err != nil {
		return err
	}
	if len(brokers) != g.opts.cluster.brokers {
		return fmt.Errorf("%d brokers are registered, not %d", len(brokers), g.opts.cluster.brokers)
	}
	for _, b := range brokers {
		if err := createTopicAt(ctx, b.Addr(), g.opts.cluster.partitions); err != nil {
			return fmt.Errorf("broker %d: %w", b.ID, err)
		}
	}
	g.partitions = len(brokers) * g.opts.cluster.partitions
	g.result.Partitions = g.partitions
	return g.await(ctx, settlePoll, func() (string, error) {
		found, err := g.registry.Partitions(ctx, groupTopic)
		return fmt.Sprintf("%d of %d partitions are registered", len(found), g.partitions), orNil(err, len(found) == g.partitions)
	})
}

func createTopicAt(ctx context.Context, addr string, partitions int) error {
	c, err := client.Dial(ctx, addr, client.Config{})
	if err != nil {
		return err
	}
	return errors.Join(c.CreateTopic(ctx, groupTopic, int32(partitions)), c.Close())
}

// steps are what happens in the group.
func (g *groupRun) steps(ctx context.Context) error {
	for range g.plan.Consumers {
		if err := g.join(ctx); err != nil {
			return err
		}
	}
	if err := g.quiet(ctx); err != nil {
		return err
	}
	for range min(exchanges, g.plan.Consumers-1) {
		if err := g.leave(ctx, g.rng.IntN(len(g.members))); err != nil {
			return err
		}
		if err := g.join(ctx); err != nil {
			return err
		}
	}
	// A rebalance commits: the one to be killed is given time to consume more.
	if since := g.opts.cluster.commitInterval; !sleep(ctx, since/4+time.Duration(g.rng.Int64N(int64(since)/2))) {
		return context.Cause(ctx)
	}
	g.result.Exhausted = g.traffic.sent.Load() >= g.plan.Messages
	if err := g.kill(ctx, g.rng.IntN(len(g.members))); err != nil {
		return err
	}
	for len(g.members) > 1 {
		if err := g.leave(ctx, g.rng.IntN(len(g.members))); err != nil {
			return err
		}
	}
	return nil
}

// drain waits until the last consumer has had everything, and has it leave.
func (g *groupRun) drain(ctx context.Context, sent int64) error {
	last := int64(-1)
	since := time.Now()
	for {
		consumed, distinct := g.ledger.counts()
		if distinct >= sent {
			break
		}
		if consumed != last {
			last, since = consumed, time.Now()
		}
		if time.Since(since) > g.plan.Stall {
			break // what has not come is lost
		}
		if !sleep(ctx, drainPoll) {
			return context.Cause(ctx)
		}
	}
	if _, err := g.stats(ctx); err != nil {
		return err
	}
	m := g.members[0]
	if _, err := m.ask(ctx, cmdLeave); err != nil {
		return err
	}
	m.left = true
	return nil
}

// conclude counts what there is to count at the end.
func (g *groupRun) conclude() {
	r := &g.result
	consumed, distinct := g.ledger.counts()
	r.Consumed, r.Lost, r.Damaged = consumed, max(r.Sent-distinct, 0), g.ledger.damaged
	r.RepeatsClean, r.RepeatsUnclean = g.ledger.repeats(g.killed)
}

// tellMoved tells how much has been consumed until the returned function is
// called.
func (g *groupRun) tellMoved() (stop func()) {
	if g.plan.Moved == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(movedEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-quit:
			}
			consumed, _ := g.ledger.counts()
			g.plan.Moved(consumed)
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	return func() { close(quit); <-done }
}

// endAll ends the processes that are left.
func (g *groupRun) endAll() {
	for _, m := range g.members {
		if m.left {
			m.end()
		} else {
			m.kill()
		}
	}
}

// sleep waits for a time, and says whether it has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
