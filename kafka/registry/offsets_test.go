package registry_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// commit commits and returns the error, and the version to commit at next.
func (m *member) commit(t *testing.T, c registry.Claim, offset int64, version int32) (int32, error) {
	t.Helper()
	return m.Commit(t.Context(), m.session, "g", c, offset, version)
}

// stored fails the test unless this is what is stored for a claim's partition.
func (m *member) stored(t *testing.T, c registry.Claim, offset int64, version int32) {
	t.Helper()
	got, gotVersion, ok, err := m.Offset(t.Context(), "g", c.Topic, c.Partition)
	if err != nil || !ok || got != offset || gotVersion != version {
		t.Errorf("stored: %d at version %d, %v, %v; want %d at %d", got, gotVersion, ok, err, offset, version)
	}
}

func TestCommit(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		got, err := m.ClaimAll(ctx, m.session, "g", claims("t", "one-0", 2))
		must(t, err)
		version := registry.NoVersion
		for i, offset := range []int64{0, 26, math.MaxInt64, 3} {
			version, err = m.commit(t, got[0], offset, version)
			must(t, err)
			if version != int32(i) {
				t.Errorf("version %d, want %d", version, i)
			}
			m.stored(t, got[0], offset, version)
		}
		if version, err = m.commit(t, got[1], 7, registry.NoVersion); version != 0 || err != nil {
			t.Errorf("%d, %v", version, err)
		}
		offsets, err := m.Offsets(ctx, "g", "t")
		if err != nil || fmt.Sprint(offsets) != "map[1-0:3 1-1:7]" {
			t.Errorf("%v, %v", offsets, err)
		}
		// A tool may write as well, and there is an end to a group's claims on it.
		must(t, m.SetOffset(ctx, "g", "t", got[0].Partition, 100))
		m.stored(t, got[0], 100, 4)
		must(t, m.SetOffset(ctx, "g", "new", got[0].Partition, 1))
		m.want(t, "/consumers/g/offsets/new/1-0", "1")
	})
}

// The answer to a commit may be lost: it is repeated as it was.
func TestCommitRepeated(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		got, err := m.ClaimAll(ctx, m.session, "g", claims("t", "one-0", 1))
		must(t, err)
		for range 3 {
			if version, err := m.commit(t, got[0], 5, registry.NoVersion); version != 0 || err != nil {
				t.Errorf("first: %d, %v", version, err)
			}
		}
		for range 3 {
			if version, err := m.commit(t, got[0], 9, 0); version != 1 || err != nil {
				t.Errorf("second: %d, %v", version, err)
			}
		}
		m.stored(t, got[0], 9, 1)
	})
}

// TestCommitFenced: whoever has lost a partition moves nothing.
func TestCommitFenced(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		mine, err := one.ClaimAll(ctx, one.session, "g", claims("t", "one-0", 1))
		must(t, err)
		if _, err := one.commit(t, mine[0], 10, 3); !isMoved(err, 0, registry.NoVersion) {
			t.Errorf("a version of what is not there: %v", err)
		}
		version, err := one.commit(t, mine[0], 10, registry.NoVersion)
		must(t, err)

		// It gives the partition up, and nobody has it.
		must(t, one.Release(ctx, one.session, "g", mine))
		if got, err := one.commit(t, mine[0], 20, version); !errors.Is(err, registry.ErrNotOwner) || got != version {
			t.Errorf("released: %d, %v", got, err)
		}
		// Another one has it and has committed.
		theirs, err := two.ClaimAll(ctx, two.session, "g", claims("t", "two-0", 1))
		must(t, err)
		theirVersion, err := two.commit(t, theirs[0], 30, version)
		must(t, err)
		if _, err := one.commit(t, mine[0], 20, version); !errors.Is(err, registry.ErrNotOwner) || !strings.Contains(err.Error(), "topic t partition 1-0") {
			t.Errorf("another owner: %v", err)
		}
		two.stored(t, mine[0], 30, theirVersion)
		// The first one's claim is at a version that the node never had.
		stale := mine[0]
		stale.Version = 1
		if _, err := one.commit(t, stale, 20, theirVersion); !errors.Is(err, registry.ErrNotOwner) {
			t.Errorf("another version: %v", err)
		}
		two.stored(t, mine[0], 30, theirVersion)

		// A tool has set the offset under the owner.
		must(t, one.SetOffset(ctx, "g", "t", mine[0].Partition, 5))
		if got, err := two.commit(t, theirs[0], 40, theirVersion); !isMoved(err, 5, theirVersion+1) || got != theirVersion {
			t.Errorf("moved: %d, %v", got, err)
		}
		if _, err := two.commit(t, theirs[0], 40, registry.NoVersion); !isMoved(err, 5, theirVersion+1) {
			t.Errorf("moved, none known: %v", err)
		}
		_, err = two.commit(t, theirs[0], 40, theirVersion+1)
		must(t, err)
		two.stored(t, theirs[0], 40, theirVersion+2)
		// And deleted it.
		must(t, one.Client().Delete(ctx, "/consumers/g/offsets/t/1-0", -1))
		if _, err := two.commit(t, theirs[0], 50, theirVersion+2); !isMoved(err, 0, registry.NoVersion) {
			t.Errorf("deleted: %v", err)
		}
		one.put(t, "/consumers/g/offsets/t/1-0", "far")
		if _, err := two.commit(t, theirs[0], 50, registry.NoVersion); len(bad(t, err)) != 1 {
			t.Errorf("no number: %v", err)
		}
	})
}

func isMoved(err error, offset int64, version int32) bool {
	var moved *registry.MovedError
	return errors.As(err, &moved) && moved.Offset == offset && moved.Version == version
}

// The owner nodes of two owners are alike, so neither is told from the other by
// its version: what is between them is the offset's version.
func TestCommitOfSecondOwner(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		one, two := join(t, c), join(t, c)
		mine, err := one.ClaimAll(ctx, one.session, "g", claims("t", "one-0", 1))
		must(t, err)
		version, err := one.commit(t, mine[0], 10, registry.NoVersion)
		must(t, err)
		// Somebody deletes the node while its session lives, as no consumer would.
		must(t, two.Client().Delete(ctx, "/consumers/g/owners/t/1-0", -1))
		theirs, err := two.ClaimAll(ctx, two.session, "g", claims("t", "two-0", 1))
		must(t, err)
		theirVersion, err := two.commit(t, theirs[0], 30, version)
		must(t, err)
		if _, err := one.commit(t, mine[0], 20, version); !errors.Is(err, registry.ErrNotOwner) {
			t.Errorf("error %v", err)
		}
		two.stored(t, theirs[0], 30, theirVersion)
	})
}
