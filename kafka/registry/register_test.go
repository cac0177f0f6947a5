package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

func host(id int32, creator string) registry.Broker {
	return registry.Broker{ID: id, Creator: creator, Host: "h" + fmt.Sprint(id), Port: 9092}
}

func TestBrokersByID(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		for _, id := range []int32{10, 2, 1} {
			must(t, m.RegisterBroker(ctx, m.session, host(id, "c"), nil))
		}
		got, err := m.Brokers(ctx)
		if err != nil || len(got) != 3 || got[0] != host(1, "c") || got[1] != host(2, "c") || got[2] != host(10, "c") {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestB14StaleNode: the node of an older session of the same broker is taken over,
// and stays when that session ends; that of another broker is not, and the error
// says where that is.
func TestB14StaleNode(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		before, after, foreign := join(t, c), join(t, c), join(t, c)
		must(t, before.RegisterBroker(ctx, before.session, host(1, "h1-1"), nil))
		must(t, before.RegisterTopic(ctx, before.session, "t", 1, 2))

		err := foreign.RegisterBroker(ctx, foreign.session, registry.Broker{ID: 1, Creator: "other-1", Host: "other", Port: 1}, []string{"other-0"})
		var taken *registry.TakenError
		if !errors.As(err, &taken) || *taken != (registry.TakenError{ID: 1, Host: "h1", Port: 9092}) {
			t.Fatalf("error %v, want one that names the holder", err)
		}
		if !strings.Contains(err.Error(), "h1 port 9092") {
			t.Errorf("error %v", err)
		}
		// Its own creator is one that it must not know beforehand.
		if err := after.RegisterBroker(ctx, after.session, host(1, "h1-1"), nil); !errors.As(err, &taken) {
			t.Errorf("same creator: %v", err)
		}

		must(t, after.RegisterBroker(ctx, after.session, host(1, "h1-2"), []string{"h1-0", "h1-1"}))
		must(t, after.RegisterTopic(ctx, after.session, "t", 1, 3))
		must(t, after.RegisterBroker(ctx, after.session, host(1, "h1-2"), nil)) // again: it is there
		before.close(t)
		for path, value := range map[string]string{"/brokers/ids/1": "h1-2:h1:9092", "/brokers/topics/t/1": "3"} {
			got, stat, exists := after.node(t, path)
			if !exists || got != value || stat.EphemeralOwner != after.session.ID() {
				t.Errorf("%s: %q, of session %#x", path, got, stat.EphemeralOwner)
			}
		}
		// The session itself may register as something else.
		must(t, after.RegisterBroker(ctx, after.session, host(1, "h1-3"), nil))
		must(t, after.RegisterTopic(ctx, after.session, "t", 1, 4))
		after.want(t, "/brokers/ids/1", "h1-3:h1:9092")
		after.want(t, "/brokers/topics/t/1", "4")

		after.close(t)
		must(t, foreign.RegisterBroker(ctx, foreign.session, host(1, "other-1"), nil))
	})
}

// A node that makes no sense has the id: that is told, and it stays.
func TestRegisterOverBadNode(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		m.put(t, "/brokers/ids/1", "what")
		if paths := bad(t, m.RegisterBroker(ctx, m.session, host(1, "c"), nil)); len(paths) != 1 || paths[0] != "/brokers/ids/1" {
			t.Errorf("bad nodes %v", paths)
		}
		m.want(t, "/brokers/ids/1", "what")
	})
}

func TestRegisterInEndedSession(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		old := m.session
		must(t, c.Expire(old.ID()))
		eventually(t, "a new session", func() bool {
			s, err := m.Client().Session(ctx)
			return err == nil && s.ID() != old.ID()
		})
		s, err := registry.Static(map[string]int{"t": 1})
		must(t, err)
		claim := registry.Claim{Topic: "t", Thread: "c-0"}
		for what, err := range map[string]error{
			"broker":   m.RegisterBroker(ctx, old, host(1, "c"), nil),
			"topic":    m.RegisterTopic(ctx, old, "t", 1, 1),
			"consumer": m.RegisterConsumer(ctx, old, "g", "c", s),
			"claim":    second(m.ClaimAll(ctx, old, "g", []registry.Claim{claim})),
			"commit":   second(m.Commit(ctx, old, "g", claim, 1, registry.NoVersion)),
			"release":  m.Release(ctx, old, "g", []registry.Claim{claim}),
		} {
			if !errors.Is(err, coord.ErrExpired) {
				t.Errorf("%s: %v, want %v", what, err, coord.ErrExpired)
			}
		}
		if brokers, err := m.Brokers(ctx); len(brokers) != 0 || err != nil {
			t.Errorf("brokers %v, %v", brokers, err)
		}
	})
}

