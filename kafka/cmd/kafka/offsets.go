package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func offsetsCommand() command {
	return command{name: "offsets", summary: "ask for the offsets of a partition at a time", run: runOffsets}
}

func runOffsets(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka offsets (--broker-list HOST:PORT,… | --zk-connect HOST:PORT,…/PATH) --topic T [--partition P] [--time latest|earliest|TIME] [--max N]",
		`Prints offsets of a partition, newest first. "latest" is the end of what is
visible, "earliest" the first offset that can be fetched. A time gives the first
offsets of the segments whose last write is not after it, so an offset to
consume from that misses nothing written after the time; of a time before that
there is none. With several brokers, or --zk-connect, it asks each that has the
partition, and prints which: the same number at another broker is another
partition.`,
		`  kafka offsets --broker-list 127.0.0.1:9092 --topic t
  kafka offsets --broker-list 127.0.0.1:9092 --topic t --time 2026-01-31T12:00:00Z --max 10
  kafka offsets --zk-connect 127.0.0.1:2181 --topic t
`)
	list := fs.String(listFlag, "", "brokers, HOST:PORT, divided by commas")
	zk := fs.zkConnectFlag()
	topic := fs.String("topic", "", "topic")
	partition := fs.Int32("partition", 0, "partition")
	when := fs.String("time", "latest", "latest (or largest), earliest (or smallest), a time (RFC 3339), or milliseconds since the epoch")
	max := fs.Int32("max", 1, "how many offsets at most")
	asJSON := fs.Bool("json", false, "print JSON, one object for each broker")
	connectTimeout := fs.connectFlag()
	fs.require("topic")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	if err := message.CheckTopic(*topic); err != nil {
		return usageError{err}
	}
	if *partition < 0 {
		return usagef("--partition %d: 0 or more is wanted", *partition)
	}
	timeMs, err := offsetsTime(*when)
	if err != nil {
		return err
	}
	if *max < 1 || *max > maxOffsets {
		return usagef("--max %d: 1 to %d are wanted", *max, maxOffsets)
	}
	connect, err := newConnector(*connectTimeout, std.Err)
	if err != nil {
		return err
	}
	brokers, err := offsetsBrokers(ctx, *list, zkOptions{servers: *zk, connect: *connectTimeout}, std)
	if err != nil {
		return err
	}
	q := offsetsQuery{connect, *topic, *partition, timeMs, *max}
	answers, err := q.askAll(ctx, brokers)
	for _, a := range answers {
		if perr := a.print(std, len(brokers) > 1 || *zk != "", *asJSON); perr != nil {
			return perr
		}
	}
	return err
}

// offsetsBrokers returns the addresses of the brokers to ask.
func offsetsBrokers(ctx context.Context, list string, z zkOptions, std stdio) ([]string, error) {
	if z.servers == "" {
		return brokerList(list)
	}
	reg, err := z.open(ctx, std.Err)
	if err != nil {
		return nil, err
	}
	defer closeRegistry(reg, std.Err)
	brokers, err := z.liveBrokers(ctx, reg, std.Err)
	var addresses []string
	for _, b := range brokers {
		addresses = append(addresses, b.Addr())
	}
	return addresses, err
}

// maxOffsets bounds what is asked for at once; a partition hardly has as many
// segments.
const maxOffsets = 1_000_000

// offsetsQuery is what every broker is asked.
type offsetsQuery struct {
	connect   *connector
	topic     string
	partition int32
	timeMs    int64
	max       int32
}

// offsetsAnswer is a broker's answer, in JSON.
type offsetsAnswer struct {
	Broker    string  `json:"broker"`
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Offsets   []int64 `json:"offsets"`
}

func (a offsetsAnswer) print(std stdio, name, asJSON bool) error {
	if asJSON {
		return writeJSON(std.Out, a)
	}
	prefix := ""
	if name {
		prefix = a.Broker + " "
	}
	for _, o := range a.Offsets {
		if _, err := fmt.Fprintf(std.Out, "%s%d\n", prefix, o); err != nil {
			return err
		}
	}
	return nil
}

// askAll asks every broker. One that does not have the partition is no error
// when another one has; what was answered is returned beside the errors of those
// that could not be asked.
func (q offsetsQuery) askAll(ctx context.Context, brokers []string) ([]offsetsAnswer, error) {
	var answers []offsetsAnswer
	var missing, errs []error
	for _, b := range brokers {
		offsets, err := q.ask(ctx, b)
		var without *noPartitionError
		switch {
		case errors.As(err, &without):
			missing = append(missing, err)
		case err != nil:
			errs = append(errs, err)
		default:
			answers = append(answers, offsetsAnswer{b, q.topic, q.partition, append([]int64{}, offsets...)}) // none is [] in JSON
		}
	}
	if len(answers) == 0 {
		errs = append(missing, errs...)
	}
	return answers, errors.Join(errs...)
}

// noPartitionError says that a broker does not have what is asked for.
type noPartitionError struct{ error }

// ask asks one broker. A broker of Kafka 0.7 answers for topics that do not exist
// as if they were empty; one that tells which it has is believed.
func (q offsetsQuery) ask(ctx context.Context, broker string) ([]int64, error) {
	conn, err := q.connect.dial(ctx, broker)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // whatever it was for has been answered, or failed
	states, err := conn.Topics(ctx, q.topic)
	switch {
	case errors.Is(err, wire.CodeNoSuchTopic):
		return nil, &noPartitionError{noSuchTopic(q.topic, broker)}
	case errors.Is(err, client.ErrPeerClosed):
		again, err := client.Dial(ctx, broker, client.Config{})
		if err != nil {
			return nil, err
		}
		conn = again // the first one is closed
	case err != nil:
		return nil, err
	default:
		if err := q.check(broker, states); err != nil {
			return nil, err
		}
	}
	offsets, err := conn.Offsets(ctx, q.topic, q.partition, q.timeMs, q.max)
	if errors.Is(err, client.ErrPeerClosed) {
		return nil, &noPartitionError{fmt.Errorf("%w (a broker answers so when the topic has no partition %d)", err, q.partition)}
	}
	return offsets, err
}

// check looks for the partition among those that a broker has.
func (q offsetsQuery) check(broker string, states []wire.TopicState) error {
	for _, s := range states {
		if s.Topic == q.topic && s.Partition == q.partition {
			return nil
		}
	}
	return &noPartitionError{fmt.Errorf("broker %s: topic %s has no partition %d: it has %d", broker, q.topic, q.partition, len(states))}
}

// offsetsTime reads the value of --time as an Offsets request wants it.
func offsetsTime(s string) (int64, error) {
	switch endOfTime(s) {
	case "latest":
		return wire.TimeLatest, nil
	case "earliest":
		return wire.TimeEarliest, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil && t.UnixMilli() >= 0 {
		return t.UnixMilli(), nil
	}
	return 0, usagef("--time %q: latest, earliest, a time such as 2026-01-31T12:00:00Z, or milliseconds since the epoch are wanted", s)
}

// startOffset reads the value of --offset of consume.
func startOffset(s string) (int64, error) {
	switch endOfTime(s) {
	case "earliest":
		return wire.TimeEarliest, nil
	case "latest":
		return wire.TimeLatest, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 || strings.HasPrefix(s, "+") {
		return 0, usagef("--offset %q: earliest, latest, or an offset from 0 are wanted", s)
	}
	return n, nil
}
