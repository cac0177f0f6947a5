package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/coord"
)

// Claim is the ownership of a partition by one stream of a consumer.
type Claim struct {
	Topic     string
	Partition Partition
	Thread    string // see [ThreadID]
	// Version is that of the owner node, as [Registry.ClaimAll] returns it.
	Version int32
}

func (c Claim) path(group string) string { return ownerPath(group, c.Topic, c.Partition) }

const (
	// maxThreadBytes bounds the value of an owner node (inclusive).
	maxThreadBytes = MaxNameBytes + len("-10000")
	// claimBytes is about how large a multi becomes, far below ZooKeeper's bound
	// of 1 MiB for a request.
	claimBytes = 256 << 10
	// undoLimit bounds the undoing of claims whose caller has no time left.
	undoLimit = 3 * time.Second
)

func checkClaim(group string, c Claim) error {
	if err := CheckGroup(group); err != nil {
		return err
	}
	if err := checkName("topic", c.Topic); err != nil {
		return err
	}
	if c.Partition.Broker < 0 || c.Partition.Partition < 0 {
		return fmt.Errorf("topic %s: no partition has the name %v", c.Topic, c.Partition)
	}
	if len(c.Thread) > maxThreadBytes || !printable(c.Thread) || c.Thread == "" {
		return fmt.Errorf("topic %s partition %v: owner %.60q: must be 1 to %d bytes", c.Topic, c.Partition, c.Thread, maxThreadBytes)
	}
	return nil
}

// ClaimAll makes the owner nodes of partitions, which belong to the session, and
// returns the claims with the versions of their nodes. It is all or nothing: when a
// partition has another owner, which is an [*OwnedError], or when anything else
// fails, what this call has made is deleted again, and only that (KAFKA-262,
// KAFKA-286); partitions that the session has claimed for the same thread before
// count as claimed and stay. If the deleting fails too the error says so: then
// [Registry.Release] must be called for the claims, or the session be ended.
func (r *Registry) ClaimAll(ctx context.Context, s *coord.Session, group string, claims []Claim) ([]Claim, error) {
	for _, c := range claims {
		if err := checkClaim(group, c); err != nil {
			return nil, err
		}
	}
	var made []Claim
	for _, batch := range claimBatches(group, claims) {
		b, err := r.claimBatch(ctx, s, group, batch)
		made = append(made, b...)
		if err != nil {
			err = fmt.Errorf("claim partitions for group %s: %w", group, err)
			return nil, errors.Join(err, r.undo(ctx, s, group, made))
		}
	}
	claimed := slices.Clone(claims)
	for i := range claimed {
		claimed[i].Version = 0 // the nodes are new: nobody has set their values
	}
	return claimed, nil
}

// claimBatches divides claims so that each part fits in one multi.
func claimBatches(group string, claims []Claim) (batches [][]Claim) {
	begin, size := 0, 0
	for i, c := range claims {
		const overhead = 64 // of one create: type, lengths, list of permissions
		n := len(c.path(group)) + len(c.Thread) + overhead
		if size+n > claimBytes {
			batches = append(batches, claims[begin:i])
			begin, size = i, 0
		}
		size += n
	}
	if begin < len(claims) {
		batches = append(batches, claims[begin:])
	}
	return batches
}

