package consumer

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kafkalab/kafka/registry"
)

// What the members of a group choose, each for itself, from the same registries: each
// partition of a topic that somebody is subscribed to has one owner, and one of another
// topic none, whatever mixture of lists and names the members are subscribed to.
func TestMembersChooseEachPartitionOnce(t *testing.T) {
	topics := []string{"a", "b", "ab", "c"}
	subscriptionOf := func(t *rapid.T) registry.Subscription {
		streams := rapid.IntRange(1, 3)
		var s registry.Subscription
		var err error
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			s, err = registry.Static(rapid.MapOfN(rapid.SampledFrom(topics), streams, 1, 4).Draw(t, "topics"))
		case 1:
			s, err = registry.WhiteList(rapid.SampledFrom([]string{"a.*", "a,c", ".*", "x"}).Draw(t, "white"), streams.Draw(t, "streams"))
		default:
			s, err = registry.BlackList(rapid.SampledFrom([]string{"a.*", "a,c", "x"}).Draw(t, "black"), streams.Draw(t, "streams"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		all := view{consumers: make(map[string]registry.Subscription), partitions: make(map[string][]registry.Partition)}
		for i := range rapid.IntRange(1, 6).Draw(t, "members") {
			all.consumers[fmt.Sprint("g_", i)] = subscriptionOf(t)
		}
		for _, topic := range topics {
			for b := range rapid.Int32Range(0, 3).Draw(t, "brokers of "+topic) {
				for p := range rapid.Int32Range(1, 12).Draw(t, "partitions") {
					all.partitions[topic] = append(all.partitions[topic], registry.Partition{Broker: b, Partition: p})
				}
			}
		}
		owners := make(map[TopicPartition]string)
		for id, subscription := range all.consumers {
			// A member reads the partitions of its own topics alone.
			v := view{consumers: all.consumers, partitions: make(map[string][]registry.Partition)}
			for topic, partitions := range all.partitions {
				if subscription.Matches(topic) {
					v.partitions[topic] = partitions
				}
			}
			g := &Group{id: id}
			for tp, thread := range g.choose(v) {
				if other, taken := owners[tp]; taken {
					t.Fatalf("%v is chosen by %s and by %s", tp, other, thread)
				}
				owners[tp] = thread
				if consumer, n, err := registry.ParseThreadID(thread); err != nil || consumer != id || n >= subscription.Streams(tp.Topic) {
					t.Fatalf("%s chose %v for %s", id, tp, thread)
				}
			}
		}
		for topic, partitions := range all.partitions {
			wanted := false
			for _, subscription := range all.consumers {
				wanted = wanted || subscription.Matches(topic)
			}
			for _, p := range partitions {
				if _, owned := owners[TopicPartition{topic, p}]; owned != wanted {
					t.Fatalf("%s %v: owned %v, wanted %v", topic, p, owned, wanted)
				}
			}
		}
	})
}

// The pauses between tries grow up to the one configured and are never longer:
// TestB12 and the doc of GroupConfig rely on it.
func TestBackoffIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "backoff"))
		tries := rapid.IntRange(1, 100).Draw(t, "tries")
		g := &Group{cfg: GroupConfig{RebalanceBackoff: longest, RebalanceTries: tries}}
		for try := 1; try <= tries; try++ {
			if d := g.backoff(try); d > longest || d < 0 {
				t.Fatalf("pause %v after try %d of %d, longest %v", d, try, tries, longest)
			}
		}
		if d := g.backoff(tries); d < longest/2 {
			t.Fatalf("pause %v after the last try, longest %v", d, longest)
		}
	})
}

// Triggers that come together make one rebalance, and one that comes while a
// rebalance is under way is not forgotten.
func TestTriggersCollapse(t *testing.T) {
	tr := newTriggers()
	for range 100 {
		tr.pull()
	}
	<-tr.wake
	taken := tr.take()
	select {
	case <-tr.wake:
		t.Error("a second rebalance for one burst")
	default:
	}
	if tr.overtaken(taken) {
		t.Error("overtaken by nothing")
	}
	if _, settled := tr.settle(taken); !settled {
		t.Error("not settled")
	}
	<-tr.calm()
	tr.pull()
	taken = tr.take()
	tr.pull()
	if !tr.overtaken(taken) {
		t.Error("not overtaken")
	}
	if _, settled := tr.settle(taken); settled {
		t.Error("settled over a trigger")
	}
	select {
	case <-tr.wake:
	default:
		t.Error("the trigger is forgotten")
	}
	select {
	case <-tr.calm():
		t.Error("calm while there is a trigger")
	default:
	}
}
