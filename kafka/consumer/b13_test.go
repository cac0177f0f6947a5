package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// TestB13ConsumerWithoutZooKeeper: a link to ZooKeeper that is cut for a third of the
// session time-out costs nothing: same session, nodes stay, watches fire on the next
// change. Cut for three times as long as that, the consumer stops handing out
// messages, others take over, and it comes back by itself, within two time-outs after
// the link is mended (fault B13, for consumers).
func TestB13ConsumerWithoutZooKeeper(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		t.Parallel() // it waits for sessions to end
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		stop := g.produceMeanwhile("t", 10)
		settings := func(c *consumer.GroupConfig) { c.ZooKeeper.SessionTimeout = shortSession }
		a := g.join(settings)
		g.awaitOwners("t", threads(a)...)
		session := a.session()

		a.line.Cut()
		time.Sleep(shortSession / 3) // the length of the cut, not a wait for a state
		a.line.Mend()
		b := g.join(settings) // a watch tells of it
		g.awaitOwners("t", threads(a, b)...)
		if now := a.session(); now != session || a.Stats().Sessions != 1 {
			t.Errorf("session %#x became %#x over a short cut", session, now)
		}

		cut := time.Now()
		a.line.Cut()
		g.awaitOwners("t", threads(b)...)
		time.Sleep(time.Until(cut.Add(3 * shortSession)))
		mended := time.Now()
		a.line.Mend()
		g.awaitOwners("t", threads(a, b)...)
		if took := time.Since(mended); took > 2*shortSession {
			t.Errorf("it took %v until the consumer was back", took)
		}
		if a.Stats().Sessions < 2 || a.session() == session {
			t.Error("the consumer is still in its first session")
		}
		n := stop()
		g.awaitAll("t", n)
		g.silentBetween(a.ID(), cut.Add(shortSession+recordDelay), mended)
		g.neverSkips()
		for _, p := range g.names() {
			// a, a or b after the join, b, and a or b at the end.
			if members := tenures(g.ledger.of("t", p)); len(members) > 4 {
				t.Errorf("%v: read by turns by %v", p, members)
			}
		}
	})
}

// TestB13ExpiredSession: a session that ends at the server while its client lives is
// replaced: the consumer registers again, claims again, and goes on (fault B13).
func TestB13ExpiredSession(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, zk *zktest.Cluster) {
		g := newGroupTest(t, zk, 1, 4)
		g.produce("t", 0, 10)
		stop := g.produceMeanwhile("t", 10)
		lost := make(chan bool, 100)
		a := g.join(func(c *consumer.GroupConfig) {
			c.OnRelease = func(_ context.Context, _ []consumer.TopicPartition, gone bool) error { lost <- gone; return nil }
		})
		b := g.join(nil)
		g.awaitOwners("t", threads(a, b)...)
		for range 3 {
			for len(lost) > 0 {
				<-lost
			}
			session := a.session()
			if err := zk.Expire(session); err != nil {
				t.Fatal(err)
			}
			await(t, "another session", func() bool { now := a.session(); return now != 0 && now != session })
			g.awaitOwners("t", threads(a, b)...)
			if gone := <-lost; !gone {
				t.Error("the application was told that partitions are released, not that they are lost")
			}
		}
		if st := a.Stats(); st.Sessions != 4 {
			t.Errorf("%d sessions after 3 expiries", st.Sessions)
		}
		n := stop()
		g.awaitAll("t", n)
	})
}

// TestB13ClosedHandle: calls on a closed group return an error instead of hanging
// (fault B13).
func TestB13ClosedHandle(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 1)
	m := g.join(nil)
	g.awaitAll("t", 1)
	at := m.Consumed()
	m.leave()
	if _, err := m.streams[0].Next(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("Next: %v", err)
	}
	if _, err := m.streams[0].NextChunk(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("NextChunk: %v", err)
	}
	if err := m.CommitOffsets(testContext(t), at); !errors.Is(err, registry.ErrNotOwner) {
		t.Errorf("CommitOffsets: %v", err)
	}
	if err := m.Seek("t", registry.Partition{}, 0); !errors.Is(err, registry.ErrNotOwner) {
		t.Errorf("Seek: %v", err)
	}
	if err := m.Commit(testContext(t)); err != nil || len(m.Owned()) != 0 {
		t.Errorf("Commit of nothing: %v; owned: %v", err, m.Owned())
	}
	if err := m.Close(testContext(t)); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
