package mirror_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/mirror"
)

// kills is how often TestKilledAtEveryStep kills a mirror; KAFKALAB_KILLS overrides it.
const kills = 6

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(variable)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestKilledAtEveryStep: a mirror is killed with signal 9 before it writes a set, in the
// middle of writing, behind it, between data and offsets, and around the commit, over
// and over, under load. Every message is in the target at least once, in order, and what
// each kill has doubled of a partition is less than one fetch. The audit says the same.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	const (
		fetch      = 32 << 10
		size       = 500
		aRound     = 300 // messages of each partition: some 150 KB
		partitions = 2
	)
	rounds := int(number(t, "KAFKALAB_KILLS", kills))
	seed := number(t, "KAFKALAB_SEED", uint64(time.Now().UnixNano()))
	t.Logf("KAFKALAB_SEED=%d KAFKALAB_KILLS=%d", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 7))
	live, replica := newCluster(t, 1, partitions), newCluster(t, 1, partitions)
	cfg := workerConfig{
		Sources: []string{live.zk.Direct()}, Target: replica.zk.Direct(), Group: group, WhiteList: "t|" + auditedTopic + "|" + audit.DefaultTopic,
		FetchBytes: fetch, Session: time.Second,
	}
	audited := newAuditedMessages(t, live)
	steps := mirror.Steps()
	sent := 0
	for round := range rounds {
		live.produce("t", sent, aRound, size)
		sent += aRound
		audited.publish(t, aRound, size)
		c := cfg
		c.DieAt, c.DieAfter = steps[round%len(steps)], 1+rng.Int64N(8)
		if round%len(steps) >= 4 {
			c.DieAfter = 1 + rng.Int64N(3) // there are fewer commits
		}
		startWorker(t, c).awaitKilled()
		if round%20 != rounds%20 {
			continue // to look at the whole log each time would take most of it
		}
		checkDoubled(t, replica.arrived("t"), round+1, fetch)
		t.Logf("killed %d times", round+1)
	}
	last := startWorker(t, cfg)
	replica.awaitArrived("t", sent*partitions)
	for _, topic := range []string{"t", auditedTopic, audit.DefaultTopic} {
		live.awaitCommitted(topic)
	}
	last.stop()
	audited.check(t, live, replica)
	a := replica.arrived("t")
	a.check(t, partitions, sent)
	checkDoubled(t, a, rounds, fetch)
	t.Logf("killed %d times: %d messages, %d of them doubled", rounds, sent*partitions, a.doubled())
}

// checkDoubled fails the test if so many kills have doubled more than one fetch each.
func checkDoubled(t *testing.T, a arrivals, kills, fetch int) {
	t.Helper()
	for name := range a {
		if n := a.doubledBytes(name); n > kills*(fetch-1) {
			t.Errorf("%s: %d bytes are doubled after %d kills, with fetches of %d", name, n, kills, fetch)
		}
	}
}
