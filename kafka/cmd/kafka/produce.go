package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// closeTimeout bounds how long a command waits at its end for what is still to
// be sent, also after an interrupt.
const closeTimeout = 5 * time.Second

// maxCompressedLine is how long a line may be that is to be compressed, whatever
// it is compressed to: what is decompressed again without further settings.
const maxCompressedLine = message.DefaultMaxDecompressed - message.Overhead0

func produceCommand() command {
	return command{name: "produce", summary: "publish the lines of the standard input", run: runProduce}
}

const produceAbout = `Publishes each line of the standard input as a message, without the line's end.
Lines that are there at once go out together, up to --batch-size in a request;
with --async they wait for each other, up to --queue-interval. It ends at the
end of the input, when a broker has confirmed that all has arrived, and fails
with the number of messages that did not. A broker drops a set with a message
above its own limit, and says so only with --acks.

With --broker-list, --acks makes a request name its partition. Without
--partition one is then picked at random for lines that are there at once, from
those that every broker of the list has of the topic; of one that a broker does
not have yet it is partition 0.

With --zk-connect the brokers and their partitions come from ZooKeeper, and
changes are followed: lines that are there at once go to a partition picked at
random from those of all brokers that live. With --key-separator a line is a key
and a payload, divided by the first separator in it; lines with equal keys go to
one partition, in their order, for as long as the same brokers are there. The key
is not part of the message.

With --compression the lines of a request are compressed into one message, which
consumers take apart again. The more lines in it, the smaller they become: see
--batch-size and --async.

With --avro-schema each line is a JSON value, and the message that it becomes holds
the id of the schema and the value as Avro. The schema is registered first, for the
subject of the topic. A value that does not fit the schema ends the command, once
those before it are sent. Values are in Avro's JSON encoding; that of a union may
stand alone.

` + produceAuditAbout

const produceExamples = `  echo hello | kafka produce --broker-list 127.0.0.1:9092 --topic t
  kafka produce --broker-list 127.0.0.1:9092 --topic clicks --acks flushed < access.log
  kafka produce --broker-list 127.0.0.1:9092 --topic clicks --compression gzip --async < access.log
  kafka produce --zk-connect 127.0.0.1:2181 --topic clicks < access.log
  echo member42:hello | kafka produce --zk-connect 127.0.0.1:2181 --topic clicks --key-separator :
  echo '{"member": 42}' | kafka produce --zk-connect 127.0.0.1:2181 --topic views --avro-schema view.avsc --schema-registry http://127.0.0.1:8081
  kafka produce --zk-connect 127.0.0.1:2181 --topic clicks --audit --acks flushed < access.log
`

// produceOptions are the flags of produce.
type produceOptions struct {
	list, acksName, compression string
	topic                       string
	partition                   int32
	separator                   string
	keyed                       bool
	maxSize                     *byteSize
	zk                          zkOptions
	cfg                         producer.Config
	audit                       auditFlags
	connect                     *connector
	avro                        avroInput
}

func runProduce(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka produce (--broker-list HOST:PORT,… | --zk-connect HOST:PORT,…/PATH [--key-separator S]) --topic T", produceAbout, produceExamples)
	var o produceOptions
	fs.StringVar(&o.list, listFlag, "", "brokers, HOST:PORT, divided by commas; one is picked at random")
	zk := fs.zkConnectFlag()
	fs.StringVar(&o.topic, "topic", "", "topic")
	fs.Int32Var(&o.partition, "partition", -1, "with --broker-list: partition, -1 for any: the broker picks one for each request, with --acks this command does")
	fs.StringVar(&o.separator, "key-separator", "", "with --zk-connect: what stands between a line's key and its payload")
	fs.IntVar(&o.cfg.BatchMessages, "batch-size", producer.DefaultBatchMessages, "messages in a request, at most")
	fs.BoolVar(&o.cfg.Async, "async", false, "gather messages in full batches")
	fs.DurationVar(&o.cfg.QueueInterval, "queue-interval", producer.DefaultQueueInterval, "with --async: how long a partial batch waits")
	fs.StringVar(&o.acksName, "acks", "none", "what to wait for: none, received, appended, flushed")
	fs.StringVar(&o.compression, "compression", "none", "none, gzip or snappy")
	connectTimeout := fs.connectFlag()
	o.maxSize = fs.sizeFlag("max-message-size", producer.DefaultMaxMessageBytes, "longest line, without its end; with --compression: largest compressed message")
	o.avro.flags(fs)
	o.audit.add(fs)
	fs.require("topic")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	if err := o.avro.check(fs, o.topic); err != nil {
		return err
	}
	o.zk.servers, o.zk.connect, o.keyed = *zk, *connectTimeout, fs.Changed("key-separator")
	if err := o.check(); err != nil {
		return err
	}
	if err := o.audit.check(fs, o.topic); err != nil {
		return err
	}
	o.avro.audited = o.audit.on
	if o.longestLine() < 1 {
		return usagef("--max-message-size %s: an envelope alone has %d bytes", o.maxSize, o.audit.overhead())
	}
	var err error
	if o.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	if o.cfg.Acks == producer.AcksNone && *o.maxSize > producer.DefaultMaxMessageBytes {
		fmt.Fprintf(std.Err, "a broker takes messages of up to %d bytes unless its own --max-message-size is more, and drops larger ones without a word: --acks makes it answer\n", producer.DefaultMaxMessageBytes)
	}
	if *zk == "" {
		if err := fs.refuse("it is for --zk-connect: brokers of a list take no keys", "key-separator"); err != nil {
			return err
		}
		return o.toBroker(ctx, std)
	}
	if err := fs.refuse("it is for --broker-list: among all partitions of a cluster the key chooses (--key-separator), or chance", "partition"); err != nil {
		return err
	}
	return o.toCluster(ctx, std)
}

