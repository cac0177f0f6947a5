package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"kafkalab/kafka/coord"
)

// NewCreator returns the creator of a registration that is made now, as 0.7 writes
// it: "host-<milliseconds since the epoch>".
func NewCreator(host string, now time.Time) string {
	return host + "-" + strconv.FormatInt(now.UnixMilli(), 10)
}

// Brokers returns the brokers that live, by id. With a [*BadNodesError] come those
// whose nodes make sense.
func (r *Registry) Brokers(ctx context.Context) ([]Broker, error) {
	values, err := r.values(ctx, brokerIDs)
	if err != nil {
		return nil, fmt.Errorf("brokers: %w", err)
	}
	return parseBrokers(values)
}

func parseBrokers(values map[string][]byte) ([]Broker, error) {
	brokers := make([]Broker, 0, len(values))
	err := parseNodes(brokerIDs, values, func(name, value string) error {
		id, err := parseNumber(name, math.MaxInt32)
		if err != nil {
			return fmt.Errorf("broker id: %w", err)
		}
		b, err := ParseBroker(id, value)
		if err == nil {
			brokers = append(brokers, b)
		}
		return err
	})
	slices.SortFunc(brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	return brokers, err
}

// registerTries bounds the turns of a registration that finds a node, and then
// finds it gone or changed when it wants to take it over.
const registerTries = 10

// RegisterBroker makes the node of a broker, which belongs to the session. It must
// be called only once the broker serves.
//
// When the id has a node already, its creator says whose it is. One of ownCreators,
// those with which this broker has registered before, is what is left of an older
// session: it would vanish by itself one time-out after the broker's last sign of
// life, and take a registration that relied on it along. It is taken over in one
// step, by a multi that deletes and creates it (fault B14; with 0.7 such a broker
// fails to start, KAFKA-150). Any other is a [*TakenError].
//
// The multi deletes the node at the version at which it was read, and each node
// begins at the same version: if within the moment between the two the old session
// ends and a foreign broker registers, that one's node is replaced. The foreign
// broker finds out if it watches its own node, as ours do.
func (r *Registry) RegisterBroker(ctx context.Context, s *coord.Session, b Broker, ownCreators []string) error {
	if err := b.Check(); err != nil {
		return err
	}
	own := func(value string) error {
		holder, err := ParseBroker(b.ID, value)
		switch {
		case err != nil:
			return &BadNodesError{Nodes: []BadNode{{brokerPath(b.ID), err}}}
		case !slices.Contains(ownCreators, holder.Creator):
			return &TakenError{ID: b.ID, Host: holder.Host, Port: holder.Port}
		}
		return nil
	}
	if err := register(ctx, s, brokerPath(b.ID), b.String(), own); err != nil {
		return fmt.Errorf("register broker %d: %w", b.ID, err)
	}
	return nil
}

// register makes an ephemeral node, also where one is that own does not object to.
// A node of the same session with another value is always its own.
func register(ctx context.Context, s *coord.Session, path, value string, own func(value string) error) error {
	var err error
	for range registerTries {
		_, err = s.CreateEphemeral(ctx, path, []byte(value))
		var conflict *coord.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		if conflict.Stat.EphemeralOwner != s.ID() {
			if err := own(string(conflict.Data)); err != nil {
				return err
			}
		}
		err = s.Multi(ctx, coord.DeleteOp(path, conflict.Stat.Version), coord.CreateOp(path, []byte(value), true))
		if !errors.Is(err, coord.ErrNoNode) && !errors.Is(err, coord.ErrBadVersion) && !errors.Is(err, coord.ErrExists) {
			return err
		}
		// It has vanished, or was replaced, since it was read.
	}
	return err
}
