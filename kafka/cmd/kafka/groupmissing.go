package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
)

// missing finds out what a member that waits is waiting for, a line each: brokers,
// topics, or partitions that others own.
type missing struct {
	zk    zkOptions
	reg   *registry.Registry
	group string
	sub   registry.Subscription
}

// tell tells it once the member has settled.
func (m *missing) tell(ctx context.Context, g *consumer.Group, notes *groupNotes) {
	if g.Settled(ctx) != nil {
		return // it ends
	}
	why, err := m.find(ctx, len(g.Owned()) > 0)
	if err != nil && ctx.Err() == nil {
		notes.problem(err)
	}
	for _, line := range why {
		_, _ = fmt.Fprintln(notes, line)
	}
}

// find returns what is missing. reads says that the member has partitions.
func (m *missing) find(ctx context.Context, reads bool) (why []string, err error) {
	brokers, err := m.reg.Brokers(ctx)
	if err := skipBad(err, io.Discard); err != nil {
		return nil, err
	}
	if len(brokers) == 0 && !reads {
		return []string{fmt.Sprintf("no broker is registered in ZooKeeper at %s: waiting for one", m.zk.servers)}, nil
	}
	topics, err := m.reg.Topics(ctx)
	if err := skipBad(err, io.Discard); err != nil {
		return nil, err
	}
	there := slices.DeleteFunc(topics, func(t string) bool { return !m.sub.Matches(t) })
	partitions := 0
	var read []string
	for _, t := range there {
		of, err := m.reg.Partitions(ctx, t)
		if err := skipBad(err, io.Discard); err != nil {
			return nil, err
		}
		if len(of) > 0 {
			partitions += len(of)
			read = append(read, t)
		}
	}
	for _, t := range m.sub.Topics() {
		if !slices.Contains(read, t) {
			why = append(why, fmt.Sprintf("%v at %s: waiting for it", noTopicAtAll(t, len(brokers)), m.zk.servers))
		}
	}
	switch {
	case reads:
	case m.sub.Wildcard() && partitions == 0:
		why = append(why, fmt.Sprintf("no topic registered in ZooKeeper at %s is one that %s takes: waiting for one", m.zk.servers, m.sub.Text()))
	case partitions > 0:
		why = append(why, fmt.Sprintf("other members of group %s read %s of %s: waiting for one to become free", m.group, allOf(partitions), strings.Join(read, ", ")))
	}
	return why, nil
}

// allOf says that all of so many partitions are meant.
func allOf(partitions int) string {
	if partitions == 1 {
		return "the one partition"
	}
	return fmt.Sprintf("all %d partitions", partitions)
}