// undo deletes the owner nodes that a failed ClaimAll has made, also when the
// caller has given up.
func (r *Registry) undo(ctx context.Context, s *coord.Session, group string, made []Claim) error {
	if len(made) == 0 || s.Context().Err() != nil {
		return nil // they end with the session
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := r.Release(ctx, s, group, made); err != nil {
		return fmt.Errorf("undo the claims: %w", err)
	}
	return nil
}

// claimBatch claims partitions in one multi. It returns those whose nodes it has
// made, or may have made, also with an error.
func (r *Registry) claimBatch(ctx context.Context, s *coord.Session, group string, batch []Claim) (made []Claim, err error) {
	left := slices.Clone(batch)
	doubtful := false // a multi had no answer: it may have been carried out
	for range registerTries {
		if len(left) == 0 {
			return made, nil
		}
		ops := make([]coord.Op, len(left))
		for i, c := range left {
			ops[i] = coord.CreateOp(c.path(group), []byte(c.Thread), true)
		}
		err = s.Multi(ctx, ops...)
		again := errors.Is(err, coord.ErrInDoubt) && errors.Is(err, coord.ErrUnavailable) && !doubtful
		doubtful = doubtful || errors.Is(err, coord.ErrInDoubt)
		switch {
		case err == nil:
			return append(made, left...), nil
		case again:
			err = nil // whether it was carried out shows when it is repeated
		case errors.Is(err, coord.ErrNoNode):
			err = r.makeOwnerFolders(ctx, s, group, left)
		case errors.Is(err, coord.ErrExists):
			var held []Claim
			held, left, err = r.sortOut(ctx, s, group, left)
			if doubtful {
				made = append(made, held...)
			}
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = errors.New("the owner nodes keep changing")
	}
	if doubtful {
		made = append(made, left...)
	}
	return made, err
}

// makeOwnerFolders makes what the owner nodes stand below.
func (r *Registry) makeOwnerFolders(ctx context.Context, s *coord.Session, group string, claims []Claim) error {
	done := map[string]bool{}
	for _, c := range claims {
		if done[c.Topic] {
			continue
		}
		done[c.Topic] = true
		if err := s.Create(ctx, topicOwnersPath(group, c.Topic), nil); err != nil && !errors.Is(err, coord.ErrExists) {
			return err
		}
	}
	return nil
}

// sortOut divides claims into those that the session holds, for the same thread,
// and those that nobody does. One that somebody else holds is an OwnedError.
func (r *Registry) sortOut(ctx context.Context, s *coord.Session, group string, claims []Claim) (held, free []Claim, err error) {
	owned := make([]bool, len(claims))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for i, c := range claims {
		g.Go(func() error {
			owner, stat, err := s.Get(ctx, c.path(group))
			switch {
			case errors.Is(err, coord.ErrNoNode):
				return nil
			case err != nil:
				return err
			case stat.EphemeralOwner != s.ID() || string(owner) != c.Thread:
				return &OwnedError{Topic: c.Topic, Partition: c.Partition, Owner: shown(owner)}
			}
			owned[i] = true
			return nil
		})
	}
	err = g.Wait()
	for i, c := range claims {
		if owned[i] {
			held = append(held, c)
		} else {
			free = append(free, c)
		}
	}
	return held, free, err
}

// shown cuts a value that is too long to be the name of a thread.
func shown(owner []byte) string {
	if len(owner) > maxThreadBytes {
		return fmt.Sprintf("%.60q… (%d bytes)", owner, len(owner))
	}
	return string(owner)
}

// Release deletes the owner nodes of claims, those that the session has made and no
// others. What is missing is fine. All are tried; the error says what failed.
func (r *Registry) Release(ctx context.Context, s *coord.Session, group string, claims []Claim) error {
	errs := make([]error, len(claims))
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	for i, c := range claims {
		g.Go(func() error {
			err := checkClaim(group, c)
			if err == nil {
				err = deleteOwn(ctx, s, c.path(group))
			}
			if err != nil {
				errs[i] = fmt.Errorf("release topic %s partition %v: %w", c.Topic, c.Partition, err)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// Owners returns the threads that own the partitions of a topic in a group. With a
// [*BadNodesError] come those whose nodes make sense.
func (r *Registry) Owners(ctx context.Context, group, topic string) (map[Partition]string, error) {
	owners := map[Partition]string{}
	err := r.ofPartitions(ctx, group, topic, topicOwnersPath(group, topic), func(p Partition, value string) error {
		if value == "" || len(value) > maxThreadBytes {
			return fmt.Errorf("%s is no thread of a consumer", shown([]byte(value)))
		}
		owners[p] = value
		return nil
	})
	if err != nil {
		err = fmt.Errorf("owners of topic %s in group %s: %w", topic, group, err)
	}
	return owners, err
}

// ofPartitions reads the nodes below a path that are named after partitions.
func (r *Registry) ofPartitions(ctx context.Context, group, topic, path string, take func(Partition, string) error) error {
	if err := CheckGroup(group); err != nil {
		return err
	}
	if err := checkName("topic", topic); err != nil {
		return err
	}
	values, err := r.values(ctx, path)
	if err != nil {
		return err
	}
	return parseNodes(path, values, func(name, value string) error {
		p, err := ParsePartition(name)
		if err == nil {
			err = take(p, value)
		}
		return err
	})
}
