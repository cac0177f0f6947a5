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
delete    removes topics with all that they hold, at every broker of the list`,
		`  kafka topics list --broker-list 127.0.0.1:9092
  kafka topics create clicks --partitions 4 --broker-list 127.0.0.1:9092,127.0.0.1:9093
  kafka topics describe clicks --broker-list 127.0.0.1:9092 --json
`)
	list := fs.String("broker-list", "", "brokers, HOST:PORT, divided by commas")
	partitions := fs.Int32("partitions", 1, "create: partitions of the topic at each broker")
	asJSON := fs.Bool("json", false, "list, describe: print JSON, one object a line")
	fs.require("broker-list")
	if err := fs.parse(args, 1, 1<<15); err != nil {
		return err
	}
	brokers, err := brokerList(*list)
	if err != nil {
		return err
	}
	action, topics := fs.Arg(0), fs.Args()[1:]
	for _, t := range topics {
		if err := message.CheckTopic(t); err != nil {
			return usageError{err}
		}
	}
	switch action {
	case "list":
		if len(topics) > 0 {
			return usagef("list takes no topic, and %q is given: describe shows one", topics[0])
		}
		return listTopics(ctx, brokers, std.Out, *asJSON)
	case "describe":
		return describeTopics(ctx, brokers, topics, std.Out, *asJSON)
	case "create", "delete":
		if len(topics) == 0 {
			return usagef("%s: name a topic", action)
		}
		if action == "create" && *partitions < 1 {
			return usagef("--partitions %d: at least 1 is wanted", *partitions)
		}
		return eachBroker(ctx, brokers, func(c *client.Conn) error {
			for _, t := range topics {
				var err error
				if action == "create" {
					err = c.CreateTopic(ctx, t, *partitions)
				} else {
					err = c.DeleteTopic(ctx, t)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return usagef("%q is none of list, describe, create, delete", action)
}

// eachBroker calls f with a connection to every broker in turn. A broker that
// fails does not keep the others from being asked; all errors are returned.
func eachBroker(ctx context.Context, brokers []string, f func(*client.Conn) error) error {
	var errs []error
	for _, b := range brokers {
		errs = append(errs, func() error {
			c, err := client.Dial(ctx, b, client.Config{})
			if err != nil {
				return err
			}
			defer c.Close()
			if err := f(c); err != nil {
				return fmt.Errorf("broker %s: %w", b, err)
			}
			return nil
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

// topicStates asks every broker for its partitions of the topics (none: all).
// What was answered is returned beside an error of some of them. A topic that a
// broker does not have is no error: it merely is not in the answer.
func topicStates(ctx context.Context, brokers, topics []string) ([]partitionState, error) {
	var all []partitionState
	err := eachBroker(ctx, brokers, func(c *client.Conn) error {
		states, err := c.Topics(ctx, topics...)
		for _, s := range states {
			all = append(all, partitionState{c.Addr(), s.Topic, s.Partition, s.First, s.Watermark, s.LogEnd, s.Segments, s.Bytes})
		}
		if errors.Is(err, wire.CodeNoSuchTopic) {
			return nil // another broker may have it
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b partitionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.Partition, b.Partition))
	})
	return all, err
}

func listTopics(ctx context.Context, brokers []string, out io.Writer, asJSON bool) error {
	states, err := topicStates(ctx, brokers, nil)
	var names []string
	for _, s := range states {
		names = append(names, s.Topic)
	}
	for _, n := range slices.Compact(names) {
		var werr error
		if asJSON {
			werr = writeJSON(out, struct {
				Topic string `json:"topic"`
			}{n})
		} else {
			_, werr = fmt.Fprintln(out, n)
		}
		if werr != nil {
			return werr
		}
	}
	return err
}

func describeTopics(ctx context.Context, brokers, topics []string, out io.Writer, asJSON bool) error {
	states, err := topicStates(ctx, brokers, topics)
	rows := [][]string{{"TOPIC", "BROKER", "PARTITION", "FIRST", "WATERMARK", "LOG END", "SEGMENTS", "BYTES"}}
	for _, s := range states {
		if asJSON {
			if err := writeJSON(out, s); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{s.Topic, s.Broker, fmt.Sprint(s.Partition), fmt.Sprint(s.First),
			fmt.Sprint(s.Watermark), fmt.Sprint(s.LogEnd), fmt.Sprint(s.Segments), fmt.Sprint(s.Bytes)})
	}
	if !asJSON && len(states) > 0 {
		if err := table(out, rows); err != nil {
			return err
		}
	}
	for _, t := range topics {
		if !slices.ContainsFunc(states, func(s partitionState) bool { return s.Topic == t }) {
			err = errors.Join(err, fmt.Errorf("topic %s: %w", t, wire.CodeNoSuchTopic))
		}
	}
	return err
}
