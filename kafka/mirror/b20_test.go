package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/message"
	"kafkalab/kafka/mirror"
	"kafkalab/kafka/wire"
)

// produceMeanwhile appends messages to each partition until stop is called, which
// returns how many each has then.
func (c *cluster) produceMeanwhile(topic string, from, size int) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	next := from
	var producing sync.WaitGroup
	producing.Go(func() {
		conns := make([]*client.Conn, len(c.brokers))
		for i, b := range c.brokers {
			conn, err := client.Dial(ctx, b.HostPort(), client.Config{})
			if err != nil {
				c.Error(err)
				return
			}
			defer conn.Close()
			conns[i] = conn
		}
		const each = 10
		for ctx.Err() == nil {
			for i, b := range c.brokers {
				for p := range c.partitions {
					var set []byte
					for n := range each {
						set = message.Append(set, payload(topic, b.Config.ID, p, next+n, size))
					}
					if _, err := conns[i].AckedProduce(context.Background(), topic, int32(p), set, wire.AcksFlushed, time.Minute); err != nil {
						c.Error(err)
						return
					}
				}
			}
			next += each
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() int {
		cancel()
		producing.Wait()
		return next
	}
}

// watchCommits compares, until stop is called, each offset that is committed with what
// the target holds at that moment, and fails the test if a committed message is not
// there. Messages are all of one size, and appended from the first on, so an offset
// tells how many messages come before it.
func watchCommits(t *testing.T, live *cluster, target *cluster, topic string, size int) (stop func() (looks int)) {
	var ended atomic.Bool
	var watching sync.WaitGroup
	looks := 0
	watching.Go(func() {
		for !ended.Load() {
			offsets, err := live.nodes.Offsets(context.Background(), group, topic)
			if errors.Is(err, coord.ErrClosed) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			have := map[string]int{}
			for name, list := range target.arrived(topic) {
				for _, m := range list {
					have[name] = max(have[name], m.number+1)
				}
			}
			for p, offset := range offsets {
				name := fmt.Sprintf("%s %v", topic, p)
				committed := int(offset) / (message.Overhead0 + size)
				if committed > have[name] {
					t.Errorf("%s: %d messages are committed, and the target has %d", name, committed, have[name])
				}
				if committed > 0 {
					looks++
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() int {
		ended.Store(true)
		watching.Wait()
		return looks
	}
}

// TestB20FlushedBeforeGivenUp: the target is slow, so that much is on its way, and a
// second mirror joins under load. What the first gives up is flushed before, only what
// is flushed is committed, and nothing comes twice (fault B20).
func TestB20FlushedBeforeGivenUp(t *testing.T) {
	t.Parallel()
	const size = 400
	live := newCluster(t, 1, 4)
	target := newSlowTarget(t, 4)
	target.proxy.setDelay(150 * time.Millisecond)
	stopProducing := live.produceMeanwhile("t", 0, size)
	first := openMirror(t, target.cluster, []*cluster{live}, nil)
	stopWatching := watchCommits(t, live, target.cluster, "t", size)
	await(t, "a stream of messages", func() bool { return first.Stats().Messages > 500 })
	second := openMirror(t, target.cluster, []*cluster{live}, nil)
	await(t, "the second to have its share", func() bool {
		return second.Stats().Partitions == 2 && first.Stats().Partitions == 2 && second.Stats().Messages > 200
	})
	// It leaves again, under load.
	closeMirror(t, second)
	await(t, "the first to have all again", func() bool { return first.Stats().Partitions == 4 })
	n := stopProducing()
	target.awaitArrived("t", 4*n)
	if looks := stopWatching(); looks == 0 {
		t.Error("no commit was seen")
	}
	live.awaitCommitted("t")
	a := target.arrived("t")
	a.check(t, 4, n)
	if d := a.doubled(); d > 0 {
		t.Errorf("%d messages are doubled, though no mirror was killed", d)
	}
	if st := first.Stats(); st.RepeatedMessages > 0 || st.CommitFailures > 0 {
		t.Errorf("the first mirror's counts are %+v", st)
	}
}

// TestB20Killed: two mirrors in processes of their own, a slow target, and one of them is
// killed with signal 9. The target has every message, and what is doubled of a partition
// is less than one fetch (fault B20).
func TestB20Killed(t *testing.T) {
	t.Parallel()
	const (
		size  = 400
		fetch = 64 << 10
	)
	live := newCluster(t, 1, 4)
	target := newSlowTarget(t, 4)
	target.proxy.setDelay(50 * time.Millisecond)
	stopProducing := live.produceMeanwhile("t", 0, size)
	cfg := workerConfig{
		Sources: []string{live.zk.Direct()}, Target: target.zk.Direct(), Group: group, WhiteList: "t",
		FetchBytes: fetch, Session: 3 * time.Second, // longer than a busy machine keeps one from proving it
	}
	victim := startWorker(t, cfg)
	stopWatching := watchCommits(t, live, target.cluster, "t", size)
	target.awaitArrived("t", 200)
	other := startWorker(t, cfg)
	await(t, "both to own partitions", func() bool {
		owners, err := live.nodes.Owners(testContext(t), group, "t")
		if err != nil {
			t.Fatal(err)
		}
		threads := map[string]bool{}
		for _, o := range owners {
			threads[o] = true
		}
		return len(owners) == 4 && len(threads) == 2
	})
	before := target.arrived("t").distinct()
	target.awaitArrived("t", before+400)
	victim.kill()
	before = target.arrived("t").distinct()
	target.awaitArrived("t", before+2000)
	n := stopProducing()
	target.awaitArrived("t", 4*n)
	live.awaitCommitted("t")
	stopWatching()
	other.stop()
	a := target.arrived("t")
	a.check(t, 4, n)
	checkDoubled(t, a, 1, fetch)
	t.Logf("%d messages, %d of them doubled by the kill", 4*n, a.doubled())
}

// TestSessionLost: a mirror that has lost ZooKeeper, and does not know it yet, sends
// nothing into the work of the one that has taken its partitions over.
func TestSessionLost(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 2), newCluster(t, 1, 2)
	line := live.zk.NewLine()
	stopProducing := live.produceMeanwhile("t", 0, 200)
	short := func(servers string) func(*mirror.Config) {
		return func(c *mirror.Config) {
			c.Sources[0] = coord.Config{Servers: servers, SessionTimeout: time.Second}
		}
	}
	openMirror(t, replica, []*cluster{live}, short(line.Connect()))
	replica.awaitArrived("t", 200)
	line.Cut()
	second := openMirror(t, replica, []*cluster{live}, short(live.zk.Direct()))
	await(t, "the second to own all", func() bool { return second.Stats().Partitions == 2 })
	before := replica.arrived("t").distinct()
	replica.awaitArrived("t", before+200)
	line.Mend()
	await(t, "the first to have its share again", func() bool { return second.Stats().Partitions == 1 })
	n := stopProducing()
	replica.awaitArrived("t", 2*n).check(t, 2, n)
	a := replica.arrived("t")
	checkDoubled(t, a, 1, mirror.DefaultFetchBytes)
}
