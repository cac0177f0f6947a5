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
		var others []error
		if claims, others, err = g.free(ctx, claims, conflict); err != nil {
			return errors.Join(append(conflicts, err)...)
		}
		conflicts = append(conflicts, others...)
	}
	return joinSome(conflicts)
}

// free divides claims into those that may be free and those that somebody else owns,
// with an error for each. The one of conflict is of the second kind. It reads all
// owners at once: to be told of one by each attempt takes minutes where there are
// hundreds.
func (g *Group) free(ctx context.Context, claims []registry.Claim, conflict *registry.OwnedError) (free []registry.Claim, owned []error, err error) {
	owners := make(map[string]map[registry.Partition]string)
	for _, c := range claims {
		if owners[c.Topic] == nil {
			owners[c.Topic], err = g.registry.Owners(ctx, g.cfg.Group, c.Topic)
			if err := g.tolerate(err); err != nil {
				return nil, nil, err
			}
		}
		owner, has := owners[c.Topic][c.Partition]
		switch {
		case c.Topic == conflict.Topic && c.Partition == conflict.Partition:
			owned = append(owned, conflict)
		case has && owner != c.Thread:
			owned = append(owned, &registry.OwnedError{Topic: c.Topic, Partition: c.Partition, Owner: owner})
		default:
			free = append(free, c)
		}
	}
	return free, owned, nil
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
