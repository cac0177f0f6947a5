package kafka

import (
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// options of the driver, of both halves.
type options struct {
	// Of the broker.
	flushInterval   time.Duration // "flush-interval": between two flushes; 0 off
	flushMessages   int           // "flush-messages": between two flushes; 0 off
	sendfile        string        // "sendfile": on, off
	visible         string        // "visible": flushed, appended
	segmentBytes    int           // "segment-size": of a segment file when the next one is begun
	retention       time.Duration // "retention": age at which a segment is deleted; 0 off
	retentionBytes  int           // "retention-size": what a log keeps at least; 0 off
	cleanupInterval time.Duration // "cleanup-interval": between two looks for segments to delete

	// Of the client.
	batch      int           // "batch": messages a request
	linger     time.Duration // "linger": how long a batch that is not full waits
	codec      message.Codec // "compression": none, gzip, snappy
	coalesced  bool          // "socket": coalesced, plain (one write a request)
	acks       producer.Acks // "acks": none, received, appended, flushed
	awaitEach  bool          // "answers": each is awaited, or a window of requests is on its way
	fetchBytes int           // "fetch-bytes" of one fetch
	partitions int           // "partitions" of a queue at one broker, filled in turns

	cluster clusterOptions
}

// clusterOptions are those of several brokers that meet in a ZooKeeper, and of
// the consumer group that is measured with them.
type clusterOptions struct {
	brokers        int           // "brokers": 1 is a broker without ZooKeeper
	partitions     int           // "partitions" of the topic, of each broker; 8 unless it is given
	zooKeeper      string        // "zookeeper": embedded, real
	session        time.Duration // "session-timeout" of brokers and consumers
	commitInterval time.Duration // "commit-interval": between two commits of a consumer
	quiet          time.Duration // "quiet": how long requests are counted while nothing changes
	pace           int           // "pace": messages a second that are sent meanwhile
}

const (
	defaultFetchBytes = 200 << 10 // NetDB'11 §5: "about 200 KB"
	// Defaults of "kafka broker", which the settings name.
	defaultSegmentBytes    = 1 << 30
	defaultRetention       = 7 * 24 * time.Hour
	defaultCleanupInterval = 10 * time.Minute
	maxBytes               = 1 << 50
)

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opts := options{
		// Off by count, as the other systems flush by time alone.
		flushInterval:   r.Duration("flush-interval", time.Second),
		flushMessages:   r.Int("flush-messages", 0, 0, 1<<30),
		sendfile:        r.OneOf("sendfile", "on", "off"),
		visible:         r.OneOf("visible", "flushed", "appended"),
		segmentBytes:    r.Int("segment-size", defaultSegmentBytes, 1, maxBytes),
		retention:       r.Duration("retention", defaultRetention),
		retentionBytes:  r.Int("retention-size", 0, 0, maxBytes),
		cleanupInterval: r.Duration("cleanup-interval", defaultCleanupInterval),
		batch:           r.Int("batch", 1, 1, 100_000),
		linger:          r.Duration("linger", producer.DefaultQueueInterval),
		awaitEach:       r.OneOf("answers", "window", "each") == "each",
		coalesced:       r.OneOf("socket", "coalesced", "plain") == "coalesced",
		fetchBytes:      r.Int("fetch-bytes", defaultFetchBytes, 1<<10, 32<<20),
		cluster:         readClusterOptions(r),
	}
	// The same option means something else for several brokers, of whose topic
	// the client half for queues uses the first partition alone.
	opts.partitions = 1
	if opts.cluster.brokers == 1 && o["partitions"] != "" {
		opts.partitions = opts.cluster.partitions
	}
	// Names of the producer's and the messages' own.
	opts.acks, _ = producer.ParseAcks(r.OneOf("acks", "none", "received", "appended", "flushed"))
	opts.codec, _ = message.ParseCodec(r.OneOf("compression", "none", "gzip", "snappy"))
	if err := r.Err(); err != nil {
		return opts, err
	}
	return opts, opts.check(o)
}

func readClusterOptions(r *driver.Reader) clusterOptions {
	return clusterOptions{
		brokers:        r.Int("brokers", 1, 1, 4),
		partitions:     r.Int("partitions", 8, 1, 1000),
		zooKeeper:      r.OneOf("zookeeper", "embedded", "real"),
		session:        r.Duration("session-timeout", 6*time.Second),
		commitInterval: r.Duration("commit-interval", 10*time.Second),
		quiet:          r.Duration("quiet", 10*time.Second),
		pace:           r.Int("pace", 1000, 1, 1_000_000),
	}
}

// check looks at what options mean together.
func (opts options) check(o driver.Options) error {
	switch {
	case opts.visible == "flushed" && opts.flushInterval == 0 && opts.flushMessages == 0:
		return fmt.Errorf("options flush-interval = 0 and flush-messages = 0: nothing would become visible; give one of them, or visible = %q", "appended")
	case opts.cleanupInterval < time.Millisecond:
		return fmt.Errorf("option cleanup-interval = %v: at least 1ms is wanted; to delete nothing give retention = %q and no retention-size", opts.cleanupInterval, "0")
	case o["linger"] != "" && opts.linger < time.Millisecond:
		return fmt.Errorf("option linger = %v: at least 1ms is wanted; for no wait give batch = 1", opts.linger)
	case o["linger"] != "" && opts.batch == 1:
		return fmt.Errorf("option linger = %v: a batch of 1 is full at once: give batch too", opts.linger)
	case o["answers"] != "" && opts.acks == producer.AcksNone:
		return fmt.Errorf("option answers = %q: it does nothing with acks = %q", o["answers"], "none")
	case opts.awaitEach && opts.batch > 1:
		return fmt.Errorf("option answers = %q: it is for batch = 1, and not %d: a message that is awaited is a request", "each", opts.batch)
	case opts.codec != message.CodecNone && (opts.acks != producer.AcksNone || o["linger"] != ""):
		return fmt.Errorf("option compression = %v: it goes with acks = %q and without linger, since what has arrived is then counted by whole batches of known size", opts.codec, "none")
	}
	c := opts.cluster
	if c.brokers == 1 {
		if opts.partitions > 1 && (opts.codec != message.CodecNone || opts.acks != producer.AcksNone) {
			return fmt.Errorf("option partitions = %d: with one broker it goes with acks = %q and without compression", opts.partitions, "none")
		}
		for _, name := range []string{"zookeeper", "session-timeout", "commit-interval", "quiet", "pace"} {
			if o[name] != "" {
				return fmt.Errorf("option %s: it is for several brokers: give brokers = 2 or more", name)
			}
		}
		return nil
	}
	switch {
	case c.session < minSession || c.session > maxSession:
		return fmt.Errorf("option session-timeout = %v: from %v to %v is wanted", c.session, minSession, maxSession)
	case c.commitInterval < 10*time.Millisecond:
		return fmt.Errorf("option commit-interval = %v: at least 10ms is wanted", c.commitInterval)
	case c.quiet < 10*time.Millisecond:
		return fmt.Errorf("option quiet = %v: at least 10ms is wanted", c.quiet)
	}
	return nil
}
