package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/mirror"
	"kafkalab/kafka/wire"
)

// TestPaperR28ReplicaClusterOfSeveralLiveOnes: a cluster near Hadoop pulls from the live
// clusters. Two mirrors share the work, each message arrives once, and those of a
// partition in its order and in one place (NetDB'11 §4).
func TestPaperR28ReplicaClusterOfSeveralLiveOnes(t *testing.T) {
	t.Parallel()
	live := []*cluster{newCluster(t, 2, 2), newCluster(t, 1, 3)}
	replica := newCluster(t, 2, 2)
	// Topics of the two, so that payloads tell which it was: one has its own, and both
	// have "shared".
	live[0].produce("east", 0, 100, 200)
	live[1].produce("west", 0, 100, 200)
	first := openMirror(t, replica, live, nil)
	replica.awaitArrived("east", 400)
	second := openMirror(t, replica, live, nil)
	for from := 100; from < 1000; from += 100 {
		live[0].produce("east", from, 100, 200)
		live[1].produce("west", from, 100, 200)
	}
	replica.awaitArrived("east", 4000).check(t, 4, 1000)
	replica.awaitArrived("west", 3000).check(t, 3, 1000)
	for _, m := range []*mirror.Mirror{first, second} {
		await(t, "both mirrors to have a share", func() bool { return m.Stats().Partitions > 0 })
	}
	live[0].awaitCommitted("east")
	live[1].awaitCommitted("west")
	closeMirror(t, first)
	closeMirror(t, second)
	if n := replica.arrived("east").doubled() + replica.arrived("west").doubled(); n > 0 {
		t.Errorf("%d messages are there twice, though nothing has failed", n)
	}
	// What each source partition's messages are in is told by the arithmetic.
	for name, list := range replica.arrived("east") {
		var b, p int32
		if _, err := fmt.Sscanf(name, "east %d-%d", &b, &p); err != nil {
			t.Fatal(err)
		}
		if got := list[0].at; got.Broker != b || got.Partition != p {
			t.Errorf("%s is in partition %v of the target, which has brokers and partitions alike", name, got)
		}
	}
}

// TestPaperR28OneTopicOfTwoClusters: what two clusters have of one topic is one topic in
// the replica, and neither's order is lost.
func TestPaperR28OneTopicOfTwoClusters(t *testing.T) {
	t.Parallel()
	live := []*cluster{newCluster(t, 1, 2), newCluster(t, 2, 2)}
	replica := newCluster(t, 1, 4)
	openMirror(t, replica, live, nil)
	// Broker 0 is in both clusters, so its numbers go on from one to the other's.
	conn := dial(t, live[0].brokers[0].HostPort())
	for p := range 2 {
		live[0].produceTo(conn, 7, "t", p, 0, 500, 100) // told from the other by the 7
	}
	live[1].produce("t", 0, 500, 100)
	replica.awaitArrived("t", 3000).check(t, 6, 500)
}

// TestPaperR28SetsAreCopiedAsTheyAre: the replica's log holds the bytes of the live
// one's, compressed sets included, whatever wrote them.
func TestPaperR28SetsAreCopiedAsTheyAre(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 1), newCluster(t, 1, 1)
	conn := dial(t, live.brokers[0].HostPort())
	var plain, inner []byte
	for i := range 50 {
		plain = message.Append(plain, fmt.Appendf(nil, "plain %d", i))
		inner = message.Append(inner, fmt.Appendf(nil, "inner %d", i))
		inner = message.Append1(inner, fmt.Appendf(nil, "inner with magic 1, %d", i), message.CodecNone)
	}
	plain = message.Append1(plain, []byte("magic 1"), message.CodecNone)
	for round := range 20 {
		set := bytes.Clone(plain)
		for _, codec := range []message.Codec{message.CodecGzip, message.CodecSnappy} {
			var err error
			if set, err = message.Compress(set, inner, codec); err != nil {
				t.Fatal(err)
			}
		}
		set = message.Append(set, payload("large", 0, 0, round, 30<<10)) // more than a set of the mirror
		if _, err := conn.AckedProduce(testContext(t), "t", 0, set, wire.AcksFlushed, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	want := live.log(live.brokers[0], "t", 0, 0)
	openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.FetchBytes = 64 << 10 })
	var got message.Set
	await(t, "all bytes", func() bool {
		got = replica.log(replica.brokers[0], "t", 0, 0)
		return len(got) >= len(want)
	})
	if !bytes.Equal(got, want) {
		t.Errorf("the log of the target (%d bytes) is not that of the source (%d bytes)", len(got), len(want))
	}
}

