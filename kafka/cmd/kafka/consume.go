package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func consumeCommand() command {
	return command{name: "consume", summary: "print messages: of a partition, or as a member of a group", run: runConsume}
}

const consumeAbout = `Prints each message as a line, and waits for more until it is interrupted,
--max-messages were printed, nobody reads its output any more, or, with
--exit-at-end, everything is printed that the log held when it began. Messages
that were compressed together have one offset, and are printed from the first.

With --broker-list it reads one partition at one broker, from --offset on, and
keeps no record of how far it came. A topic that does not exist is waited for,
but an error with --exit-at-end.

With --zk-connect it is a member of the group --group: the members share the
partitions of the topics at all brokers, each partition belongs to one stream of
one member, and when a member comes or goes they are shared anew. How far the
group is stands in ZooKeeper: a line is written out before its offset is
committed, so after a crash some lines come again and none is lost. What comes
and goes is told on the standard error. An interrupt commits and leaves the
group. --whitelist and --blacklist are patterns for whole topic names (several
divided by commas); topics that come into being later belong to them too.
With --exit-at-end it ends when the group, this member and others together, is
done with what the topics held at the start; what comes meanwhile may be printed
too.

With --avro the messages hold the id of a schema and a value as Avro, and are printed
as JSON, in Avro's encoding of it. Each schema is looked up once. A message that cannot
be read is told of on the standard error and passed over, and then the exit status is 1
at the end; while the registry does not answer and the schema is not known, the
message is waited for.`

const consumeExamples = `  kafka consume --broker-list 127.0.0.1:9092 --topic t --exit-at-end
  kafka consume --broker-list 127.0.0.1:9092 --topic t --offset latest --json
  kafka consume --zk-connect 127.0.0.1:2181 --group g --topic clicks --topic searches --streams 2
  kafka consume --zk-connect 127.0.0.1:2181 --group g --whitelist 'web-.*' --offset-reset largest
  kafka consume --broker-list 127.0.0.1:9092 --topic views --avro --schema-registry http://127.0.0.1:8081
`

// fetchSizeUsage is what --fetch-size says of itself.
const fetchSizeUsage = "how much to ask for at once; 0, the default: 64KiB to 4MiB, as the rate wants"

// consumeOptions are the flags of consume.
type consumeOptions struct {
	list, offset, resetName string
	partition               int32
	topics                  []string
	zk                      zkOptions
	group                   string
	white, black            string
	streams                 int
	autoCommit              time.Duration

	max                        int64
	exit, json                 bool
	fetchSize, maxDecompressed *byteSize
	avro                       avroOutput

	brokers []string
	start   int64
	reset   consumer.Reset
	connect *connector
}

func runConsume(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, `kafka consume --broker-list HOST:PORT --topic T [--partition P] [--offset earliest|latest|N]
  kafka consume --zk-connect HOST:PORT,…/PATH --group G (--topic T… | --whitelist W | --blacklist B) [--streams N]`, consumeAbout, consumeExamples)
	var o consumeOptions
	fs.StringVar(&o.list, listFlag, "", "the broker that has the partition, HOST:PORT")
	zk := fs.zkConnectFlag()
	fs.StringArrayVar(&o.topics, "topic", nil, "topic; with --group it may be given several times")
	fs.Int32Var(&o.partition, "partition", 0, "partition, without a group")
	fs.StringVar(&o.offset, "offset", "earliest", "where to begin without a group: earliest (or smallest), latest (or largest), or the offset of a message")
	fs.StringVar(&o.group, "group", "", "consumer group")
	fs.StringVar(&o.white, "whitelist", "", "with --group: pattern of the topics to consume")
	fs.StringVar(&o.black, "blacklist", "", "with --group: pattern of the topics not to consume, all others are")
	fs.IntVar(&o.streams, "streams", 1, "with --group: streams that share the partitions of each topic")
	fs.StringVar(&o.resetName, "offset-reset", "smallest", "where to go on when an offset is out of range, and where a group begins that has none: smallest (or earliest), largest (or latest), fail")
	fs.DurationVar(&o.autoCommit, "autocommit-interval", defaultAutoCommit, "with --group: how often what was printed is committed")
	fs.DurationVar(&o.zk.session, "zk-session-timeout", defaultSession, "with --group: how long this member may be out of touch before the others take over")
	fs.Int64Var(&o.max, "max-messages", 0, "how many messages at most, 0 for no limit")
	fs.BoolVar(&o.exit, "exit-at-end", false, "end at what is the end of the log at the start")
	o.fetchSize = fs.sizeFlag("fetch-size", 0, fetchSizeUsage)
	o.maxDecompressed = fs.sizeFlag("max-decompressed-size", consumer.DefaultMaxDecompressedBytes, "how much a compressed message may hold")
	fs.BoolVar(&o.json, "json", false, "print JSON: partition, offset, next offset, payload; of a group topic and broker too")
	o.avro.flags(fs)
	connectTimeout := fs.connectFlag()
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	if err := o.avro.check(fs); err != nil {
		return err
	}
	o.zk.servers, o.zk.connect = *zk, *connectTimeout
	if err := o.check(); err != nil {
		return err
	}
	var err error
	if o.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	ctx, stop := whileRead(ctx, std.Out)
	defer stop()
	if err := o.avro.open(ctx, std.Err); err != nil {
		return err
	}
	defer o.avro.close()
	if *zk != "" {
		if err := fs.refuse("a group shares all partitions, and goes on where it has committed (\"kafka groups reset\" changes that)", "partition", "offset"); err != nil {
			return err
		}
		err := o.consumeGroup(ctx, std)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // interrupted before it was a member
		}
		return errors.Join(err, o.avro.end())
	}
	if err := fs.refuse("it is for a consumer group, and so for --zk-connect", "group", "whitelist", "blacklist", "streams", "autocommit-interval", "zk-session-timeout"); err != nil {
		return err
	}
	return errors.Join(o.consumePartition(ctx, std), o.avro.end())
}

