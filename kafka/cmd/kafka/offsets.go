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
	fs := newFlags(std, "kafka offsets --broker-list HOST:PORT --topic T [--partition P] [--time latest|earliest|TIME] [--max N]",
		`Prints offsets of a partition, newest first. "latest" is the end of what is
visible, "earliest" the first offset that can be fetched. A time gives the first
offsets of the segments whose last write is not after it, so an offset to
consume from that misses nothing written after the time.`,
		`  kafka offsets --broker-list 127.0.0.1:9092 --topic t
  kafka offsets --broker-list 127.0.0.1:9092 --topic t --time 2026-01-31T12:00:00Z --max 10
`)
	list := fs.String("broker-list", "", "the broker that has the partition, HOST:PORT")
	topic := fs.String("topic", "", "topic")
	partition := fs.Int32("partition", 0, "partition")
	when := fs.String("time", "latest", "latest, earliest, a time (RFC 3339), or milliseconds since the epoch")
	max := fs.Int32("max", 1, "how many offsets at most")
	asJSON := fs.Bool("json", false, "print JSON")
	fs.require("broker-list", "topic")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	brokers, err := brokerList(*list)
	if err != nil {
		return err
	}
	if len(brokers) != 1 {
		return usagef("--broker-list: a partition is on one broker, and %d are given", len(brokers))
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
	if *max < 1 {
		return usagef("--max %d: at least 1 is wanted", *max)
	}
	conn, err := client.Dial(ctx, brokers[0], client.Config{})
	if err != nil {
		return err
	}
	defer conn.Close()
	offsets, err := conn.Offsets(ctx, *topic, *partition, timeMs, *max)
	if errors.Is(err, client.ErrPeerClosed) {
		return fmt.Errorf("%w (a broker answers so when the topic has no partition %d)", err, *partition)
	}
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(std.Out, struct {
			Topic     string  `json:"topic"`
			Partition int32   `json:"partition"`
			Offsets   []int64 `json:"offsets"`
		}{*topic, *partition, offsets})
	}
	for _, o := range offsets {
		if _, err := fmt.Fprintln(std.Out, o); err != nil {
			return err
		}
	}
	return nil
}

// offsetsTime reads the value of --time as an Offsets request wants it.
func offsetsTime(s string) (int64, error) {
	switch s {
	case "latest":
		return wire.TimeLatest, nil
	case "earliest":
		return wire.TimeEarliest, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UnixMilli(), nil
	}
	return 0, usagef("--time %q: latest, earliest, a time such as 2026-01-31T12:00:00Z, or milliseconds since the epoch are wanted", s)
}

// startOffset reads the value of --offset of consume.
func startOffset(s string) (int64, error) {
	switch s {
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
