package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// deletions finds out whether what goes wrong with a partition is that its topic was
// deleted. A nil one never says so.
type deletions struct{ reg *registry.Registry }

// deletedTimeout bounds how long a broker is asked for a topic.
const deletedTimeout = time.Second

// deleted asks the broker, as ZooKeeper hears of it a moment later. Where no answer
// comes it is false.
func (d *deletions) deleted(ctx context.Context, topic string, broker int32) bool {
	if d == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deletedTimeout)
	defer cancel()
	brokers, _ := d.reg.Brokers(ctx) // with an error it is what is known
	i := slices.IndexFunc(brokers, func(b registry.Broker) bool { return b.ID == broker })
	if i < 0 {
		return false
	}
	conn, err := client.Dial(ctx, brokers[i].Addr(), client.Config{})
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // it has answered, or failed
	_, err = conn.Topics(ctx, topic)
	return errors.Is(err, wire.CodeNoSuchTopic)
}