// check reads the values of flags that are not what they say, and checks them.
func (o *produceOptions) check() (err error) {
	if err := message.CheckTopic(o.topic); err != nil {
		return usageError{err}
	}
	if o.cfg.Acks, err = producer.ParseAcks(o.acksName); err != nil {
		return usageError{err}
	}
	if o.cfg.Codec, err = message.ParseCodec(o.compression); err != nil {
		return usagef("--compression: %w", err)
	}
	o.cfg.MaxMessageBytes = int(*o.maxSize)
	switch {
	case o.cfg.BatchMessages < 1:
		return usagef("--batch-size %d: at least 1 is wanted", o.cfg.BatchMessages)
	case *o.maxSize < 1:
		return usagef("--max-message-size %d: at least 1 is wanted", *o.maxSize)
	case o.partition < -1:
		return usagef("--partition %d: a partition from 0, or -1 for any, is wanted", o.partition)
	case o.keyed && o.separator == "":
		return usagef("--key-separator: what stands between key and payload is wanted, such as : or $'\\t'")
	}
	return nil
}

// longestLine returns how long a line may be.
func (o *produceOptions) longestLine() int {
	longest := int(*o.maxSize)
	if o.cfg.Codec != message.CodecNone {
		longest = max(longest, maxCompressedLine)
	}
	return longest - o.audit.overhead()
}

// toBroker publishes to one of the brokers of the list.
func (o *produceOptions) toBroker(ctx context.Context, std stdio) (err error) {
	if o.cfg.Brokers, err = brokerList(o.list); err != nil {
		return err
	}
	if err := o.avro.open(ctx, o.connect); err != nil {
		return err
	}
	defer o.avro.close()
	var p *producer.Producer
	err = o.connect.try(ctx, func() error {
		p, err = producer.New(ctx, o.cfg)
		return err
	})
	if err != nil {
		return err
	}
	pick := func() int32 { return o.partition }
	if o.partition < 0 && o.cfg.Acks != producer.AcksNone {
		n := commonPartitions(ctx, o.cfg.Brokers, o.topic, std.Err)
		pick = func() int32 { return rand.Int32N(n) }
	}
	if o.audit.on {
		return o.auditedToBroker(ctx, std, p, pick)
	}
	send := func(lines [][]byte) (int, error) {
		n, err := o.avro.sendEncoded(lines, func(payloads [][]byte) error { return p.Send(ctx, o.topic, pick(), payloads...) })
		return n, o.withRange(ctx, err)
	}
	err = produceLines(ctx, send, newLineBatches(std.In, o.cfg.BatchMessages, o.longestLine()))
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, o.withRange(closeCtx, p.Close(closeCtx)))
}

// withRange adds to the error of a partition that a broker does not have which ones
// it has. Where they are several the one that has refused it is not known, and all
// are named.
func (o *produceOptions) withRange(ctx context.Context, err error) error {
	if !errors.Is(err, wire.CodeWrongPartition) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, b := range o.cfg.Brokers {
		n, askErr := partitionCount(ctx, b, o.topic)
		switch {
		case errors.Is(askErr, wire.CodeNoSuchTopic):
			err = fmt.Errorf("%w: %s has no topic %q yet, and makes one with its --num-partitions", err, b, o.topic)
		case askErr != nil:
			continue // it cannot say
		case n == 1:
			err = fmt.Errorf("%w: topic %q has 0 alone at %s", err, o.topic, b)
		default:
			err = fmt.Errorf("%w: topic %q has 0 up to %d at %s", err, o.topic, n-1, b)
		}
	}
	return err
}

// askTimeout bounds how long the brokers are asked for the partitions of a topic.
const askTimeout = 5 * time.Second

// commonPartitions returns how many partitions of a topic there are at each of
// the brokers, whichever of them the producer is connected to. Where that is not
// known, as of a topic that the first message makes, it is 1: partition 0 always
// can be.
func commonPartitions(ctx context.Context, brokers []string, topic string, notes io.Writer) int32 {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	common := math.MaxInt32
	for _, b := range brokers {
		n, err := partitionCount(ctx, b, topic)
		if err != nil {
			if !errors.Is(err, wire.CodeNoSuchTopic) {
				fmt.Fprintf(notes, "how many partitions topic %q has is not known, all goes to partition 0: %v\n", topic, err)
			}
			return 1
		}
		common = min(common, max(n, 1))
	}
	return int32(common)
}

func partitionCount(ctx context.Context, broker, topic string) (int, error) {
	conn, err := client.Dial(ctx, broker, client.Config{})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	states, err := conn.Topics(ctx, topic)
	return len(states), err
}

// taken returns how many of the messages of a Send were taken before its error.
func taken(err error) int {
	var partial *producer.PartialError
	if errors.As(err, &partial) {
		return partial.Taken
	}
	return 0
}

// produceLines sends every line, those that were there at once with one call of
// send, which returns how many it took before an error. Reading cannot be
// interrupted, so it runs in a goroutine of its own, which is left behind when ctx
// ends: the program ends then too.
func produceLines(ctx context.Context, send func(lines [][]byte) (int, error), in *lineBatches) error {
	done := make(chan error, 1)
	go func() {
		for {
			lines, err := in.next()
			if len(lines) > 0 {
				if n, err := send(lines); err != nil {
					done <- fmt.Errorf("stopped at line %d of the input: %w", in.number-int64(len(lines)-n)+1, err)
					return
				}
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done():
		return errors.New("interrupted before the end of the input")
	}
}
