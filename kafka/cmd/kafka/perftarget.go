package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"kafkalab/kafka/client"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// perfTarget is where the partitions are that perf measures: at one broker, or at
// all that are registered in ZooKeeper.
type perfTarget struct {
	o       *perfOptions
	conn    *client.Conn       // to the one broker
	reg     *registry.Registry // otherwise
	brokers []registry.Broker
}

// open connects to the brokers.
func (o *perfOptions) open(ctx context.Context) (*perfTarget, error) {
	t := &perfTarget{o: o}
	var err error
	if o.zk.servers == "" {
		t.conn, err = o.connect.dial(ctx, o.broker)
		return t, err
	}
	if t.reg, err = o.zk.open(ctx, o.noteTo()); err != nil {
		return nil, err
	}
	if t.brokers, err = o.zk.liveBrokers(ctx, t.reg, o.noteTo()); err != nil {
		closeRegistry(t.reg, o.noteTo())
		return nil, err
	}
	return t, nil
}

// noteTo returns where notes go, nowhere if there are none.
func (o *perfOptions) noteTo() io.Writer {
	if o.progress == nil {
		return io.Discard
	}
	return o.progress
}

func (t *perfTarget) close() {
	if t.reg != nil {
		closeRegistry(t.reg, t.o.noteTo())
		return
	}
	_ = t.conn.Close() // it has answered all that it was asked
}

// partitions returns the states of the partitions that are meant. A topic that
// does not exist is wire.CodeNoSuchTopic.
func (t *perfTarget) partitions(ctx context.Context) ([]wire.TopicState, error) {
	if t.reg == nil {
		return t.o.perfPartitions(ctx, t.conn)
	}
	states, err := brokerStates(ctx, t.o.connect, t.brokers, t.o.topic)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, noTopicAtAll(t.o.topic, len(t.brokers))
	}
	return slices.Collect(maps.Values(states)), nil
}

// perfPartitions returns the states of the partitions that are meant. A topic
// that does not exist is wire.CodeNoSuchTopic.
func (o *perfOptions) perfPartitions(ctx context.Context, c *client.Conn) ([]wire.TopicState, error) {
	if o.partition != allPartitions {
		s, err := askPartition(ctx, c, o.topic, o.partition)
		return []wire.TopicState{s}, err
	}
	states, err := c.Topics(ctx, o.topic)
	if errors.Is(err, wire.CodeNoSuchTopic) {
		return nil, noSuchTopic(o.topic, c.Addr())
	}
	return states, err
}
