package consumer_test

import (
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/zktest"
)

// recordDelay is how long after a message was handed out the ledger may have it.
const recordDelay = 100 * time.Millisecond

// silentBetween fails the test if a member handed out anything between two times.
func (g *groupTest) silentBetween(member string, from, to time.Time) {
	g.Helper()
	for _, p := range g.names() {
		log := g.ledger.of("t", p)
		if i := slices.IndexFunc(log, func(h handed) bool { return h.member == member && h.at.After(from) && h.at.Before(to) }); i >= 0 {
			g.Errorf("%v: %s handed out message %d without a lease, %v after it had ended", p, member, log[i].number, log[i].at.Sub(from))
		}
	}
}

// neverSkips fails the test if a message came before one that precedes it in its
// partition had come at all. Repetitions are fine.
func (g *groupTest) neverSkips() {
	g.Helper()
	for _, p := range g.names() {
		highest := -1
		for _, h := range g.ledger.of("t", p) {
			if h.number > highest+1 {
				g.Errorf("%v: message %d follows %d", p, h.number, highest)
			}
			highest = max(highest, h.number)
		}
	}
}

// A line that is silent but not broken: the member cannot know that its session has
// ended, yet hands out nothing once its lease is over, and so nothing while another
// member has its partitions.
func TestGroupLeaseEndsOnASilentLine(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		t.Parallel() // it waits for sessions to end
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		stop := g.produceMeanwhile("t", 10)
		settings := func(c *consumer.GroupConfig) { c.ZooKeeper.SessionTimeout = shortSession }
		a, b := g.join(settings), g.join(settings)
		g.awaitOwners("t", threads(a, b)...)
		frozen := time.Now()
		a.line.Freeze()
		g.awaitOwners("t", threads(b)...)
		taken := time.Now()
		await(t, "messages of all partitions to the other member", func() bool {
			for _, p := range g.names() {
				log := g.ledger.of("t", p)
				if len(log) == 0 {
					return false
				}
				if last := log[len(log)-1]; last.member != b.ID() || last.at.Before(taken) {
					return false
				}
			}
			return true
		})
		mended := time.Now()
		a.line.Mend()
		g.awaitOwners("t", threads(a, b)...)
		n := stop()
		g.awaitAll("t", n)
		g.silentBetween(a.ID(), frozen.Add(shortSession+recordDelay), mended)
		g.neverSkips()
	})
}

// While ZooKeeper itself is away members go on for as long as their lease lasts, then
// wait, and go on when it is back.
func TestGroupWaitsForZooKeeper(t *testing.T) {
	zktest.Each(t, func(t *testing.T, zk *zktest.Cluster) {
		t.Parallel() // it waits for sessions to end
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		stop := g.produceMeanwhile("t", 10)
		settings := func(c *consumer.GroupConfig) { c.ZooKeeper.SessionTimeout = shortSession }
		a, b := g.join(settings), g.join(settings)
		g.awaitOwners("t", threads(a, b)...)
		g.brokers[0].MayStopBadly = true // it may not be connected again when the test ends
		before := g.ledger.total()       // the stop may take longer than the lease
		zk.Stop()
		stopped := time.Now()
		await(t, "messages while the lease lasts", func() bool { return g.ledger.total() > before })
		time.Sleep(2 * shortSession) // how long it is away, not a wait for a state
		back := time.Now()
		zk.StartAgain()
		g.awaitOwners("t", threads(a, b)...)
		n := stop()
		g.awaitAll("t", n)
		for _, m := range []*groupMember{a, b} {
			g.silentBetween(m.ID(), stopped.Add(shortSession+recordDelay), back)
		}
		g.neverSkips()
	})
}