// check reads the values of flags that are not what they say, and checks those
// that both ways of consuming have.
func (o *consumeOptions) check() (err error) {
	if o.reset, err = consumer.ParseReset(endOfReset(o.resetName)); err != nil {
		return usageError{err}
	}
	for i, t := range o.topics {
		if err := message.CheckTopic(t); err != nil {
			return usageError{err}
		}
		if slices.Contains(o.topics[:i], t) {
			return usagef("--topic %s is given twice", t)
		}
	}
	switch {
	case o.max < 0:
		return usagef("--max-messages %d: 0 or more is wanted", o.max)
	case *o.fetchSize > wire.MaxRequestSize:
		return usagef("--fetch-size %s: at most %d bytes are wanted", o.fetchSize, wire.MaxRequestSize)
	case *o.maxDecompressed < 1 || *o.maxDecompressed > math.MaxInt32:
		return usagef("--max-decompressed-size %s: 1 byte to %d are wanted", o.maxDecompressed, math.MaxInt32)
	}
	return nil
}

// consumePartition consumes without a group.
func (o *consumeOptions) consumePartition(ctx context.Context, std stdio) (err error) {
	if o.brokers, err = brokerList(o.list); err != nil {
		return err
	}
	if o.start, err = startOffset(o.offset); err != nil {
		return err
	}
	switch {
	case len(o.topics) == 0:
		return usagef("--topic is missing")
	case len(o.topics) > 1:
		return usagef("--topic: without a group one partition is consumed, and %d topics are given", len(o.topics))
	case len(o.brokers) != 1:
		return usagef("--broker-list: a partition is on one broker, and %d are given", len(o.brokers))
	case o.partition < 0:
		return usagef("--partition %d: 0 or more is wanted", o.partition)
	}
	broker, topic := o.brokers[0], o.topics[0]
	begin := beginning{topic: topic, partition: o.partition, start: o.start, reset: o.reset, notes: &streamNotes{out: std.Err, broker: broker}}
	if err := begin.find(ctx, o.connect, broker, o.exit); err != nil {
		return err
	}
	c := printer{out: bufio.NewWriter(std.Out), json: o.json, avro: o.avro.reader, topic: topic, partition: o.partition, max: o.max, end: -1, endCheck: endCheckInterval}
	if o.exit {
		c.end = begin.logEnd
		c.logEnd = func() (int64, error) { return logEnd(ctx, broker, topic, o.partition) }
	}
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: broker, Topic: topic, Partition: o.partition, Start: begin.start, Reset: o.reset, FetchBytes: int(*o.fetchSize),
		MaxDecompressedBytes: int(*o.maxDecompressed), Hooks: begin.notes.hooks(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	err = c.print(ctx, s)
	if errors.Is(err, context.Canceled) || unread(err) {
		err = nil // an interrupt is how consuming ends, and so is a reader that has enough
	}
	return err
}

// beginning is where consuming begins.
type beginning struct {
	topic     string
	partition int32
	start     int64 // an offset, or one of the consumer's special values
	reset     consumer.Reset
	notes     *streamNotes
	logEnd    int64 // of the partition at the start; not of a topic that is not there
}

// find looks at the partition before it is consumed, so that a start outside of
// its log is known before anything is waited for. A topic that does not exist is
// waited for, unless mustExist is set.
func (b *beginning) find(ctx context.Context, connect *connector, broker string, mustExist bool) error {
	conn, err := connect.dial(ctx, broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := askPartition(ctx, conn, b.topic, b.partition)
	switch {
	case err == nil:
	case mustExist:
		return err
	case errors.Is(err, wire.CodeNoSuchTopic):
		fmt.Fprintf(b.notes.out, "%v yet: waiting for its first message\n", err)
		return nil
	case errors.Is(err, client.ErrPeerClosed): // a broker of Kafka 0.7 does not tell
		return nil
	default:
		return err
	}
	b.logEnd = s.LogEnd
	if b.start < 0 || b.start >= s.First && b.start <= s.LogEnd {
		return nil
	}
	to := s.First
	switch b.reset {
	case consumer.ResetFail:
		return outOfRange(b.start, s)
	case consumer.ResetLargest:
		to = s.Watermark
	}
	b.notes.reset(b.start, to)
	b.start = to
	return nil
}

// logEnd returns the log end of a partition: of everything appended, flushed or
// not. The partition must exist.
func logEnd(ctx context.Context, broker, topic string, partition int32) (int64, error) {
	c, err := client.Dial(ctx, broker, client.Config{})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s, err := askPartition(ctx, c, topic, partition)
	return s.LogEnd, err
}
