package consumer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// claim makes the owner nodes of the partitions chosen that are not owned yet. As
// with Kafka 0.7 it is all or nothing, since a conflict says that another member has
// not heard of a change yet; but the last try takes what is free, so that one
// partition that is held for long does not keep others waiting.
func (g *Group) claim(ctx context.Context, s *coord.Session, want map[TopicPartition]string, last bool) error {
	claims := g.missing(want)
	if len(claims) == 0 {
		return nil
	}
	g.member.keepLease(s)
	var conflicts []error
	for len(claims) > 0 {
		made, err := g.registry.ClaimAll(ctx, s, g.cfg.Group, claims)
		if err == nil {
			g.own(s, made)
			g.log.Info("claimed", "partitions", len(made))
			break
		}
		var conflict *registry.OwnedError
		isConflict := errors.As(err, &conflict)
		if !isConflict || away(err) || errors.Is(err, coord.ErrInDoubt) {
			// What was made may not have been deleted again.
			for _, c := range claims {
				g.member.doubtful[TopicPartition{Topic: c.Topic, Partition: c.Partition}] = c
			}
		}
		if !isConflict || !last {
			return err
		}
		conflicts = append(conflicts, conflict)
		claims = without(claims, conflict)
	}
	return errors.Join(conflicts...)
}

// missing returns the claims to be made, in a fixed order.
func (g *Group) missing(want map[TopicPartition]string) []registry.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	var claims []registry.Claim
	for tp, thread := range want {
		if g.owned[tp] == nil {
			claims = append(claims, registry.Claim{Topic: tp.Topic, Partition: tp.Partition, Thread: thread})
		}
	}
	sortClaims(claims)
	return claims
}

// own takes partitions up whose claims were made.
func (g *Group) own(s *coord.Session, made []registry.Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range made {
		o := newOwnership(c, s, g.stream(c.Topic, c.Thread))
		g.owned[o.TopicPartition] = o
		delete(g.member.doubtful, o.TopicPartition)
	}
}

func sortClaims(claims []registry.Claim) {
	slices.SortFunc(claims, func(a, b registry.Claim) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), a.Partition.Compare(b.Partition))
	})
}

// without returns claims but for the one that somebody else owns.
func without(claims []registry.Claim, owned *registry.OwnedError) []registry.Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c registry.Claim) bool {
		return c.Topic == owned.Topic && c.Partition == owned.Partition
	})
}
