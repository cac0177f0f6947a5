package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// partitionState is a partition at a broker, as it is printed.
type partitionState struct {
	Broker    string `json:"broker"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first_offset"`
	Watermark int64  `json:"watermark"`
	LogEnd    int64  `json:"log_end"`
	Segments  int32  `json:"segments"`
	Bytes     int64  `json:"bytes"`
	*clusterColumns
}

// states asks every broker for its partitions of the topics (none: all). What was
// answered is returned beside an error of some of them. A topic that a broker
// does not have is no error: it merely is not in the answer.
func (a topicsAction) states(ctx context.Context) ([]partitionState, error) {
	var all []partitionState
	err := a.eachBroker(ctx, func(c *client.Conn) error {
		states, err := c.Topics(ctx, a.topics...)
		for _, s := range states {
			all = append(all, partitionState{c.Addr(), s.Topic, s.Partition, s.First, s.Watermark, s.LogEnd, s.Segments, s.Bytes, a.cluster.columns(c.Addr(), s)})
		}
		if err == nil || errors.Is(err, wire.CodeNoSuchTopic) {
			return nil // another broker may have it
		}
		return fmt.Errorf("broker %s: %w", c.Addr(), err)
	})
	slices.SortStableFunc(all, func(a, b partitionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Partition, b.Partition))
	})
	return all, err
}

// listedTopic is a topic as list prints it in JSON.
type listedTopic struct {
	Topic      string         `json:"topic"`
	Partitions int            `json:"partitions"` // at all brokers
	Brokers    []listedBroker `json:"brokers"`
}

type listedBroker struct {
	Broker     string `json:"broker"`
	Partitions int    `json:"partitions"`
}

func (a topicsAction) list(ctx context.Context) error {
	states, err := a.states(ctx)
	var topics []listedTopic
	for _, s := range states { // sorted by topic and broker
		if n := len(topics); n == 0 || topics[n-1].Topic != s.Topic {
			topics = append(topics, listedTopic{Topic: s.Topic})
		}
		t := &topics[len(topics)-1]
		if n := len(t.Brokers); n == 0 || t.Brokers[n-1].Broker != s.Broker {
			t.Brokers = append(t.Brokers, listedBroker{Broker: s.Broker})
		}
		t.Partitions++
		t.Brokers[len(t.Brokers)-1].Partitions++
	}
	topics = a.cluster.addUnheld(topics)
	for _, t := range topics {
		var perr error
		if a.json {
			perr = writeJSON(a.out, t)
		} else {
			_, perr = fmt.Fprintln(a.out, t.Topic)
		}
		if perr != nil {
			return perr
		}
	}
	return err
}

func (a topicsAction) describe(ctx context.Context) error {
	states, err := a.states(ctx)
	if perr := a.printStates(states); perr != nil {
		return perr
	}
	failed := err != nil // then nobody knows what one of the brokers has
	for _, t := range a.topics {
		without := a.brokersWithout(states, t)
		if len(without) == len(a.brokers) {
			err = errors.Join(err, fmt.Errorf("topic %s: %w", t, wire.CodeNoSuchTopic))
			continue
		}
		for _, b := range without {
			if !failed {
				fmt.Fprintf(a.notes, "broker %s does not have topic %s\n", b, t)
			}
		}
	}
	return err
}

// brokersWithout returns the brokers from which no partition of a topic is known.
func (a topicsAction) brokersWithout(states []partitionState, topic string) (without []string) {
	for _, b := range a.brokers {
		if !slices.ContainsFunc(states, func(s partitionState) bool { return s.Topic == topic && s.Broker == b }) {
			without = append(without, b)
		}
	}
	return without
}

func (a topicsAction) printStates(states []partitionState) error {
	rows := [][]string{append([]string{"TOPIC", "BROKER", "PARTITION", "FIRST", "WATERMARK", "LOG END", "SEGMENTS", "BYTES"}, a.cluster.header()...)}
	for _, s := range states {
		if a.json {
			if err := writeJSON(a.out, s); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, append([]string{s.Topic, s.Broker, fmt.Sprint(s.Partition), fmt.Sprint(s.First),
			fmt.Sprint(s.Watermark), fmt.Sprint(s.LogEnd), fmt.Sprint(s.Segments), fmt.Sprint(s.Bytes)}, s.clusterColumns.text()...))
	}
	if a.json || len(states) == 0 {
		return nil
	}
	return table(a.out, rows)
}
