// Package kafka drives this project's own broker and clients as a system under
// test. It uses nothing that another program could not use: the broker is the
// program "kafka broker", and the client half is the public packages producer,
// consumer and client.
//
// A queue is partition 0 of a topic of the same name. Its messages must all be
// of one size: Kafka counts bytes, and the number of messages that have arrived
// is the end of the log over the size of an entry, 9 + n bytes for a payload
// of n. (Compressed ones are counted by what each batch takes, or by reading.)
//
// With the option brokers it is a cluster: several brokers and the ZooKeeper
// in which they meet, all on the broker host, and a group of consumers on the
// client host, each a process of its own.
package kafka

import (
	"context"
	"fmt"
	"slices"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

type kafka struct{}

// New returns the driver.
func New() driver.Driver { return kafka{} }

func (kafka) Name() string { return "kafka" }

func (kafka) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	opts, err := readOptions(o)
	if err != nil {
		return err
	}
	if opts.cluster.brokers > 1 && opts.cluster.zooKeeper == "real" {
		if err := checkZooKeeper(ctx, broker); err != nil {
			return err
		}
	}
	_, err = broker.Binary(ctx, "kafka")
	return err
}

func (kafka) Start(ctx context.Context, broker host.Host, dir string, o driver.Options) (driver.Server, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	program, err := broker.Binary(ctx, "kafka")
	if err != nil {
		return nil, err
	}
	if opts.cluster.brokers > 1 {
		return startCluster(ctx, broker, program, dir, opts)
	}
	return startBroker(ctx, broker, program, dir, opts)
}

func (kafka) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	return connect(ctx, target.Addr, opts)
}

// FanOut returns the queue itself each time: everybody reads the one log.
func (c *conn) FanOut(_ context.Context, queue string, groups int) ([]string, error) {
	if groups < 2 {
		return nil, fmt.Errorf("kafka: %d groups of queue %q: 2 or more are wanted", groups, queue)
	}
	if _, err := c.queue(queue); err != nil {
		return nil, err
	}
	return slices.Repeat([]string{queue}, groups), nil
}
