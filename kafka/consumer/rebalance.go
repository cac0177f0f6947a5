package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// gatherTime is how long a rebalance waits for more triggers to come along: those
// of consumers that are started together make one.
const gatherTime = 20 * time.Millisecond

// maxRestarts is how often in a row a rebalance starts anew because it was
// overtaken; then it goes on, and the trigger gets one of its own.
const maxRestarts = 10

// errOvertaken says that something has changed since the registries were read.
var errOvertaken = errors.New("overtaken by a change")

// runRebalances rebalances whenever something has changed, and while something is
// amiss: giving up is never final.
func (g *Group) runRebalances() {
	var again <-chan time.Time
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.triggers.wake:
			if !sleep(g.life, gatherTime) {
				return
			}
		case <-again:
		}
		again = nil
		if !g.rebalance() {
			again = time.After(g.backoff(g.cfg.RebalanceTries))
		}
	}
}

// rebalance tries Algorithm 1 until it succeeds, or as often as is configured. A
// trigger that comes meanwhile starts it anew. It reports whether it has succeeded.
func (g *Group) rebalance() bool {
	tries := 0
	for try, restarts := 1, 0; ; {
		taken := g.triggers.take()
		err := g.attempt(g.life, taken, restarts < maxRestarts, try >= g.cfg.RebalanceTries)
		tries++
		g.count(func(st *GroupStats) { st.Tries++ })
		switch {
		case g.life.Err() != nil:
			return false
		case err == nil:
			g.settled(taken, tries)
			return true
		case errors.Is(err, errOvertaken):
			restarts++
			try = 1
			if !sleep(g.life, gatherTime) {
				return false
			}
			continue
		case try >= g.cfg.RebalanceTries:
			g.count(func(st *GroupStats) { st.Failed++ })
			g.log.Error("rebalance failed, it will be tried again", "tries", tries, "unowned", g.Stats().Unowned, "error", err)
			return false
		}
		g.log.Info("try of a rebalance failed", "try", try, "error", err)
		if g.awaitNextTry(try) {
			try++
		} else if try = 1; !sleep(g.life, gatherTime) {
			return false
		}
	}
}

// awaitNextTry waits after a failed try. It reports whether it has waited to the
// end: false says that there was a trigger, or Close.
func (g *Group) awaitNextTry(try int) bool {
	timer := time.NewTimer(g.backoff(try))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.triggers.wake:
	case <-g.life.Done():
	}
	return false
}

// backoff returns the pause after the nth try, from 1. Each is four times as long as
// the one before, and the one after the last is the longest: most conflicts are over
// as soon as the last owner has heard of the change. Chance cuts it by up to a half,
// so that members that stand in each other's way do not do so again and again.
func (g *Group) backoff(try int) time.Duration {
	longest := g.cfg.RebalanceBackoff >> (2 * max(g.cfg.RebalanceTries-try, 0))
	longest = max(longest, min(g.cfg.RebalanceBackoff, minPause))
	return longest/2 + rand.N(longest/2+1)
}

// minPause is what the first pauses are not shorter than, before chance.
const minPause = 50 * time.Millisecond

func (g *Group) settled(taken int64, tries int) {
	took, settled := g.triggers.settle(taken)
	g.count(func(st *GroupStats) {
		st.Rebalances++
		st.LastTries = tries
		if settled {
			st.LastSettle = took
		}
	})
	g.metrics.tries.Observe(float64(tries))
	if settled {
		g.metrics.settle.Observe(took.Seconds())
	}
	g.log.Info("rebalanced", "tries", tries, "owned", g.Stats().Owned, "took", took)
}

