package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"kafkalab/kafka/coord"
)

// NoVersion is the version of an offset node that is not there.
const NoVersion int32 = -1

// Offset returns the offset of the next message to consume of a partition in a
// group, and the version of its node, which [Registry.Commit] wants. ok is false,
// and the version [NoVersion], if none is stored. A node whose value is no number
// is a [*BadNodesError], with its version.
func (r *Registry) Offset(ctx context.Context, group, topic string, p Partition) (offset int64, version int32, ok bool, err error) {
	if err := checkOffset(group, topic, p); err != nil {
		return 0, NoVersion, false, err
	}
	path := offsetPath(group, topic, p)
	data, stat, err := r.client.Get(ctx, path)
	if errors.Is(err, coord.ErrNoNode) {
		return 0, NoVersion, false, nil
	}
	if err != nil {
		return 0, NoVersion, false, offsetError("read", topic, p, err)
	}
	offset, err = parseOffset(string(data))
	if err != nil {
		return 0, stat.Version, false, &BadNodesError{Nodes: []BadNode{{path, err}}}
	}
	return offset, stat.Version, true, nil
}

func checkOffset(group, topic string, p Partition) error {
	return checkClaim(group, Claim{Topic: topic, Partition: p, Thread: "any"})
}

func offsetError(what, topic string, p Partition, err error) error {
	return fmt.Errorf("%s the offset of topic %s partition %v: %w", what, topic, p, err)
}

// parseOffset reads an offset. It may be negative, as consumers of 0.7 store -1
// when they could not find out where to begin.
func parseOffset(value string) (int64, error) {
	offset, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no offset", value)
	}
	return offset, nil
}

func formatOffset(offset int64) []byte { return strconv.AppendInt(nil, offset, 10) }

