package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/wire"
)

// connector makes a command's connections. A broker that was started a moment
// ago does not listen yet, so an address where nobody does is tried again, up to
// a point in time that is one for all brokers of the command. A nil connector
// tries once.
type connector struct {
	begin, until time.Time
	notes        io.Writer
	said         bool // that it is trying
}

const (
	defaultConnectTimeout = 3 * time.Second
	connectInterval       = 100 * time.Millisecond // between two attempts
	connectNoteAfter      = time.Second            // of trying, the user is told
)

// connectFlag adds the flag for how long a connector tries.
func (f *flagSet) connectFlag() *time.Duration {
	return f.Duration("connect-timeout", defaultConnectTimeout, "how long to try again while nobody listens at a broker's address, 0: not at all; with --zk-connect also how long to wait for ZooKeeper, 1s at least, and for a broker that is registered there")
}

func newConnector(timeout time.Duration, notes io.Writer) (*connector, error) {
	if timeout < 0 {
		return nil, usagef("--connect-timeout %v: 0 or more is wanted", timeout)
	}
	now := time.Now()
	return &connector{begin: now, until: now.Add(timeout), notes: notes}, nil
}

func (c *connector) dial(ctx context.Context, broker string) (conn *client.Conn, err error) {
	err = c.try(ctx, func() error {
		conn, err = client.Dial(ctx, broker, client.Config{})
		return err
	})
	return conn, err
}

// try calls connect until it does not fail because nobody listens.
func (c *connector) try(ctx context.Context, connect func() error) error {
	return c.tryFor(ctx, "is a broker running there? \"kafka broker\" starts one", connect)
}

// tryRegistry is try where a schema registry should listen.
func (c *connector) tryRegistry(ctx context.Context, connect func() error) error {
	return c.tryFor(ctx, "is a schema registry running there? \"kafka schema-registry\" starts one", connect)
}

func (c *connector) tryFor(ctx context.Context, hint string, connect func() error) error {
	for {
		err := connect()
		if c == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		if !time.Now().Before(c.until) {
			return fmt.Errorf("%w: %s", err, hint)
		}
		if !c.said && time.Since(c.begin) >= connectNoteAfter {
			c.said = true
			fmt.Fprintf(c.notes, "%v; trying again for %v in all\n", err, c.until.Sub(c.begin))
		}
		select {
		case <-time.After(min(connectInterval, max(time.Until(c.until), 0))):
		case <-ctx.Done():
			return err
		}
	}
}

// noSuchTopic is the error of a broker that does not have a topic.
func noSuchTopic(topic, broker string) error {
	return fmt.Errorf("topic %q: %w at %s", topic, wire.CodeNoSuchTopic, broker)
}

// askPartition asks a broker for the state of a partition. The error is that of
// noSuchTopic when it does not have the topic.
func askPartition(ctx context.Context, c *client.Conn, topic string, partition int32) (wire.TopicState, error) {
	states, err := c.Topics(ctx, topic)
	if errors.Is(err, wire.CodeNoSuchTopic) {
		return wire.TopicState{}, noSuchTopic(topic, c.Addr())
	}
	if err != nil {
		return wire.TopicState{}, err
	}
	for _, s := range states {
		if s.Topic == topic && s.Partition == partition {
			return s, nil
		}
	}
	return wire.TopicState{}, fmt.Errorf("broker %s has no partition %s-%d: \"kafka topics describe\" tells what it has", c.Addr(), topic, partition)
}

// outOfRange is the error of an offset that a partition does not have.
func outOfRange(offset int64, s wire.TopicState) error {
	return fmt.Errorf("consume %s-%d: offset %d: %w: the log holds %d up to %d", s.Topic, s.Partition, offset, wire.CodeOffsetOutOfRange, s.First, s.LogEnd)
}

// streamNotes tells the user what happens to the streams of a command, a line
// each: that their broker went away and is back, and where an offset was moved.
type streamNotes struct {
	out    io.Writer
	broker string

	mu   sync.Mutex
	down bool      // the user was told so last
	said time.Time // when that was
}

// noteInterval is the least time between two notes that the broker went away.
const noteInterval = 10 * time.Second

// hooks returns what a stream calls; none for nil.
func (n *streamNotes) hooks() consumer.Hooks {
	if n == nil {
		return consumer.Hooks{}
	}
	return consumer.Hooks{Disconnected: n.disconnected, Connected: n.connected, Reset: n.reset}
}

func (n *streamNotes) disconnected(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down || !n.said.IsZero() && time.Since(n.said) < noteInterval {
		return // a later attempt that fails says it
	}
	n.down, n.said = true, time.Now()
	why := err.Error()
	if errors.Is(err, client.ErrPeerClosed) {
		why = "closed by the broker"
	}
	fmt.Fprintf(n.out, "connection to %s lost (%s), trying again\n", n.broker, why)
}

func (n *streamNotes) connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		n.down = false
		fmt.Fprintf(n.out, "connected to %s again\n", n.broker)
	}
}

func (n *streamNotes) reset(from, to int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, "offset %d is out of range, going on at %d\n", from, to)
}
