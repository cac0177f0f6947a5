package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"kafkalab/kafka/coord"
)

// Topics returns the names of the topics, sorted. A topic stays when the last
// broker that has it is gone.
func (r *Registry) Topics(ctx context.Context) ([]string, error) {
	names, err := r.names(ctx, topics)
	if err != nil {
		return nil, fmt.Errorf("topics: %w", err)
	}
	return names, nil
}

// TopicBrokers returns the brokers that have a topic, with the number of partitions
// that each has of it, 1 to [MaxPartitions]; none if the topic is not registered.
// With a [*BadNodesError] come those whose nodes make sense. A broker that is gone
// may still stand there until its session has ended.
func (r *Registry) TopicBrokers(ctx context.Context, topic string) (map[int32]int32, error) {
	if err := checkName("topic", topic); err != nil {
		return nil, err
	}
	values, err := r.values(ctx, topicPath(topic))
	if err != nil {
		return nil, fmt.Errorf("brokers of topic %s: %w", topic, err)
	}
	return parseTopicBrokers(topic, values)
}

func parseTopicBrokers(topic string, values map[string][]byte) (map[int32]int32, error) {
	counts := make(map[int32]int32, len(values))
	err := parseNodes(topicPath(topic), values, func(name, value string) error {
		id, err := parseNumber(name, math.MaxInt32)
		if err != nil {
			return fmt.Errorf("broker id: %w", err)
		}
		count, err := parseNumber(value, MaxPartitions)
		if err == nil && count == 0 {
			err = errors.New("0 is no number of partitions")
		}
		if err != nil {
			return fmt.Errorf("partitions: %w", err)
		}
		counts[id] = count
		return nil
	})
	return counts, err
}

// Partitions returns the partitions of a topic, those of all brokers, sorted by
// [Partition.Compare]. With a [*BadNodesError] come those of the brokers whose
// nodes make sense.
func (r *Registry) Partitions(ctx context.Context, topic string) ([]Partition, error) {
	counts, err := r.TopicBrokers(ctx, topic)
	return partitionsOf(counts), err
}

// partitionsOf returns the partitions of a topic of which each broker has so many,
// sorted by [Partition.Compare].
func partitionsOf(counts map[int32]int32) []Partition {
	var partitions []Partition
	for _, broker := range slices.Sorted(maps.Keys(counts)) {
		for p := range counts[broker] {
			partitions = append(partitions, Partition{Broker: broker, Partition: p})
		}
	}
	return partitions
}

// RegisterTopic makes the node that says how many partitions a broker has of a
// topic, 1 to [MaxPartitions]. It belongs to the session, which must be the one
// that has registered the broker: a node that is there already is then left from
// an older session of the broker, and taken over as by [Registry.RegisterBroker].
func (r *Registry) RegisterTopic(ctx context.Context, s *coord.Session, topic string, brokerID, partitions int32) error {
	if err := checkName("topic", topic); err != nil {
		return err
	}
	if brokerID < 0 || partitions < 1 || partitions > MaxPartitions {
		return fmt.Errorf("register topic %s: %d partitions at broker %d: 1 to %d at a broker of 0 or more are possible", topic, partitions, brokerID, MaxPartitions)
	}
	value := strconv.Itoa(int(partitions))
	err := register(ctx, s, topicBrokerPath(topic, brokerID), value, func(string) error { return nil })
	if err != nil {
		return fmt.Errorf("register topic %s of broker %d: %w", topic, brokerID, err)
	}
	return nil
}

// UnregisterTopic removes a topic that a broker has deleted: its node, and in every
// group the owners and offsets of its partitions at that broker, as their offsets
// mean nothing for a topic that is made anew under the name. When no other broker
// has it the topic itself is removed too. Owners go before offsets, so that no
// consumer that has not noticed commits in between. What is missing is fine: it may
// be done again when it has failed.
func (r *Registry) UnregisterTopic(ctx context.Context, topic string, brokerID int32) error {
	if err := checkName("topic", topic); err != nil {
		return err
	}
	if err := r.unregisterTopic(ctx, topic, brokerID); err != nil {
		return fmt.Errorf("unregister topic %s of broker %d: %w", topic, brokerID, err)
	}
	return nil
}

func (r *Registry) unregisterTopic(ctx context.Context, topic string, brokerID int32) error {
	if err := r.deleteNode(ctx, topicBrokerPath(topic, brokerID)); err != nil {
		return err
	}
	// Only a topic without brokers can be deleted, so this is what decides.
	err := r.deleteNode(ctx, topicPath(topic))
	othersHaveIt := errors.Is(err, coord.ErrNotEmpty)
	if err != nil && !othersHaveIt {
		return err
	}
	groups, err := r.Groups(ctx)
	if err != nil {
		return err
	}
	ofBroker := strconv.Itoa(int(brokerID)) + "-"
	for _, group := range groups {
		for _, path := range []string{topicOwnersPath(group, topic), topicOffsetsPath(group, topic)} {
			if othersHaveIt {
				err = r.deleteBelow(ctx, path, ofBroker)
			} else {
				err = r.client.DeleteTree(ctx, path)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// NoteLog notes for good which log is that of a topic in this cluster, by a name that no
// other one has, unless one is noted already, and returns the name that is. A broker that has
// another log of the topic, made while the one that has this was away, can be told from it so,
// and a topic that was deleted at all brokers that live from one that never was. With no name
// ("") nothing is noted.
func (r *Registry) NoteLog(ctx context.Context, topic, log string) (noted string, err error) {
	if err := checkName("topic", topic); err != nil {
		return "", err
	}
	path := begunPath(topic)
	for {
		data, st, err := r.client.Get(ctx, path)
		missing := errors.Is(err, coord.ErrNoNode)
		switch {
		case err != nil && !missing:
			return "", fmt.Errorf("which log topic %s has: %w", topic, err)
		case len(data) > 0 || log == "":
			return string(data), nil
		case missing:
			err = r.client.Create(ctx, path, []byte(log))
		default:
			_, err = r.client.Set(ctx, path, []byte(log), st.Version)
		}
		// Another one may have been faster, and an answer may be lost: it is read again.
		again := err == nil || errors.Is(err, coord.ErrExists) || errors.Is(err, coord.ErrNoNode) || errors.Is(err, coord.ErrBadVersion) || errors.Is(err, coord.ErrInDoubt)
		if !again || ctx.Err() != nil {
			return "", fmt.Errorf("note which log topic %s has: %w", topic, errors.Join(err, ctx.Err()))
		}
	}
}

// ForgetLog takes back what NoteLog has noted.
func (r *Registry) ForgetLog(ctx context.Context, topic string) error {
	if err := checkName("topic", topic); err != nil {
		return err
	}
	if err := r.deleteNode(ctx, begunPath(topic)); err != nil {
		return fmt.Errorf("forget which log topic %s has: %w", topic, err)
	}
	return nil
}

// deleteNode deletes a node that may be gone already.
func (r *Registry) deleteNode(ctx context.Context, path string) error {
	if err := r.client.Delete(ctx, path, -1); !errors.Is(err, coord.ErrNoNode) {
		return err
	}
	return nil
}

// deleteBelow deletes the nodes below a path whose names begin so.
func (r *Registry) deleteBelow(ctx context.Context, path, prefix string) error {
	names, err := r.names(ctx, path)
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := r.deleteNode(ctx, path+"/"+name); err != nil {
				return err
			}
		}
	}
	return err
}
