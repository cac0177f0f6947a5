package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func topicsCommand() command {
	return command{name: "topics", summary: "list, describe, create and delete topics", run: runTopics}
}

const topicsAbout = `list      prints the topics that the brokers hold, one a line
describe  prints each partition: first offset, watermark (the exclusive end of
          what is visible), log end, segments, bytes; of all topics if none is
          named. With --group also which stream of the group owns it (NO OWNER
          where none does, though it should; "not read" of topics that the group
          has nothing to do with), the offset that it has committed, and its lag
          in bytes against the watermark
create    makes topics with --partitions partitions at every broker; with
          --zk-connect it returns when ZooKeeper knows them
delete    removes topics with all that they hold, at every broker that has them

The brokers are those of --broker-list, or all that are registered in ZooKeeper.
Every one is asked, also when one of them fails; the exit status is 1 then. What
failed can be repeated.`

const topicsExamples = `  kafka topics list --broker-list 127.0.0.1:9092
  kafka topics create clicks --partitions 4 --broker-list 127.0.0.1:9092,127.0.0.1:9093
  kafka topics describe clicks --broker-list 127.0.0.1:9092 --json
  kafka topics create clicks --partitions 4 --zk-connect 127.0.0.1:2181
  kafka topics describe --zk-connect 127.0.0.1:2181 --group g
`

func runTopics(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka topics list|describe|create|delete [TOPIC…] (--broker-list HOST:PORT,… | --zk-connect HOST:PORT,…/PATH)", topicsAbout, topicsExamples)
	a := topicsAction{out: std.Out, notes: std.Err}
	list := fs.String(listFlag, "", "brokers, HOST:PORT, divided by commas")
	zk := fs.zkConnectFlag()
	group := fs.String("group", "", "describe, with --zk-connect: the group whose owners, offsets and lag are to be shown")
	partitions := fs.Int32("partitions", 1, "create: partitions of the topic at each broker")
	fs.BoolVar(&a.json, "json", false, "print JSON, one object a line")
	connectTimeout := fs.connectFlag()
	fs.oneOf("list", "describe", "create", "delete")
	fs.notFlag("topic", "topics are named as arguments, as in \"kafka topics describe t\"")
	if err := fs.parse(args, 1, 1<<15); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	action := fs.Arg(0)
	a.topics = fs.Args()[1:]
	if err := a.check(action); err != nil {
		return err
	}
	switch {
	case fs.Changed("partitions") && action != "create":
		return usagef("--partitions is for create")
	case *partitions < 1:
		return usagef("--partitions %d: at least 1 is wanted", *partitions)
	case fs.Changed("group") && (action != "describe" || *zk == ""):
		return usagef("--group is for describe with --zk-connect")
	}
	var err error
	if a.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	if *zk == "" {
		if a.brokers, err = brokerList(*list); err != nil {
			return err
		}
		return a.do(ctx, action, *partitions)
	}
	z := zkOptions{servers: *zk, connect: *connectTimeout}
	reg, err := z.open(ctx, std.Err)
	if err != nil {
		return err
	}
	defer closeRegistry(reg, std.Err)
	if err := a.useRegistry(ctx, z, reg, *group); err != nil {
		return err
	}
	return a.do(ctx, action, *partitions)
}

// topicsAction is what is to be done where, and how it is printed.
type topicsAction struct {
	connect         *connector
	brokers, topics []string // brokers by their addresses
	cluster         *topicsCluster
	out, notes      io.Writer
	json            bool
}

// check checks the topics named to an action.
func (a topicsAction) check(action string) error {
	switch action {
	case "list":
		if len(a.topics) > 0 {
			return usagef("list takes no topic, and %q is given: describe shows one", a.topics[0])
		}
	case "create", "delete":
		if len(a.topics) == 0 {
			return usagef("%s: name a topic", action)
		}
	}
	for i, t := range a.topics {
		if err := message.CheckTopic(t); err != nil {
			return usageError{err}
		}
		if slices.Contains(a.topics[:i], t) {
			return usagef("topic %s is named twice", t)
		}
	}
	return nil
}

func (a topicsAction) do(ctx context.Context, action string, partitions int32) error {
	switch action {
	case "list":
		return a.list(ctx)
	case "describe":
		return a.describe(ctx)
	case "create":
		return a.create(ctx, partitions)
	}
	return a.delete(ctx)
}

// eachBroker calls f with a connection to every broker in turn. A broker that
// fails does not keep the others from being asked; all errors are returned.
func (a topicsAction) eachBroker(ctx context.Context, f func(*client.Conn) error) error {
	var errs []error
	for _, b := range a.brokers {
		errs = append(errs, func() error {
			c, err := a.connect.dial(ctx, b)
			if err != nil {
				return err
			}
			defer c.Close()
			return f(c)
		}())
	}
	return errors.Join(errs...)
}

// changedTopic is what create and delete have done at a broker, in JSON.
type changedTopic struct {
	Broker     string `json:"broker"`
	Topic      string `json:"topic"`
	Created    bool   `json:"created,omitempty"`
	Deleted    bool   `json:"deleted,omitempty"`
	Partitions int32  `json:"partitions,omitempty"`
	Error      string `json:"error,omitempty"`
}

// changed prints what was done, in JSON; the plain form is silent about what went
// well. It returns err, or the error of printing.
func (a topicsAction) changed(t changedTopic, err error) error {
	if err != nil {
		t.Created, t.Deleted, t.Error = false, false, err.Error()
		err = fmt.Errorf("broker %s: %w", t.Broker, err)
	}
	if a.json {
		err = errors.Join(err, writeJSON(a.out, t))
	}
	return err
}

// create makes the topics at every broker. In a cluster it returns when ZooKeeper
// knows them.
func (a topicsAction) create(ctx context.Context, partitions int32) error {
	err := a.eachBroker(ctx, func(c *client.Conn) error {
		var errs []error
		for _, t := range a.topics {
			err := c.CreateTopic(ctx, t, partitions)
			switch {
			case err == nil:
				a.cluster.awaits(t, c.Addr())
			case errors.Is(err, wire.CodeTopicExists):
				err = withPartitions(ctx, c, t, err)
			}
			errs = append(errs, a.changed(changedTopic{Broker: c.Addr(), Topic: t, Created: true, Partitions: partitions}, err))
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, a.cluster.awaitRegistered(ctx))
}

// withPartitions adds to an error of a broker that has a topic how many partitions
// that has there.
func withPartitions(ctx context.Context, c *client.Conn, topic string, err error) error {
	states, askErr := c.Topics(ctx, topic)
	if askErr != nil || len(states) == 0 {
		return err // it was deleted meanwhile, or the connection is the next to fail
	}
	return fmt.Errorf("%w, with %s", err, count(len(states), "partition"))
}

// delete removes the topics wherever they are. That a broker does not have one is
// an error only when no other has had it either.
func (a topicsAction) delete(ctx context.Context) error {
	missing := map[string][]error{} // by topic
	err := a.eachBroker(ctx, func(c *client.Conn) error {
		var errs []error
		for _, t := range a.topics {
			err := c.DeleteTopic(ctx, t)
			if errors.Is(err, wire.CodeNoSuchTopic) {
				missing[t] = append(missing[t], fmt.Errorf("broker %s: %w", c.Addr(), err))
				continue
			}
			errs = append(errs, a.changed(changedTopic{Broker: c.Addr(), Topic: t, Deleted: true}, err))
		}
		return errors.Join(errs...)
	})
	for _, t := range a.topics {
		if len(missing[t]) == len(a.brokers) {
			err = errors.Join(append([]error{err}, missing[t]...)...)
		}
	}
	return err
}
