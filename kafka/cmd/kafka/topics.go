package main

import (
	"cmp"
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

func runTopics(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka topics list|describe|create|delete [TOPIC…] --broker-list HOST:PORT,…",
		`list      prints the topics that the brokers hold, one a line
describe  prints each partition: first offset, watermark (the exclusive end of
          what is visible), log end, segments, bytes; of all topics if none is named
create    makes topics with --partitions partitions at every broker of the list
delete    removes topics with all that they hold, at every broker of the list
          that has them

Every broker of the list is asked, also when one of them fails; the exit status is
1 then. What failed can be repeated.`,
		`  kafka topics list --broker-list 127.0.0.1:9092
  kafka topics create clicks --partitions 4 --broker-list 127.0.0.1:9092,127.0.0.1:9093
  kafka topics describe clicks --broker-list 127.0.0.1:9092 --json
`)
	list := fs.String("broker-list", "", "brokers, HOST:PORT, divided by commas")
	partitions := fs.Int32("partitions", 1, "create: partitions of the topic at each broker")
	asJSON := fs.Bool("json", false, "print JSON, one object a line")
	connectTimeout := fs.connectFlag()
	fs.require("broker-list")
	if err := fs.parse(args, 1, 1<<15); err != nil {
		return err
	}
	brokers, err := brokerList(*list)
	if err != nil {
		return err
	}
	action, topics := fs.Arg(0), fs.Args()[1:]
	for i, t := range topics {
		if err := message.CheckTopic(t); err != nil {
			return usageError{err}
		}
		if slices.Contains(topics[:i], t) {
			return usagef("topic %s is named twice", t)
		}
	}
	if fs.Changed("partitions") && action != "create" {
		return usagef("--partitions is for create")
	}
	connect, err := newConnector(*connectTimeout, std.Err)
	if err != nil {
		return err
	}
	a := topicsAction{connect: connect, brokers: brokers, topics: topics, out: std.Out, json: *asJSON}
	switch action {
	case "list":
		if len(topics) > 0 {
			return usagef("list takes no topic, and %q is given: describe shows one", topics[0])
		}
		return a.list(ctx)
	case "describe":
		return a.describe(ctx, std.Err)
	case "create", "delete":
		if len(topics) == 0 {
			return usagef("%s: name a topic", action)
		}
		if action == "delete" {
			return a.delete(ctx)
		}
		if *partitions < 1 {
			return usagef("--partitions %d: at least 1 is wanted", *partitions)
		}
		return a.create(ctx, *partitions)
	}
	return usagef("%q is none of list, describe, create, delete", action)
}

// topicsAction is what is to be done where, and how it is printed.
type topicsAction struct {
	connect         *connector
	brokers, topics []string
	out             io.Writer
	json            bool
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
}

// states asks every broker for its partitions of the topics (none: all). What was
// answered is returned beside an error of some of them. A topic that a broker
// does not have is no error: it merely is not in the answer.
func (a topicsAction) states(ctx context.Context) ([]partitionState, error) {
	var all []partitionState
	err := a.eachBroker(ctx, func(c *client.Conn) error {
		states, err := c.Topics(ctx, a.topics...)
		for _, s := range states {
			all = append(all, partitionState{c.Addr(), s.Topic, s.Partition, s.First, s.Watermark, s.LogEnd, s.Segments, s.Bytes})
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

func (a topicsAction) describe(ctx context.Context, notes io.Writer) error {
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
				fmt.Fprintf(notes, "broker %s does not have topic %s\n", b, t)
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
	rows := [][]string{{"TOPIC", "BROKER", "PARTITION", "FIRST", "WATERMARK", "LOG END", "SEGMENTS", "BYTES"}}
	for _, s := range states {
		if a.json {
			if err := writeJSON(a.out, s); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{s.Topic, s.Broker, fmt.Sprint(s.Partition), fmt.Sprint(s.First),
			fmt.Sprint(s.Watermark), fmt.Sprint(s.LogEnd), fmt.Sprint(s.Segments), fmt.Sprint(s.Bytes)})
	}
	if a.json || len(states) == 0 {
		return nil
	}
	return table(a.out, rows)
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

func (a topicsAction) create(ctx context.Context, partitions int32) error {
	return a.eachBroker(ctx, func(c *client.Conn) error {
		var errs []error
		for _, t := range a.topics {
			err := c.CreateTopic(ctx, t, partitions)
			errs = append(errs, a.changed(changedTopic{Broker: c.Addr(), Topic: t, Created: true, Partitions: partitions}, err))
		}
		return errors.Join(errs...)
	})
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
