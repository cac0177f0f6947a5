package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// groupReset is how the offsets of a group are to be moved.
type groupReset struct {
	topics        []string
	dryRun, force bool

	offset int64 // from 0: this one
	timeMs int64 // otherwise: what an Offsets request names so
}

// parse reads the value of --to, and checks the topics.
func (r *groupReset) parse(to string) error {
	for i, t := range r.topics {
		if err := message.CheckTopic(t); err != nil {
			return usageError{err}
		}
		if slices.Contains(r.topics[:i], t) {
			return usagef("--topic %s is given twice", t)
		}
	}
	r.offset = -1
	switch endOfReset(to) {
	case "":
		return usagef("reset: --to is missing: smallest, largest, an offset or a time")
	case "smallest":
		r.timeMs = wire.TimeEarliest
		return nil
	case "largest":
		r.timeMs = wire.TimeLatest
		return nil
	}
	if n, err := strconv.ParseInt(to, 10, 64); err == nil && n >= 0 && n < math.MaxInt64 && !strings.HasPrefix(to, "+") {
		r.offset = n
		return nil
	}
	if t, err := time.Parse(time.RFC3339, to); err == nil && t.UnixMilli() >= 0 {
		r.timeMs = t.UnixMilli()
		return nil
	}
	return usagef("--to %q: smallest, largest, an offset from 0, or a time such as 2026-01-31T12:00:00Z is wanted", to)
}