// Offsets returns the offsets of the partitions of a topic in a group, of those
// that have one. With a [*BadNodesError] come those whose nodes make sense.
func (r *Registry) Offsets(ctx context.Context, group, topic string) (map[Partition]int64, error) {
	offsets := map[Partition]int64{}
	err := r.ofPartitions(ctx, group, topic, topicOffsetsPath(group, topic), func(p Partition, value string) error {
		offset, err := parseOffset(value)
		if err == nil {
			offsets[p] = offset
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("offsets of topic %s in group %s: %w", topic, group, err)
	}
	return offsets, err
}

// GroupTopics returns the topics of which a group has offsets or owners, sorted.
func (r *Registry) GroupTopics(ctx context.Context, group string) ([]string, error) {
	if err := CheckGroup(group); err != nil {
		return nil, err
	}
	withOffsets, err := r.names(ctx, offsetsPath(group))
	var withOwners []string
	if err == nil {
		withOwners, err = r.names(ctx, ownersPath(group))
	}
	if err != nil {
		return nil, fmt.Errorf("topics of group %s: %w", group, err)
	}
	all := slices.Concat(withOffsets, withOwners)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// SetOffset stores an offset whoever owns the partition and whatever is there, for
// tools and for the start of a group. A consumer of the partition that commits
// afterwards gets a [*MovedError]; those of 0.7 overwrite it.
func (r *Registry) SetOffset(ctx context.Context, group, topic string, p Partition, offset int64) error {
	if err := checkOffset(group, topic, p); err != nil {
		return err
	}
	if err := r.client.Put(ctx, offsetPath(group, topic, p), formatOffset(offset)); err != nil {
		return offsetError("store", topic, p, err)
	}
	return nil
}

// Commit stores the offset of the next message to consume, if the claim still
// holds and nobody else has stored one meanwhile. offsetVersion is the version of
// the offset node that the consumer has last seen, from [Registry.Offset] or the
// last Commit, [NoVersion] for none; newVersion is what it is now.
//
// It is one multi: a check of the owner node, and the set, or the creation, of the
// offset node at that version. The check alone could not tell one owner from the
// next, as each owner node is a new one and begins at version 0. Two things do:
// the multi is carried out in the session that made the claim, and while that lives
// its node goes away only if somebody deletes it; and the version of the offset
// node, which every commit of a later owner raises. So a consumer that has lost a
// partition cannot move its offset back: the result is [ErrNotOwner] when the owner
// node is gone, at another version or of another session, [coord.ErrExpired] when
// the session has ended, and a [*MovedError] when the claim holds but a tool, or a
// consumer without claims, has written the offset.
//
// When the answer to a commit is lost it may be repeated with the same arguments.
func (r *Registry) Commit(ctx context.Context, s *coord.Session, group string, c Claim, offset int64, offsetVersion int32) (newVersion int32, err error) {
	if err := checkClaim(group, c); err != nil {
		return offsetVersion, err
	}
	newVersion, err = r.commit(ctx, s, group, c, offset, offsetVersion)
	if err != nil {
		return offsetVersion, offsetError("commit", c.Topic, c.Partition, err)
	}
	return newVersion, nil
}

func (r *Registry) commit(ctx context.Context, s *coord.Session, group string, c Claim, offset int64, version int32) (int32, error) {
	path := offsetPath(group, c.Topic, c.Partition)
	store := coord.SetOp(path, formatOffset(offset), version)
	if version == NoVersion {
		store = coord.CreateOp(path, formatOffset(offset), false)
	}
	check := coord.CheckOp(c.path(group), c.Version)
	err := s.Multi(ctx, check, store)
	if failed := storeFailure(err); version == NoVersion && errors.Is(failed, coord.ErrNoNode) {
		// Nobody has committed for the topic yet.
		if err := s.Create(ctx, topicOffsetsPath(group, c.Topic), nil); err != nil && !errors.Is(err, coord.ErrExists) {
			return 0, err
		}
		err = s.Multi(ctx, check, store)
	}
	var multi *coord.MultiError
	switch {
	case err == nil:
		return version + 1, nil
	case !errors.As(err, &multi):
		return 0, err
	case multi.Index == 0 && (errors.Is(err, coord.ErrNoNode) || errors.Is(err, coord.ErrBadVersion)):
		return 0, ErrNotOwner
	case multi.Index == 1 && (errors.Is(err, coord.ErrNoNode) || errors.Is(err, coord.ErrBadVersion) || errors.Is(err, coord.ErrExists)):
		return r.moved(ctx, s, group, c, offset, version)
	}
	return 0, err
}

// storeFailure returns why the second operation of a commit failed, nil if it was
// not that.
func storeFailure(err error) error {
	var multi *coord.MultiError
	if errors.As(err, &multi) && multi.Index == 1 {
		return multi.Err
	}
	return nil
}

// moved finds out why the offset node is not at the version that it was last seen
// at.
func (r *Registry) moved(ctx context.Context, s *coord.Session, group string, c Claim, offset int64, version int32) (int32, error) {
	stat, exists, err := s.Exists(ctx, c.path(group))
	if err != nil {
		return 0, err
	}
	if !exists || stat.EphemeralOwner != s.ID() || stat.Version != c.Version {
		return 0, ErrNotOwner
	}
	data, stat, err := s.Get(ctx, offsetPath(group, c.Topic, c.Partition))
	if errors.Is(err, coord.ErrNoNode) {
		return 0, &MovedError{Topic: c.Topic, Partition: c.Partition, Version: NoVersion}
	}
	if err != nil {
		return 0, err
	}
	stored, err := parseOffset(string(data))
	switch {
	case err != nil:
		return 0, &BadNodesError{Nodes: []BadNode{{offsetPath(group, c.Topic, c.Partition), err}}}
	case stat.Version == version+1 && stored == offset:
		return stat.Version, nil // this commit, when it was tried before
	}
	return 0, &MovedError{Topic: c.Topic, Partition: c.Partition, Offset: stored, Version: stat.Version}
}