// attempt is Algorithm 1 of the paper (NetDB'11 §3.2) for all topics that this
// consumer is subscribed to. Its steps, and those of Kafka 0.7, are the same in
// another order: the registries are read first, so that a partition that stays
// where it is need not be given up. Its node is then what every member expects at
// each moment. Each step may be repeated, as the next attempt does.
//
//	readRegistries   "read the broker and the consumer registries"; P_T and C_T of each topic T
//	choose           "sort P_T and C_T", j, N, "assign partitions"
//	releaseOthers    "remove partitions owned by Ci from the ownership registry", those not chosen
//	claim            "set the owner of p to Ci in the ownership registry"
//	startFeeds       "let Op be the offset of p in the offset registry; invoke a thread to pull data"
func (g *Group) attempt(ctx context.Context, taken int64, restart, last bool) error {
	overtaken := func() bool { return restart && g.triggers.overtaken(taken) }
	s, err := g.join(ctx)
	if err != nil {
		return err
	}
	v, err := g.readRegistries(ctx, s)
	if err != nil {
		return err
	}
	want := g.choose(v)
	g.log.Debug("chosen", "brokers", len(v.brokers), "consumers", len(v.consumers), "topics", len(v.partitions), "partitions", len(want))
	if overtaken() {
		return errOvertaken
	}
	if err := g.releaseOthers(ctx, s, want, last); err != nil {
		return err
	}
	if overtaken() { // giving up may have taken long
		return errOvertaken
	}
	err = g.claim(ctx, s, want, last)
	return errors.Join(err, g.startFeeds(ctx, v))
}

// view is what a consumer has read of the registries.
type view struct {
	brokers    map[int32]registry.Broker
	consumers  map[string]registry.Subscription
	partitions map[string][]registry.Partition // of the topics subscribed to
}

// readRegistries reads who lives and what there is. What makes no sense is left out
// and logged: all members leave out the same.
func (g *Group) readRegistries(ctx context.Context, s *coord.Session) (view, error) {
	v := view{brokers: make(map[int32]registry.Broker), partitions: make(map[string][]registry.Partition)}
	brokers, err := g.registry.Brokers(ctx)
	if err := g.tolerate(err); err != nil {
		return v, err
	}
	for _, b := range brokers {
		v.brokers[b.ID] = b
	}
	v.consumers, err = g.registry.Consumers(ctx, g.cfg.Group)
	if err := g.tolerate(err); err != nil {
		return v, err
	}
	if _, registered := v.consumers[g.id]; !registered {
		// Somebody has deleted the node. The watch on the consumers tells of ours.
		if err := g.registry.RegisterConsumer(ctx, s, g.cfg.Group, g.id, g.subscription); err != nil {
			return v, err
		}
		g.log.Warn("registered again: the consumer's node was gone")
		return v, errOvertaken
	}
	topics := g.subscription.Topics()
	if g.subscription.Wildcard() {
		if topics, err = g.matchingTopics(ctx); err != nil {
			return v, err
		}
	}
	if err := g.member.watchTopics(ctx, g, topics); err != nil {
		return v, err
	}
	for _, topic := range topics {
		v.partitions[topic], err = g.registry.Partitions(ctx, topic)
		if err := g.tolerate(err); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (g *Group) matchingTopics(ctx context.Context) ([]string, error) {
	all, err := g.registry.Topics(ctx)
	if err := g.tolerate(err); err != nil {
		return nil, err
	}
	var topics []string
	for _, topic := range all {
		if g.subscription.Matches(topic) {
			topics = append(topics, topic)
		}
	}
	return topics, nil
}

// tolerate logs an error about nodes that make no sense, and returns others.
func (g *Group) tolerate(err error) error {
	var bad *registry.BadNodesError
	if errors.As(err, &bad) {
		g.log.Warn("left out of the registries", "error", bad)
		return nil
	}
	return err
}

// choose returns the partitions that are to be this consumer's, with their threads.
// What it returns is not changed any more.
func (g *Group) choose(v view) map[TopicPartition]string {
	want := make(map[TopicPartition]string)
	for topic, partitions := range v.partitions {
		var threads []string
		mine := make(map[string]bool)
		for id, subscription := range v.consumers {
			for n := range subscription.Streams(topic) {
				thread := threadID(id, n)
				threads = append(threads, thread)
				mine[thread] = mine[thread] || id == g.id
			}
		}
		for p, thread := range AssignRange(partitions, threads) {
			if mine[thread] {
				want[TopicPartition{Topic: topic, Partition: p}] = thread
			}
		}
	}
	g.mu.Lock()
	g.wanted = want
	g.mu.Unlock()
	return want
}
