package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// consumerProperties are the keys of Kafka 0.7's consumer.properties that a mirror knows,
// with those of 0.7.0's mirroring and of the embedded consumer before it.
var consumerProperties = []property{
	{key: zkConnect, flag: sourceFlag, value: zkServers, help: "the cluster to copy from"},
	{key: "zk.sessiontimeout.ms", flag: zkSessionFlag, value: zkMilliseconds.convert, help: zkMilliseconds.help()},
	{key: "zk.connectiontimeout.ms", flag: "connect-timeout", value: milliseconds.convert, help: milliseconds.help()},
	{key: "groupid", flag: groupFlag, value: trimmed},
	{key: "mirror.topics.whitelist", flag: whitelistFlag, value: trimmed},
	{key: "mirror.topics.blacklist", flag: blacklistFlag, value: trimmed},
	{key: "embeddedconsumer.topics", flag: whitelistFlag, value: namesOfMap, help: "topic:threads, several divided by commas; the names alone count"},
	{key: "fetch.size", flag: "fetch-size", value: someBytes.convert, help: someBytes.help()},
	{key: "autooffset.reset", flag: "offset-reset", value: trimmed},
	{key: "autocommit.interval.ms", flag: "commit-interval", value: milliseconds.convert, help: milliseconds.help()},
	{key: "rebalance.backoff.ms", flag: "rebalance-backoff", value: milliseconds.convert, help: milliseconds.help()},
	{key: "socket.timeout.ms", flag: "request-timeout", value: milliseconds.convert, help: milliseconds.help()},
	{key: "autocommit.enable", without: "what is flushed at the target is committed, and nothing else"},
	{key: "rebalance.retries.max", without: "a rebalance is tried for as long as it takes"},
	{key: "shallowiterator.enable", without: "compressed messages are copied as they are"},
	{key: "mirror.consumer.numthreads", without: "each partition has a connection of its own"},
	{key: "consumerid", without: "each mirror makes a name of its own"},
	{key: "consumer.timeout.ms", without: "a mirror waits for messages until it is stopped"},
	{key: "queuedchunks.max", without: "see --max-buffer"},
	{key: "fetcher.backoff.ms", without: "a broker tells when there is something"},
	{key: "backoff.increment.ms", without: "a broker tells when there is something"},
	{key: "socket.buffersize", without: "the kernel adjusts it"},
	{key: "zk.synctime.ms", without: "see rebalance.backoff.ms"},
}

const (
	allAcknowledged = "each set is acknowledged as flushed, in order"
	asTheyAre       = "messages are copied as they are"
	everAgain       = "what fails is tried for as long as it takes"
)

// producerProperties are the keys of Kafka 0.7's producer.properties.
var producerProperties = []property{
	{key: zkConnect, flag: zkFlag, value: zkServers, help: "the cluster to copy into"},
	{key: "broker.list", value: noBrokerList, help: "refused: the cluster to copy into is found by zk.connect"},
	{key: "producer.type", without: allAcknowledged},
	{key: "batch.size", without: allAcknowledged},
	{key: "queue.time", without: allAcknowledged},
	{key: "queue.size", without: "see --max-buffer"},
	{key: "queue.enqueueTimeout.ms", without: "nothing is dropped"},
	{key: "serializer.class", without: asTheyAre},
	{key: "partitioner.class", without: "a source partition has one partition at the target"},
	{key: "compression.codec", without: asTheyAre},
	{key: "compressed.topics", without: asTheyAre},
	{key: "max.message.size", without: "the target's brokers say what they take"},
	{key: "buffer.size", without: "the kernel adjusts it"},
	{key: "connect.timeout.ms", without: everAgain},
	{key: "socket.timeout.ms", without: "that of the consumer counts"},
	{key: "reconnect.interval", without: "a connection is kept while it serves"},
	{key: "reconnect.time.interval.ms", without: "a connection is kept while it serves"},
	{key: "num.retries", without: everAgain},
	{key: "zk.read.num.retries", without: everAgain},
	{key: "zk.sessiontimeout.ms", without: "nothing at the target depends on a session"},
	{key: "zk.connectiontimeout.ms", without: "that of the consumer counts"},
	{key: "zk.synctime.ms", without: everAgain},
	{key: "event.handler", without: asTheyAre},
	{key: "event.handler.props", without: asTheyAre},
	{key: "callback.handler", without: asTheyAre},
	{key: "callback.handler.props", without: asTheyAre},
}

func trimmed(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errors.New("there is no value")
	}
	return text, nil
}

func noBrokerList(string) (string, error) {
	return "", errors.New("the cluster to copy into is found by its ZooKeeper: give zk.connect")
}

// namesOfMap turns a map by topic into a pattern of the topics' names.
func namesOfMap(text string) (string, error) {
	entries, err := parseTopicMap(text)
	if err != nil {
		return "", err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		if _, err := partitions.convert(e.value); err != nil {
			return "", fmt.Errorf("topic %q: %w", e.topic, err)
		}
		names[i] = regexp.QuoteMeta(e.topic)
	}
	return strings.Join(names, "|"), nil
}

// applyFiles sets the flags that were not given on the command line from the files that
// it names.
func (o *mirrorOptions) applyFiles(fs *flagSet) error {
	given, set := map[string]bool{}, map[string]string{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, path := range o.consumerFiles {
		if err := o.applyFile(fs, path, consumerProperties, given, set); err != nil {
			return fmt.Errorf("--consumer-config: %w", err)
		}
	}
	if o.producerFile == "" {
		return nil
	}
	if err := o.applyFile(fs, o.producerFile, producerProperties, given, set); err != nil {
		return fmt.Errorf("--producer-config: %w", err)
	}
	return nil
}

// applyFile sets the flags that the keys of one file stand for. set is what files have
// set, by flag: all but the clusters to copy from must agree.
func (o *mirrorOptions) applyFile(fs *flagSet, path string, table []property, given map[string]bool, set map[string]string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	values, err := readProperties(file, table, "kafka mirror")
	if err != nil {
		return usagef("%s: %w", path, err)
	}
	for _, p := range table {
		v, there := values[p.key]
		if !there {
			continue
		}
		if p.without != "" {
			o.notes = append(o.notes, note{path + ": " + p.key, p.without})
			continue
		}
		value, err := p.value(v.value)
		before, twice := set[p.flag]
		switch {
		case err != nil || given[p.flag]:
		case twice && p.flag != sourceFlag && before != value:
			err = fmt.Errorf("%q, and another key or file says %q: they must agree, or --%s must be given", value, before, p.flag)
		default:
			set[p.flag] = value
			err = fs.Set(p.flag, value)
		}
		if err != nil {
			return usagef("%s: line %d: %s: %w", path, v.line, p.key, err)
		}
	}
	return nil
}

// tellNotes names the keys that have no effect.
func (o *mirrorOptions) tellNotes(log *slog.Logger) {
	for _, n := range o.notes {
		log.Warn("key without effect", "key", n.key, "why", n.why)
	}
}
