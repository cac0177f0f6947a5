package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// Flags of the commands that find the brokers either in a list or in ZooKeeper.
const (
	listFlag = "broker-list"
	zkFlag   = "zk-connect"
)

// zkConnectFlag adds the flag for ZooKeeper's servers.
func (f *flagSet) zkConnectFlag() *string {
	return f.String(zkFlag, "", "ZooKeeper, HOST:PORT, several divided by commas, with /PATH at the end if the cluster has its nodes below one")
}

// oneSource checks that the brokers are named in one of the two ways.
func (f *flagSet) oneSource() error {
	switch list, zk := f.Changed(listFlag), f.Changed(zkFlag); {
	case list && zk:
		return usagef("--broker-list and --zk-connect are both given: ZooKeeper knows the brokers, so one of them is enough")
	case !list && !zk:
		return usagef("--broker-list is missing, or --zk-connect where the brokers are registered in ZooKeeper")
	}
	return nil
}

// refuse refuses flags that make no sense with what else is given, and says why.
func (f *flagSet) refuse(why string, names ...string) error {
	for _, name := range names {
		if f.Changed(name) {
			return usagef("--%s: %s", name, why)
		}
	}
	return nil
}

// leastZKConnect is how long ZooKeeper is given for the first session, also by
// those who do not want to wait for a broker.
const leastZKConnect = time.Second

// zkOptions say how to get at the registries.
type zkOptions struct {
	servers string
	session time.Duration // time-out of the session, 0: the default
	connect time.Duration // how long to try
	joins   bool          // the command makes nodes of its own: that of the root too, if it is missing
}

func (z zkOptions) config() coord.Config {
	return coord.Config{Servers: z.servers, SessionTimeout: z.session, ConnectTimeout: max(z.connect, leastZKConnect), LeaveRoot: !z.joins}
}

// check returns a usage error when the options make no sense.
func (z zkOptions) check() error {
	if z.connect < 0 {
		return usagef("--connect-timeout %v: 0 or more is wanted", z.connect)
	}
	if z.session < 0 {
		return usagef("--zk-session-timeout %v: more than 0 is wanted", z.session)
	}
	if err := z.config().Check(); err != nil {
		return usagef("--zk-connect: %w", err)
	}
	return nil
}

// open connects to ZooKeeper, and tells when that takes long. The registry is to be
// closed with closeRegistry.
func (z zkOptions) open(ctx context.Context, notes io.Writer) (*registry.Registry, error) {
	if err := z.check(); err != nil {
		return nil, err
	}
	cfg := z.config()
	connecting := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-time.After(connectNoteAfter):
			if cfg.ConnectTimeout > connectNoteAfter {
				fmt.Fprintf(notes, "ZooKeeper at %s is not reached; trying again for %v in all\n", z.servers, cfg.ConnectTimeout)
			}
		case <-connecting:
		}
	}()
	c, err := coord.Connect(ctx, cfg)
	close(connecting)
	<-told
	switch {
	case errors.Is(err, coord.ErrUnavailable):
		return nil, fmt.Errorf("%w: is ZooKeeper running there? For a first try \"kafka zookeeper\" starts one", err)
	case err != nil:
		return nil, err
	}
	return registry.New(c), nil
}

// mustHaveRoot returns an error if there is nothing at all below the path of
// ZooKeeper that is given, as when it is mistyped.
func (z zkOptions) mustHaveRoot(ctx context.Context, r *registry.Registry) error {
	if _, exists, err := r.Client().Exists(ctx, "/"); err != nil || exists {
		return err
	}
	return fmt.Errorf("ZooKeeper has no node %s: no broker was ever registered at %s", z.servers[strings.IndexByte(z.servers, '/'):], z.servers)
}

// noBroker is the error where no broker is registered.
func (z zkOptions) noBroker() error {
	return fmt.Errorf("no broker is registered in ZooKeeper at %s: start one with \"kafka broker --zk-connect %s\"", z.servers, z.servers)
}

// noTopicAtAll is the error of a topic that none of so many brokers has.
func noTopicAtAll(topic string, brokers int) error {
	where := fmt.Sprintf("any of the %d brokers", brokers)
	if brokers == 1 {
		where = "the one broker"
	}
	return fmt.Errorf("topic %q: %w at %s registered in ZooKeeper", topic, wire.CodeNoSuchTopic, where)
}

// closeRegistry ends the session. That it did not end cleanly changes nothing of
// what the command has done, as it holds nothing any more.
func closeRegistry(r *registry.Registry, notes io.Writer) {
	if err := r.Client().Close(); err != nil {
		fmt.Fprintf(notes, "close the connection to ZooKeeper: %v\n", err)
	}
}

// skipBad tells of nodes that make no sense. They are left out of what came beside
// the error, and are none of what a command does.
func skipBad(err error, notes io.Writer) error {
	var bad *registry.BadNodesError
	if errors.As(err, &bad) {
		fmt.Fprintln(notes, err)
		return nil
	}
	return err
}

// liveBrokers returns the brokers that are registered, by id. One that was started
// a moment ago is not registered yet, so it waits for the first; none is an error.
func (z zkOptions) liveBrokers(ctx context.Context, r *registry.Registry, notes io.Writer) ([]registry.Broker, error) {
	for until := time.Now().Add(z.connect); ; {
		brokers, err := r.Brokers(ctx)
		if err := skipBad(err, notes); err != nil {
			return nil, err
		}
		if len(brokers) > 0 {
			return brokers, nil
		}
		if !time.Now().Before(until) {
			return nil, z.noBroker()
		}
		select {
		case <-time.After(connectInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// partitionID is a partition of a cluster.
type partitionID struct {
	topic string
	registry.Partition
}

func (p partitionID) String() string { return p.topic + " " + p.Partition.String() }

// brokerStates asks each broker for its partitions of the topics (none: all).
// What was answered is returned beside the errors of those that could not be
// asked. A topic that a broker does not have merely is not in the answer.
func brokerStates(ctx context.Context, connect *connector, brokers []registry.Broker, topics ...string) (map[partitionID]wire.TopicState, error) {
	states := map[partitionID]wire.TopicState{}
	var errs []error
	for _, b := range brokers {
		errs = append(errs, func() error {
			conn, err := connect.dial(ctx, b.Addr())
			if err != nil {
				return fmt.Errorf("broker %d: %w", b.ID, err)
			}
			defer func() { _ = conn.Close() }() // what it was for has been answered, or failed
			answer, err := conn.Topics(ctx, topics...)
			for _, s := range answer {
				states[partitionID{s.Topic, registry.Partition{Broker: b.ID, Partition: s.Partition}}] = s
			}
			if err == nil || errors.Is(err, wire.CodeNoSuchTopic) {
				return nil // another broker may have it
			}
			return fmt.Errorf("broker %d at %s: %w", b.ID, b.Addr(), err)
		}())
	}
	return states, errors.Join(errs...)
}