// movedOffset is how the offset of a partition is, or would be, changed.
type movedOffset struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	BrokerID  int32  `json:"broker_id"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"` // nil: none was committed
	To        int64  `json:"to"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

// run moves the offsets. It finds out where to for all partitions before it
// changes any.
func (r *groupReset) run(ctx context.Context, a groupsAction, group string) error {
	if err := r.refuse(ctx, a, group); err != nil {
		return err
	}
	moves, err := r.find(ctx, a, group)
	if err != nil {
		return err
	}
	if !r.dryRun {
		for _, m := range moves {
			if err := a.reg.SetOffset(ctx, group, m.Topic, registry.Partition{Broker: m.BrokerID, Partition: m.Partition}, m.To); err != nil {
				return err
			}
		}
	}
	if err := a.printMoves(moves); err != nil {
		return err
	}
	if r.dryRun {
		fmt.Fprintln(a.notes, "dry run: nothing was changed")
	}
	return nil
}

// refuse refuses to move offsets under the hands of members.
func (r *groupReset) refuse(ctx context.Context, a groupsAction, group string) error {
	members, err := a.reg.Consumers(ctx, group)
	var bad *registry.BadNodesError
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	n := len(members)
	if bad != nil {
		n += len(bad.Nodes)
	}
	if n == 0 || r.force || r.dryRun {
		return nil
	}
	goOn, end := "they would go on where they are", "end them first"
	if n == 1 {
		goOn, end = "it would go on where it is", "end it first"
	}
	return fmt.Errorf("it has %s (%s): %s: %s, or use --force",
		count(n, "live member"), strings.Join(slices.Sorted(maps.Keys(members)), ", "), goOn, end)
}

// find returns the changes.
func (r *groupReset) find(ctx context.Context, a groupsAction, group string) ([]movedOffset, error) {
	brokers, err := a.zk.liveBrokers(ctx, a.reg, a.notes)
	if err != nil {
		return nil, err
	}
	committed, err := r.committed(ctx, a, group)
	if err != nil {
		return nil, err
	}
	if len(committed) == 0 {
		return nil, errors.New("no offset is committed, and so no topic known: name it with --topic")
	}
	topics := slices.Sorted(maps.Keys(committed))
	states, err := brokerStates(ctx, a.connect, brokers, topics...)
	if err != nil {
		return nil, err
	}
	var moves []movedOffset
	for _, id := range sortedPartitions(states) {
		b := brokers[slices.IndexFunc(brokers, func(b registry.Broker) bool { return b.ID == id.Broker })]
		to, err := r.target(ctx, b.Addr(), states[id])
		if err != nil {
			return nil, fmt.Errorf("%v: %w", id, err)
		}
		m := movedOffset{Group: group, Topic: id.topic, BrokerID: id.Broker, Partition: id.Partition.Partition, To: to, DryRun: r.dryRun}
		if from, ok := committed[id.topic][id.Partition]; ok {
			m.From = &from
		}
		moves = append(moves, m)
	}
	return moves, errors.Join(r.untouched(a, committed, states)...)
}

// committed returns the offsets of the topics that are meant.
func (r *groupReset) committed(ctx context.Context, a groupsAction, group string) (map[string]map[registry.Partition]int64, error) {
	topics := r.topics
	if len(topics) == 0 {
		var err error
		if topics, err = a.reg.GroupTopics(ctx, group); err != nil {
			return nil, err
		}
	}
	committed := map[string]map[registry.Partition]int64{}
	for _, t := range topics {
		offsets, err := a.reg.Offsets(ctx, group, t)
		if err := skipBad(err, a.notes); err != nil {
			return nil, err
		}
		committed[t] = offsets
	}
	return committed, nil
}

// untouched tells of committed offsets whose partition no live broker has, which
// stay as they are. Of a topic that no broker has it returns an error.
func (r *groupReset) untouched(a groupsAction, committed map[string]map[registry.Partition]int64, states map[partitionID]wire.TopicState) (errs []error) {
	has := map[string]bool{}
	for id := range states {
		has[id.topic] = true
	}
	for _, t := range slices.Sorted(maps.Keys(committed)) {
		if !has[t] && slices.Contains(r.topics, t) {
			errs = append(errs, fmt.Errorf("topic %q: %w at any broker that is registered", t, wire.CodeNoSuchTopic))
			continue
		}
		for p := range committed[t] {
			if _, ok := states[partitionID{t, p}]; !ok {
				fmt.Fprintf(a.notes, "the offset of %s %v stays as it is: no broker that is registered has the partition\n", t, p)
			}
		}
	}
	return errs
}

// target returns where a partition is to go on.
func (r *groupReset) target(ctx context.Context, broker string, s wire.TopicState) (int64, error) {
	switch {
	case r.offset >= 0:
		if r.offset < s.First || r.offset > s.LogEnd {
			return 0, fmt.Errorf("offset %d: %w: the log holds %d up to %d", r.offset, wire.CodeOffsetOutOfRange, s.First, s.LogEnd)
		}
		return r.offset, messageAt(ctx, broker, s, r.offset)
	case r.timeMs == wire.TimeEarliest:
		return s.First, nil
	case r.timeMs == wire.TimeLatest:
		return s.Watermark, nil
	}
	conn, err := client.Dial(ctx, broker, client.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // it has answered, or failed
	offsets, err := conn.Offsets(ctx, s.Topic, s.Partition, r.timeMs, 1)
	if err != nil {
		return 0, err
	}
	if len(offsets) == 0 { // everything was written after the time
		return s.First, nil
	}
	return offsets[0], nil
}

// messageAt checks that an offset is that of a message, as far as messages are
// visible: a consumer that began between two would fail.
func messageAt(ctx context.Context, broker string, s wire.TopicState, offset int64) error {
	if offset >= s.Watermark || offset == s.First {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: broker, Topic: s.Topic, Partition: s.Partition, Start: offset, Reset: consumer.ResetFail, Shallow: true})
	if err != nil {
		return err
	}
	_, err = stream.Next(ctx)
	return errors.Join(err, stream.Close())
}

func (a groupsAction) printMoves(moves []movedOffset) error {
	rows := [][]string{{"TOPIC", "PARTITION", "FROM", "TO"}}
	for _, m := range moves {
		if a.json {
			if err := writeJSON(a.out, m); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{m.Topic, registry.Partition{Broker: m.BrokerID, Partition: m.Partition}.String(), numberOrNone(m.From), fmt.Sprint(m.To)})
	}
	if a.json {
		return nil
	}
	return table(a.out, rows)
}
