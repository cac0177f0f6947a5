package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"kafkalab/kafka/coord"
)

// ConsumerID returns the id of a consumer of a group, as 0.7 writes it: the group
// and the name, "group_name".
func ConsumerID(group, name string) string { return group + "_" + name }

// NewConsumerID returns an id that no other consumer has, as 0.7 makes it:
// "group_<host name>-<milliseconds since the epoch>-<8 random hexadecimal digits>".
func NewConsumerID(group string, now time.Time) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this host, for the id of a consumer: %w", err)
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // it does not fail
	return ConsumerID(group, fmt.Sprintf("%s-%d-%x", host, now.UnixMilli(), random)), nil
}

// ThreadID returns the name of a consumer's nth stream of a topic, from 0: the
// value of the nodes of partitions that it owns.
func ThreadID(consumerID string, n int) string { return consumerID + "-" + strconv.Itoa(n) }

// ParseThreadID reads what [ThreadID] makes.
func ParseThreadID(thread string) (consumerID string, n int, err error) {
	i := strings.LastIndexByte(thread, '-')
	if i < 1 {
		return "", 0, fmt.Errorf("%.100q is not consumer-number", thread)
	}
	number, err := parseNumber(thread[i+1:], MaxStreams-1)
	if err != nil {
		return "", 0, fmt.Errorf("thread of %.100q: %w", thread, err)
	}
	return thread[:i], int(number), nil
}

// RegisterConsumer makes the node of a consumer, which belongs to the session. A
// node that is there already with another value, or of another session, as a
// consumer with a fixed name leaves it when it is killed, is a
// [*coord.ConflictError]: it vanishes when that session ends.
func (r *Registry) RegisterConsumer(ctx context.Context, s *coord.Session, group, consumerID string, subscription Subscription) error {
	if err := checkConsumer(group, consumerID); err != nil {
		return err
	}
	if _, err := s.CreateEphemeral(ctx, consumerPath(group, consumerID), []byte(subscription.Text())); err != nil {
		return fmt.Errorf("register consumer %s: %w", consumerID, err)
	}
	return nil
}

// UnregisterConsumer removes the node of a consumer if the session has made it.
func (r *Registry) UnregisterConsumer(ctx context.Context, s *coord.Session, group, consumerID string) error {
	if err := checkConsumer(group, consumerID); err != nil {
		return err
	}
	if err := deleteOwn(ctx, s, consumerPath(group, consumerID)); err != nil {
		return fmt.Errorf("unregister consumer %s: %w", consumerID, err)
	}
	return nil
}

func checkConsumer(group, consumerID string) error {
	if err := CheckGroup(group); err != nil {
		return err
	}
	return checkName("consumer", consumerID)
}

// deleteOwn deletes a node if it belongs to the session. One that is gone is fine.
func deleteOwn(ctx context.Context, s *coord.Session, path string) error {
	stat, exists, err := s.Exists(ctx, path)
	if err != nil || !exists || stat.EphemeralOwner != s.ID() {
		return err
	}
	// As long as the session lives nobody else can have put a node there, unless it
	// was deleted by a third one.
	if err := s.Delete(ctx, path, stat.Version); !errors.Is(err, coord.ErrNoNode) {
		return err
	}
	return nil
}

// Consumers returns the subscriptions of a group's consumers by id. With a
// [*BadNodesError] come those that make sense.
func (r *Registry) Consumers(ctx context.Context, group string) (map[string]Subscription, error) {
	if err := CheckGroup(group); err != nil {
		return nil, err
	}
	values, err := r.values(ctx, consumersPath(group))
	if err != nil {
		return nil, fmt.Errorf("consumers of group %s: %w", group, err)
	}
	consumers := make(map[string]Subscription, len(values))
	err = parseNodes(consumersPath(group), values, func(name, value string) error {
		s, err := ParseSubscription(value)
		if err == nil {
			consumers[name] = s
		}
		return err
	})
	return consumers, err
}

// Groups returns the names of the consumer groups, sorted; also of those that have
// no consumer now.
func (r *Registry) Groups(ctx context.Context) ([]string, error) {
	names, err := r.names(ctx, groups)
	if err != nil {
		return nil, fmt.Errorf("consumer groups: %w", err)
	}
	return names, nil
}

// DeleteGroup removes a group with its offsets. One that has consumers is an
// [*ActiveGroupError]; one that is not there is fine.
func (r *Registry) DeleteGroup(ctx context.Context, group string) error {
	if err := CheckGroup(group); err != nil {
		return err
	}
	// The folder of the consumers can be deleted only while it is empty.
	err := r.deleteNode(ctx, consumersPath(group))
	if errors.Is(err, coord.ErrNotEmpty) {
		ids, namesErr := r.names(ctx, consumersPath(group))
		if namesErr == nil && len(ids) > 0 {
			return &ActiveGroupError{Group: group, Consumers: ids}
		}
		err = errors.Join(err, namesErr)
	}
	if err == nil {
		err = r.client.DeleteTree(ctx, groupPath(group))
	}
	if err != nil {
		return fmt.Errorf("delete group %s: %w", group, err)
	}
	return nil
}
