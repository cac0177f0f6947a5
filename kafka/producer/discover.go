package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// registryDirectory follows the registries in ZooKeeper (NetDB'11 §3.2). While
// ZooKeeper is away what it told last holds.
type registryDirectory struct {
	cluster  *Cluster
	registry *registry.Registry
	own      *coord.Client // made by open, or nil
	brokers  *registry.Watch
}

func (d *registryDirectory) open(ctx context.Context) error {
	if d.registry == nil {
		cfg := d.cluster.cfg.ZooKeeper
		if cfg.Logger == nil {
			cfg.Logger = d.cluster.cfg.Logger
		}
		client, err := coord.Connect(ctx, cfg)
		if err != nil {
			return err
		}
		d.own, d.registry = client, registry.New(client)
	}
	d.brokers = d.registry.WatchBrokers(d.cluster.brokersFound)
	ctx, cancel := d.cluster.waitAtMost(ctx)
	defer cancel()
	if err := d.brokers.Ready(ctx); err != nil {
		return fmt.Errorf("the registered brokers are not known yet: %w", err)
	}
	return nil
}

func (d *registryDirectory) follow(t *topicRoute) {
	t.watch = d.registry.WatchTopic(t.name, func(counts map[int32]int32) { d.cluster.partitionsFound(t, counts) })
}

// lookAgain reads the registry itself, which the watches may be behind. The routes
// are changed by the watches alone, as what is read could be older than what they
// have told.
func (d *registryDirectory) lookAgain(ctx context.Context, t *topicRoute, broker int32, n int) error {
	ctx, cancel := d.cluster.waitAtMost(ctx)
	defer cancel()
	change := d.cluster.change()
	brokers, err := d.registry.Brokers(ctx)
	if bad := (*registry.BadNodesError)(nil); err != nil && !errors.As(err, &bad) {
		return fmt.Errorf("send to %s: look for broker %d: %w", t.name, broker, err)
	}
	pause := time.Duration(n) * lookPause
	for _, b := range brokers {
		if b.ID == broker {
			pause = d.cluster.cfg.DialTimeout // the watch will tell as well
		}
	}
	select {
	case <-change:
	case <-time.After(pause):
	case <-d.cluster.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("send to %s: wait for broker %d to be registered: %w", t.name, broker, ctx.Err())
	}
	return nil
}

// lookSoon has nothing to do: the watches tell what changes.
func (d *registryDirectory) lookSoon() {}

func (d *registryDirectory) close() error {
	if d.brokers != nil {
		d.brokers.Close()
	}
	for _, t := range d.cluster.closeTopics() {
		t.watch.Close() // not with the cluster's mu, which it may wait for
	}
	if d.own == nil {
		return nil
	}
	return d.own.Close()
}

// closeTopics ends the making of producers and of topics, of which it returns all.
func (c *Cluster) closeTopics() (topics []*topicRoute) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, t := range c.asked {
		topics = append(topics, t)
	}
	return topics
}

// lookPause is the time between two looks for a broker.
const lookPause = 100 * time.Millisecond
