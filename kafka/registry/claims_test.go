package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// claims are those of partitions 0 to n-1 of a topic at broker 1.
func claims(topic, thread string, n int) []registry.Claim {
	all := make([]registry.Claim, n)
	for p := range all {
		all[p] = registry.Claim{Topic: topic, Partition: registry.Partition{Broker: 1, Partition: int32(p)}, Thread: thread}
	}
	return all
}

// owned returns how many partitions of a topic each thread owns.
func (m *member) owned(t *testing.T, topic string) map[string]int {
	t.Helper()
	owners, err := m.Owners(t.Context(), "g", topic)
	must(t, err)
	counts := map[string]int{}
	for _, thread := range owners {
		counts[thread]++
	}
	return counts
}

func TestClaimAll(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		mine := append(claims("t", "one-0", 3), claims("u", "one-1", 2)...)
		got, err := one.ClaimAll(ctx, one.session, "g", mine)
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(mine) {
			t.Errorf("claimed %v, want %v", got, mine)
		}
		if none, err := one.ClaimAll(ctx, one.session, "g", nil); err != nil || len(none) != 0 {
			t.Errorf("nothing: %v, %v", none, err)
		}
		// What is held counts as claimed, and new ones are made beside it.
		_, err = one.ClaimAll(ctx, one.session, "g", claims("t", "one-0", 4))
		must(t, err)
		if got := one.owned(t, "t"); fmt.Sprint(got) != "map[one-0:4]" {
			t.Errorf("owners %v", got)
		}

		// All or nothing: of six partitions four have an owner.
		_, err = two.ClaimAll(ctx, two.session, "g", append(claims("v", "two-0", 2), claims("t", "two-0", 6)...))
		var owned *registry.OwnedError
		if !errors.As(err, &owned) || owned.Topic != "t" || owned.Owner != "one-0" || !strings.Contains(err.Error(), "owned by one-0") {
			t.Errorf("error %v", err)
		}
		if got := one.owned(t, "t"); fmt.Sprint(got) != "map[one-0:4]" {
			t.Errorf("owners %v", got)
		}
		if got := one.owned(t, "v"); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
		// The same session for another thread is a conflict too.
		if _, err := one.ClaimAll(ctx, one.session, "g", claims("t", "one-7", 1)); !errors.As(err, &owned) || owned.Owner != "one-0" {
			t.Errorf("error %v", err)
		}
		// And the same thread in another session.
		if _, err := two.ClaimAll(ctx, two.session, "g", claims("t", "one-0", 1)); !errors.As(err, &owned) {
			t.Errorf("error %v", err)
		}
		// A failure undoes nothing that was held before.
		one.put(t, "/consumers/g/owners/w/1-2", "a tool")
		if _, err := one.ClaimAll(ctx, one.session, "g", append(claims("t", "one-0", 5), claims("w", "one-0", 3)...)); !errors.As(err, &owned) || owned.Owner != "a tool" {
			t.Errorf("error %v", err)
		}
		if got := one.owned(t, "t"); fmt.Sprint(got) != "map[one-0:4]" {
			t.Errorf("owners %v", got)
		}

		// Release takes only its own away.
		must(t, two.Release(ctx, two.session, "g", claims("t", "one-0", 4)))
		if got := one.owned(t, "t"); fmt.Sprint(got) != "map[one-0:4]" {
			t.Errorf("owners %v", got)
		}
		must(t, one.Release(ctx, one.session, "g", claims("t", "one-0", 9))) // more than there are
		_, err = two.ClaimAll(ctx, two.session, "g", claims("t", "two-0", 6))
		must(t, err)
		if got := one.owned(t, "t"); fmt.Sprint(got) != "map[two-0:6]" {
			t.Errorf("owners %v", got)
		}
	})
}

// More claims than one request holds are all or nothing as well.
func TestClaimMany(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		topic := strings.Repeat("t", 200)
		many := claims(topic, strings.Repeat("x", 200)+"-0", 1500)
		last := many[len(many)-1:]
		_, err := two.ClaimAll(ctx, two.session, "g", last)
		must(t, err)
		var owned *registry.OwnedError
		if _, err := one.ClaimAll(ctx, one.session, "g", many); !errors.As(err, &owned) || owned.Partition != last[0].Partition {
			t.Fatalf("error %v", err)
		}
		if got := one.owned(t, topic); len(got) != 1 || got[last[0].Thread] != 1 {
			t.Fatalf("left behind: %v", got)
		}
		must(t, two.Release(ctx, two.session, "g", last))
		_, err = one.ClaimAll(ctx, one.session, "g", many)
		must(t, err)
		if got := one.owned(t, topic); got[last[0].Thread] != len(many) {
			t.Errorf("%v", got)
		}
		must(t, one.Release(ctx, one.session, "g", many))
		if got := one.owned(t, topic); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// A claim whose answer is lost is found out about: it counts when it was carried
// out, and is undone when the whole fails.
func TestClaimAnswerLost(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		lose := func(topic string, then func()) error {
			t.Helper()
			ended := make(chan error, 1)
			_, err := one.ClaimAll(ctx, one.session, "g", claims(topic, "warm-0", 1)) // makes the folders
			must(t, err)
			must(t, one.Release(ctx, one.session, "g", claims(topic, "warm-0", 1)))
			one.line.FreezeAnswers()
			go func() {
				_, err := one.ClaimAll(ctx, one.session, "g", claims(topic, "one-0", 3))
				ended <- err
			}()
			eventually(t, "claims at the server", func() bool { return two.owned(t, topic)["one-0"] == 3 })
			then()
			one.line.DropConnections()
			one.line.Mend()
			return <-ended
		}
		must(t, lose("t", func() {}))
		if got := two.owned(t, "t"); fmt.Sprint(got) != "map[one-0:3]" {
			t.Errorf("owners %v", got)
		}
		// While it waited one of its nodes went to somebody else.
		err := lose("u", func() {
			must(t, two.Client().Delete(ctx, "/consumers/g/owners/u/1-1", -1))
			_, err := two.ClaimAll(ctx, two.session, "g", claims("u", "two-0", 2)[1:])
			must(t, err)
		})
		var owned *registry.OwnedError
		if !errors.As(err, &owned) || owned.Owner != "two-0" {
			t.Errorf("error %v", err)
		}
		if got := two.owned(t, "u"); fmt.Sprint(got) != "map[two-0:1]" {
			t.Errorf("left behind: %v", got)
		}
	})
}

// Owners vanish with their session, and only then.
func TestClaimsEndWithSession(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		_, err := one.ClaimAll(ctx, one.session, "g", claims("t", "one-0", 2))
		must(t, err)
		one.line.DropConnections()
		if got := two.owned(t, "t"); fmt.Sprint(got) != "map[one-0:2]" {
			t.Errorf("owners %v", got)
		}
		must(t, c.Expire(one.session.ID()))
		_, err = two.ClaimAll(ctx, two.session, "g", claims("t", "two-0", 2))
		must(t, err)
		eventually(t, "the end of the session", func() bool { return one.session.Context().Err() != nil })
		if err := one.Release(ctx, one.session, "g", claims("t", "one-0", 2)); !errors.Is(err, coord.ErrExpired) {
			t.Errorf("release: %v", err)
		}
		// The next session holds nothing of what the last one held.
		must(t, one.Release(ctx, one.live(t), "g", claims("t", "one-0", 2)))
		if got := two.owned(t, "t"); fmt.Sprint(got) != "map[two-0:2]" {
			t.Errorf("owners %v", got)
		}
	})
}