// TestUnregisterTopic: a topic goes with owners and offsets of the broker's
// partitions in all groups, and as a whole with the last broker that has it.
func TestUnregisterTopic(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		must(t, one.RegisterTopic(ctx, one.session, "t", 1, 1))
		must(t, one.RegisterTopic(ctx, one.session, "other", 1, 1))
		must(t, two.RegisterTopic(ctx, two.session, "t", 12, 1))
		p1, p12 := registry.Partition{Broker: 1}, registry.Partition{Broker: 12}
		for _, group := range []string{"g", "h"} {
			for _, p := range []registry.Partition{p1, p12} {
				must(t, two.SetOffset(ctx, group, "t", p, 5))
				_, err := two.ClaimAll(ctx, two.session, group, []registry.Claim{{Topic: "t", Partition: p, Thread: "c-0"}})
				must(t, err)
			}
			must(t, two.SetOffset(ctx, group, "other", p1, 5))
		}
		must(t, one.UnregisterTopic(ctx, "t", 1))
		one.want(t, "/brokers/topics/t/1", "-")
		one.want(t, "/brokers/topics/t/12", "1")
		for _, group := range []string{"g", "h"} {
			one.want(t, "/consumers/"+group+"/owners/t/1-0", "-")
			one.want(t, "/consumers/"+group+"/offsets/t/1-0", "-")
			one.want(t, "/consumers/"+group+"/owners/t/12-0", "c-0")
			one.want(t, "/consumers/"+group+"/offsets/t/12-0", "5")
		}
		// The owner's next commit finds out.
		claim := registry.Claim{Topic: "t", Partition: p1, Thread: "c-0"}
		if _, err := two.Commit(ctx, two.session, "g", claim, 6, 0); !errors.Is(err, registry.ErrNotOwner) {
			t.Errorf("commit: %v", err)
		}

		must(t, two.UnregisterTopic(ctx, "t", 12))
		one.want(t, "/brokers/topics/t", "-")
		for _, group := range []string{"g", "h"} {
			one.want(t, "/consumers/"+group+"/owners/t", "-")
			one.want(t, "/consumers/"+group+"/offsets/t", "-")
			one.want(t, "/consumers/"+group+"/offsets/other/1-0", "5")
		}
		must(t, two.UnregisterTopic(ctx, "t", 12))
		if topics, err := one.Topics(ctx); err != nil || fmt.Sprint(topics) != "[other]" {
			t.Errorf("topics %v, %v", topics, err)
		}
	})
}

// TestNoteLog: which log a topic has is known for good, also when it is gone everywhere, and
// the first who says it is right.
func TestNoteLog(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		note := func(topic, log, want string) {
			t.Helper()
			if noted, err := two.NoteLog(ctx, topic, log); err != nil || noted != want {
				t.Errorf("topic %s, log %q: noted is %q, %v, want %q", topic, log, noted, err, want)
			}
		}
		must(t, one.RegisterTopic(ctx, one.session, "t", 1, 1))
		note("t", "", "")
		one.want(t, "/brokers/begun/t", "-")
		note("t", "first", "first")
		note("t", "second", "first")
		note("t", "", "first")
		must(t, one.UnregisterTopic(ctx, "t", 1))
		one.want(t, "/brokers/topics/t", "-")
		one.close(t)
		note("t", "", "first")
		note("other", "", "")
		for range 2 {
			must(t, two.ForgetLog(ctx, "t"))
			note("t", "", "")
		}
		note("t", "second", "second")
		if _, err := two.NoteLog(ctx, "a/b", "x"); err == nil {
			t.Error("the log of a topic with a slash in its name was noted")
		}
		if err := two.ForgetLog(ctx, ".."); err == nil {
			t.Error("the log of a topic .. was forgotten")
		}
		if topics, err := two.Topics(ctx); err != nil || len(topics) != 0 {
			t.Errorf("topics %v, %v", topics, err)
		}
	})
}