// TestPaperR28NewTopics: topics that come while the mirror runs, and partitions, are
// copied if the list lets them through; the schemas stay out.
func TestPaperR28NewTopics(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 2), newCluster(t, 1, 4)
	white := openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) { c.WhiteList = "click.*,schemas" })
	live.produce("schemas", 0, 10, 100)
	live.produce("clicks", 0, 100, 100)
	live.produce("orders", 0, 100, 100)
	replica.awaitArrived("clicks", 200)
	live.produce("clicks2", 0, 100, 100)
	replica.awaitArrived("clicks2", 200).check(t, 2, 100)
	// Another broker, with partitions of a topic that is copied already.
	live.startBroker()
	live.produce("clicks", 100, 100, 100)
	a := replica.awaitArrived("clicks", 600)
	if n := len(a["clicks 1-0"]) + len(a["clicks 1-1"]); n != 200 {
		t.Errorf("%d messages of the new broker have come, not 200", n)
	}
	if got, want := topics(t, replica.brokers[0]), []string{"clicks", "clicks2"}; !slices.Equal(got, want) {
		t.Errorf("the target has topics %q, not %q", got, want)
	}
	closeMirror(t, white)
	openMirror(t, replica, []*cluster{live}, func(c *mirror.Config) {
		c.WhiteList, c.BlackList, c.Group, c.WithSchemas = "", "click.*", "others", true
	})
	replica.awaitArrived("orders", 200).check(t, 2, 100)
	replica.awaitArrived("schemas", 20).check(t, 2, 10)
	if n := replica.arrived("clicks").doubled(); n > 0 {
		t.Errorf("%d messages that the black list keeps out have come", n)
	}
}

// TestTopicsAreMadeAtTheTarget: a topic is made with as many partitions in all as the
// source has, over the brokers of the target.
func TestTopicsAreMadeAtTheTarget(t *testing.T) {
	t.Parallel()
	live := newCluster(t, 2, 3)
	replica := newCluster(t, 2, 1) // what its brokers make by themselves
	live.produce("t", 0, 25, 100)
	openMirror(t, replica, []*cluster{live}, nil)
	live.produce("t", 25, 25, 100)
	replica.partitions = 3
	replica.awaitArrived("t", 300).check(t, 6, 50)
	places := map[string]bool{}
	for name, list := range replica.arrived("t") {
		places[list[0].at.String()] = true
		if list[0].at.String() != name[len("t "):] {
			t.Errorf("%s is in %v", name, list[0].at)
		}
	}
	if len(places) != 6 {
		t.Errorf("6 partitions are in %d", len(places))
	}
}

// TestNewGroupBeginsWhereItIsTold: without an offset a mirror begins at the smallest or
// the largest, and what comes after a restart is not left out.
func TestNewGroupBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	live, replica := newCluster(t, 1, 1), newCluster(t, 1, 1)
	live.produce("t", 0, 100, 100)
	largest := func(c *mirror.Config) { c.OffsetReset = consumer.ResetLargest }
	m := openMirror(t, replica, []*cluster{live}, largest)
	end := int64(len(live.log(live.brokers[0], "t", 0, 0)))
	p := mirrorPartition(0, 0)
	await(t, "the offset where it begins", func() bool { return live.stored(group, "t", p) == end })
	live.produce("t", 100, 50, 100)
	replica.awaitArrived("t", 50)
	live.awaitCommitted("t")
	closeMirror(t, m)
	live.produce("t", 150, 50, 100)
	openMirror(t, replica, []*cluster{live}, largest)
	a := replica.awaitArrived("t", 100)
	if list := a["t 0-0"]; list[0].number != 100 || len(list) != 100 {
		t.Errorf("%d messages have come from %d on, not 100 from 100 on", len(list), list[0].number)
	}
}

// TestCloseIsIdempotentAndBounded: a mirror whose target does not answer is closed in the
// time that it is given, says what is not safe, and says so again.
func TestCloseIsIdempotentAndBounded(t *testing.T) {
	t.Parallel()
	live := newCluster(t, 1, 1)
	target := newSlowTarget(t, 1)
	cfg := mirror.Config{
		Sources: []zkConfig{live.config()}, Target: target.config(), Group: group, WhiteList: "t",
		ReleaseTimeout: 300 * time.Millisecond, RebalanceBackoff: 200 * time.Millisecond,
	}
	m, err := mirror.Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	live.produce("t", 0, 100, 100)
	target.awaitArrived("t", 100)
	live.awaitCommitted("t")
	target.proxy.hold()
	live.produce("t", 100, 100, 100)
	await(t, "messages on their way", func() bool { return m.Stats().BufferedBytes > 0 && target.proxy.held() > 0 })
	err = m.Close(testContext(t))
	if err == nil {
		t.Error("a close with messages on their way says nothing of them")
	} else if again := m.Close(context.Background()); again == nil || again.Error() != err.Error() {
		t.Errorf("the first close says\n%v, the second\n%v", err, again)
	}
	if st := m.Stats(); st.RepeatedMessages != 100 {
		t.Errorf("%d messages are said to come again, not 100", st.RepeatedMessages)
	}
	target.proxy.release()
	openMirror(t, target.cluster, []*cluster{live}, nil)
	target.awaitArrived("t", 200).check(t, 1, 200)
}
