package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// TestPaperR18CoordinationWithoutMaster: brokers and consumers that come and go are
// noticed by all, nobody asks a master who owns what, and the consumed offset of a
// partition is where its next owner finds it (NetDB'11 §3.2).
func TestPaperR18CoordinationWithoutMaster(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		subscription, err := registry.Static(map[string]int{"t": 1})
		must(t, err)
		broker, one, two := join(t, c), join(t, c), join(t, c)
		members := []*member{one, two}
		var brokers, consumers [2]seen
		for i, m := range members {
			b := m.WatchBrokers(func(b []registry.Broker) { brokers[i].tell(b) })
			defer b.Close()
			w := m.WatchConsumers("g", func(ids []string) { consumers[i].tell(ids) })
			defer w.Close()
		}
		must(t, broker.RegisterBroker(ctx, broker.session, host(1, "c"), nil))
		must(t, broker.RegisterTopic(ctx, broker.session, "t", 1, 1))
		for i, m := range members {
			must(t, m.RegisterConsumer(ctx, m.session, "g", fmt.Sprintf("g_%d", i), subscription))
		}
		for i := range members {
			brokers[i].await(t, "[c:h1:9092]")
			consumers[i].await(t, "[g_0 g_1]")
		}
		claimed, err := one.ClaimAll(ctx, one.session, "g", claims("t", "g_0-0", 1))
		must(t, err)
		_, err = one.Commit(ctx, one.session, "g", claimed[0], 42, registry.NoVersion)
		must(t, err)
		var owned *registry.OwnedError
		if _, err := two.ClaimAll(ctx, two.session, "g", claims("t", "g_1-0", 1)); !errors.As(err, &owned) || owned.Owner != "g_0-0" {
			t.Errorf("two owners: %v", err)
		}

		one.close(t)
		consumers[1].await(t, "[g_1]")
		_, err = two.ClaimAll(ctx, two.session, "g", claims("t", "g_1-0", 1))
		must(t, err)
		if offset, _, ok, err := two.Offset(ctx, "g", "t", claimed[0].Partition); offset != 42 || !ok || err != nil {
			t.Errorf("offset %d, %v, %v", offset, ok, err)
		}
		broker.close(t)
		brokers[1].await(t, "[]")
	})
}

// TestPaperR19Registries: the registries of brokers, consumers and owners go with
// those who made them; offsets stay. The ownership of each partition is one path
// whose value is the consumer, its offset another (NetDB'11 §3.2).
func TestPaperR19Registries(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m, other := join(t, c), join(t, c)
		subscription, err := registry.Static(map[string]int{"t": 1})
		must(t, err)
		must(t, m.RegisterBroker(ctx, m.session, host(1, "c"), nil))
		must(t, m.RegisterTopic(ctx, m.session, "t", 1, 2))
		must(t, m.RegisterConsumer(ctx, m.session, "g", "g_1", subscription))
		claimed, err := m.ClaimAll(ctx, m.session, "g", claims("t", "g_1-0", 2))
		must(t, err)
		for i, claim := range claimed {
			_, err = m.Commit(ctx, m.session, "g", claim, int64(100+i), registry.NoVersion)
			must(t, err)
		}

		state := func() string {
			brokers, err := other.Brokers(ctx)
			must(t, err)
			partitions, err := other.Partitions(ctx, "t")
			must(t, err)
			consumers, err := other.Consumers(ctx, "g")
			must(t, err)
			owners, err := other.Owners(ctx, "g", "t")
			must(t, err)
			offsets, err := other.Offsets(ctx, "g", "t")
			must(t, err)
			return fmt.Sprint(brokers, partitions, consumers, owners, offsets)
		}
		const alive = `[c:h1:9092] [1-0 1-1] map[g_1:{ "t": 1 }] map[1-0:g_1-0 1-1:g_1-0] map[1-0:100 1-1:101]`
		if got := state(); got != alive {
			t.Errorf("while it lives\n%s, want\n%s", got, alive)
		}
		must(t, c.Expire(m.session.ID()))
		const gone = `[] [] map[] map[] map[1-0:100 1-1:101]`
		if got := state(); got != gone {
			t.Errorf("after its session\n%s, want\n%s", got, gone)
		}
		if topics, err := other.Topics(ctx); err != nil || strings.Join(topics, " ") != "t" {
			t.Errorf("topics %v, %v", topics, err)
		}
	})
}