// TestNoteLogAtOnce: of many who note a log at once all are told the same.
func TestNoteLogAtOnce(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		r := join(t, c)
		var told [20]string
		var all sync.WaitGroup
		for i := range told {
			all.Go(func() {
				var err error
				if told[i], err = r.NoteLog(ctx, "t", fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, name := range told {
			if name == "" || name != told[0] {
				t.Fatalf("they were told %q", told)
			}
		}
	})
}

func TestConsumers(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		s, err := registry.Static(map[string]int{"t": 2})
		must(t, err)
		white, err := registry.WhiteList(".*", 1)
		must(t, err)
		id, err := registry.NewConsumerID("g", time.UnixMilli(1312242084000))
		must(t, err)
		if !strings.HasPrefix(id, "g_") || !strings.Contains(id, "-1312242084000-") || len(id)-strings.LastIndexByte(id, '-') != 9 {
			t.Errorf("id %q", id)
		}
		must(t, one.RegisterConsumer(ctx, one.session, "g", id, s))
		must(t, one.RegisterConsumer(ctx, one.session, "g", id, s)) // it is there
		must(t, two.RegisterConsumer(ctx, two.session, "g", "g_two", white))
		got, err := one.Consumers(ctx, "g")
		if err != nil || len(got) != 2 || got[id].Streams("t") != 2 || got["g_two"].Streams("x") != 1 {
			t.Errorf("%v, %v", got, err)
		}
		var conflict *coord.ConflictError
		if err := two.RegisterConsumer(ctx, two.session, "g", id, s); !errors.As(err, &conflict) || conflict.Stat.EphemeralOwner != one.session.ID() {
			t.Errorf("conflict: %v", err)
		}
		must(t, two.UnregisterConsumer(ctx, two.session, "g", id)) // not its own
		if got, err := one.Consumers(ctx, "g"); len(got) != 2 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		must(t, one.UnregisterConsumer(ctx, one.session, "g", id))
		if got, err := one.Consumers(ctx, "g"); len(got) != 1 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestGroups(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		s, err := registry.Static(map[string]int{"t": 2})
		must(t, err)
		p := registry.Partition{Broker: 1}
		must(t, m.RegisterConsumer(ctx, m.session, "g", "g_c", s))
		must(t, m.SetOffset(ctx, "g", "t", p, 1))
		must(t, m.SetOffset(ctx, "h", "u", p, 1))
		_, err = m.ClaimAll(ctx, m.session, "g", []registry.Claim{{Topic: "owned", Partition: p, Thread: "g_c-0"}, {Topic: "t", Partition: p, Thread: "g_c-0"}})
		must(t, err)
		if groups, err := m.Groups(ctx); err != nil || fmt.Sprint(groups) != "[g h]" {
			t.Errorf("groups %v, %v", groups, err)
		}
		if topics, err := m.GroupTopics(ctx, "g"); err != nil || fmt.Sprint(topics) != "[owned t]" {
			t.Errorf("topics %v, %v", topics, err)
		}
		var active *registry.ActiveGroupError
		if err := m.DeleteGroup(ctx, "g"); !errors.As(err, &active) || fmt.Sprint(active.Consumers) != "[g_c]" {
			t.Errorf("delete: %v", err)
		}
		if offset, _, ok, err := m.Offset(ctx, "g", "t", p); offset != 1 || !ok || err != nil {
			t.Errorf("offset after a deletion that was refused: %d, %v, %v", offset, ok, err)
		}
		must(t, m.UnregisterConsumer(ctx, m.session, "g", "g_c"))
		must(t, m.DeleteGroup(ctx, "g"))
		if groups, err := m.Groups(ctx); err != nil || fmt.Sprint(groups) != "[h]" {
			t.Errorf("groups %v, %v", groups, err)
		}
	})
}
