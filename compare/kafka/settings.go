package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// Settings describes the system with these options.
func (kafka) Settings(_ context.Context, _ host.Host, o driver.Options) ([]driver.Setting, error) {
	opts, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	acks := opts.acks.String()
	if opts.acks == producer.AcksNone {
		acks = "none, as in the paper"
	} else {
		acks = opts.answered(acks)
	}
	transfer := "sendfile"
	if opts.sendfile == "off" {
		transfer = "copied through the process"
	}
	return []driver.Setting{
		{Row: "version", Value: "this project's own, protocol and files of Kafka 0.7"},
		{Row: "protocol and client", Value: "Kafka 0.7; this project's producer and consumer in Go; " + transfer},
		{Row: "persistence", Value: "log file, written before anything else; visible to consumers when " + opts.visible + "; " + opts.kept()},
		{Row: "flush to disk", Value: opts.flush()},
		{Row: "producer acknowledgement", Value: acks},
		{Row: "producer batching", Value: opts.batching()},
		{Row: "consumer acknowledgement", Value: opts.consumerAck()},
		{Row: "consumer prefetch", Value: fmt.Sprintf("fetches of %d bytes, the next one asked for ahead", opts.fetchBytes)},
		{Row: "queue or log", Value: opts.log()},
		{Row: "memory", Value: "no cache in the process; the page cache"},
		{Row: "deviations from the defaults", Value: strings.Join(opts.brokerFlags(true), " ")},
	}, nil
}

// answered adds to an acknowledgement how it is waited for.
func (opts options) answered(acks string) string {
	if opts.awaitEach {
		return acks + ", each awaited"
	}
	return fmt.Sprintf("%s, up to %d requests unanswered", acks, producer.DefaultMaxInFlight)
}

func (opts options) flush() string {
	var flush []string
	if opts.flushInterval > 0 {
		flush = append(flush, fmt.Sprintf("fsync every %v in the background", opts.flushInterval))
	}
	if opts.flushMessages > 0 {
		flush = append(flush, fmt.Sprintf("fsync every %d messages", opts.flushMessages))
	}
	if len(flush) == 0 {
		return "by the kernel alone"
	}
	return strings.Join(flush, ", ")
}

// kept says what retention leaves.
func (opts options) kept() string {
	var rules []string
	if opts.retention > 0 {
		rules = append(rules, fmt.Sprintf("for %v", opts.retention))
	}
	if opts.retentionBytes > 0 {
		rules = append(rules, fmt.Sprintf("the last %s of a log", sizeOf(opts.retentionBytes)))
	}
	if len(rules) == 0 {
		return "kept for ever"
	}
	return fmt.Sprintf("kept %s (looked at every %v)", strings.Join(rules, " and "), opts.cleanupInterval)
}

func (opts options) batching() string {
	s := fmt.Sprintf("%d a request", opts.batch)
	if opts.batch > 1 {
		s += ", as far as they fit 1 MiB"
	}
	if opts.coalesced {
		s += "; what has gathered while a write is under way goes out in the next one"
	} else {
		s += "; one write for each request"
	}
	if opts.batch > 1 && opts.codec == message.CodecNone {
		s += fmt.Sprintf("; a batch that is not full waits %v", opts.linger)
	}
	if opts.codec != message.CodecNone {
		s += fmt.Sprintf("; each request compressed by %v", opts.codec)
	}
	return s
}

func (opts options) consumerAck() string {
	if opts.cluster.brokers > 1 {
		return fmt.Sprintf("none: each consumer of the group commits its offsets to ZooKeeper every %v and when it gives a partition up", opts.cluster.commitInterval)
	}
	return "none: the consumer keeps its offset"
}

func (opts options) log() string {
	segments := "segments of " + sizeOf(opts.segmentBytes)
	c := opts.cluster
	if c.brokers == 1 {
		if opts.partitions > 1 {
			return fmt.Sprintf("logs of %d partitions of one broker, a batch of the producer to each in turn, %s", opts.partitions, segments)
		}
		return "log of one partition, " + segments
	}
	keeper := "this project's embedded ZooKeeper"
	if c.zooKeeper == "real" {
		keeper = "ZooKeeper, one node"
	}
	return fmt.Sprintf("logs of %d brokers with %d partitions each, %s; they meet in %s, sessions of %v; group measured with %d messages/s, quiet for %v",
		c.brokers, c.partitions, segments, keeper, c.session, c.pace, c.quiet)
}

// sizeOf writes a number of bytes with the largest unit that leaves it whole.
func sizeOf(n int) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; i < len(units)-1 && n >= 1024 && n%1024 == 0; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%d %s", n, units[i])
}

// brokerFlags are those of "kafka broker" for these options; with changed set
// only those that differ from its defaults, which flush after 10,000 messages
// or a second.
func (opts options) brokerFlags(changed bool) []string {
	var flags []string
	add := func(differs bool, flag string, value any) {
		if differs || !changed {
			flags = append(flags, fmt.Sprintf("--%s=%v", flag, value))
		}
	}
	add(true, "flush-messages", opts.flushMessages)
	add(true, "max-message-size", maxPayloadBytes)
	add(opts.flushInterval != time.Second, "flush-interval", opts.flushInterval)
	add(opts.sendfile == "off", "sendfile", opts.sendfile == "on")
	add(opts.visible != "flushed", "visible", opts.visible)
	add(opts.cluster.brokers == 1 && opts.partitions > 1, "num-partitions", opts.partitions)
	add(opts.segmentBytes != defaultSegmentBytes, "segment-size", opts.segmentBytes)
	add(opts.retention != defaultRetention, "retention", opts.retention)
	add(opts.retentionBytes != 0, "retention-size", opts.retentionBytes)
	add(opts.cleanupInterval != defaultCleanupInterval, "cleanup-interval", opts.cleanupInterval)
	return flags
}
