package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// Commits by hand cover what the application is done with, and nothing is committed
// that it has not asked for.
func TestGroupCommitByHand(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	p := registry.Partition{}
	byHand := func(c *consumer.GroupConfig) { c.AutoCommit = -1 }
	m := g.open(byHand)
	var ends []int64
	for range 5 {
		msg, err := m.streams[0].Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, msg.NextOffset)
	}
	commit := func() int64 {
		t.Helper()
		if err := m.Commit(testContext(t)); err != nil {
			t.Fatal(err)
		}
		return g.stored("t", p)
	}
	if at := commit(); at != ends[3] {
		t.Errorf("with the fifth message in hand %d was committed, not %d", at, ends[3])
	}
	m.streams[0].Done()
	if at := commit(); at != ends[4] {
		t.Errorf("after the fifth message %d was committed, not %d", at, ends[4])
	}
	if _, err := m.streams[0].Next(testContext(t)); err != nil {
		t.Fatal(err)
	}
	m.streams[0].Done()
	m.leave()
	if at := g.stored("t", p); at != ends[4] {
		t.Errorf("Close has committed %d", at)
	}
	again := g.open(byHand)
	if msg, err := again.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != "t 0-0 5" {
		t.Errorf("the next consumer began with %q, %v", msg.Payload, err)
	}
	if err := again.CommitOffsets(testContext(t), []consumer.PartitionOffset{{TopicPartition: consumer.TopicPartition{Topic: "u"}, Offset: 1}}); !errors.Is(err, registry.ErrNotOwner) {
		t.Errorf("commit of another topic: %v", err)
	}
}

// TestGroupCommitInDoubt: after a commit whose answer was lost, one of the offset
// that stood there before is written, as that of the lost one may stand there now.
func TestGroupCommitInDoubt(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	m := g.open(func(c *consumer.GroupConfig) { c.AutoCommit = -1 })
	s := m.streams[0]
	consume := func(n int) (next int64) {
		t.Helper()
		for range n {
			msg, err := s.Next(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			next = msg.NextOffset
		}
		s.Done()
		return next
	}
	stored := func() int64 {
		t.Helper()
		offset, _, _, err := g.nodes.Offset(testContext(t), "g", "t", registry.Partition{})
		if err != nil {
			t.Fatal(err)
		}
		return offset
	}
	first := consume(3)
	if err := m.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second := consume(3)
	m.line.FreezeAnswers()
	failed := make(chan error, 1)
	go func() { failed <- m.Commit(testContext(t)) }()
	await(t, "the commit", func() bool { return stored() == second })
	m.line.DropConnections()
	m.line.Mend()
	if err := <-failed; !errors.Is(err, coord.ErrInDoubt) {
		t.Fatalf("commit without an answer: %v", err)
	}
	if err := m.Seek("t", registry.Partition{}, first); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if now := stored(); now != first {
		t.Errorf("offset %d stands there after a commit of %d", now, first)
	}
}

// TestB20PartitionsAreFlushedBeforeTheyAreGivenUp: the application flushes before
// others get its partitions; what it could not flush is not committed, and a flush
// that does not end holds nobody up for longer than it may (fault B20, for a member of
// a group).
func TestB20PartitionsAreFlushedBeforeTheyAreGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		flush func(ctx context.Context) error
		ok    bool
	}{
		{"flushed", func(context.Context) error { return nil }, true},
		{"failed", func(context.Context) error { return errors.New("the target is away") }, false},
		{"too slow", func(ctx context.Context) error { <-ctx.Done(); return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 2)
			g.produce("t", 0, 10)
			type call struct {
				partitions int
				lost       bool
				owners     map[registry.Partition]string
				stored     int64
			}
			assigned, released := make(chan int, 10), make(chan call, 10)
			p := registry.Partition{Partition: 1}
			a := g.join(func(cfg *consumer.GroupConfig) {
				cfg.ConsumerID = "a"
				cfg.AutoCommit = time.Hour
				cfg.HookTimeout = 300 * time.Millisecond
				cfg.OnAssigned = func(_ context.Context, tps []consumer.TopicPartition) { assigned <- len(tps) }
				cfg.OnRelease = func(ctx context.Context, tps []consumer.TopicPartition, lost bool) error {
					released <- call{len(tps), lost, g.owners("t"), g.stored("t", p)}
					return c.flush(ctx)
				}
			})
			if n := <-assigned; n != 2 {
				t.Errorf("%d partitions were assigned", n)
			}
			g.awaitAll("t", 10)
			b := g.open(func(cfg *consumer.GroupConfig) { cfg.ConsumerID = "b"; cfg.AutoCommit = time.Hour })
			g.awaitOwners("t", threads(a, b)...)
			r := <-released
			if r.partitions != 1 || r.lost || r.owners[p] != "g_a-0" || r.stored != 0 {
				t.Errorf("at the flush: %+v", r)
			}
			first := 10
			if !c.ok {
				first = 0
			}
			g.produce("t", 10, 1)
			if msg, err := b.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != fmt.Sprintf("t 0-1 %d", first) {
				t.Errorf("the next owner began with %q, %v", msg.Payload, err)
			}
		})
	}
}

// An application that keeps what it has handled in memory commits within OnRelease
// what it flushes there.
func TestGroupCommitWithinOnRelease(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	var m *groupMember
	m = g.join(func(c *consumer.GroupConfig) {
		c.AutoCommit = -1
		c.OnRelease = func(ctx context.Context, _ []consumer.TopicPartition, _ bool) error { return m.Commit(ctx) }
	})
	g.awaitAll("t", 10)
	m.leave()
	next := g.open(nil)
	g.produce("t", 10, 1)
	if msg, err := next.streams[0].Next(testContext(t)); err != nil || string(msg.Payload) != "t 0-0 10" {
		t.Errorf("the next consumer began with %q, %v", msg.Payload, err)
	}
}

// A hook that does not return holds up neither messages nor Close for longer than it
// may, and Close says so.
func TestGroupHookThatDoesNotReturn(t *testing.T) {
	g := newGroupTest(t, zktest.Shared(t, zktest.Embedded), 1, 1)
	g.produce("t", 0, 10)
	hang, returned := make(chan struct{}), make(chan struct{})
	m := g.join(func(c *consumer.GroupConfig) {
		c.HookTimeout = 200 * time.Millisecond
		c.OnAssigned = func(context.Context, []consumer.TopicPartition) { <-hang; close(returned) }
		c.OnRelease = func(context.Context, []consumer.TopicPartition, bool) error {
			t.Error("OnRelease was called while OnAssigned was running")
			return nil
		}
	})
	g.awaitAll("t", 10)
	m.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "hook") {
		t.Errorf("Close: %v", err)
	}
	m.reading.Wait()
	close(hang)
	<-returned
	if owners := g.owners("t"); len(owners) != 0 {
		t.Errorf("not released: %v", owners)
	}
}
