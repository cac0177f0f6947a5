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

func runProduce(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka produce --broker-list HOST:PORT,… --topic T",
		`Publishes each line of the standard input as a message, without the line's end.
Lines that are there at once go out together, up to --batch-size in a request;
with --async they wait for each other, up to --queue-interval. It ends at the
end of the input, when a broker has confirmed that all has arrived, and fails
with the number of messages that did not. A broker drops a set with a message
above its own limit, and says so only with --acks.

With --acks a request names its partition. Without --partition one is then picked
at random for lines that are there at once, from those that every broker of the
list has of the topic; of one that a broker does not have yet it is partition 0.

With --compression the lines of a request are compressed into one message, which
consumers take apart again. The more lines in it, the smaller they become: see
--batch-size and --async.`,
		`  echo hello | kafka produce --broker-list 127.0.0.1:9092 --topic t
  kafka produce --broker-list 127.0.0.1:9092 --topic clicks --acks flushed < access.log
  kafka produce --broker-list 127.0.0.1:9092 --topic clicks --compression gzip --async < access.log
`)
	list := fs.String("broker-list", "", "brokers, HOST:PORT, divided by commas; one is picked at random")
	topic := fs.String("topic", "", "topic")
	partition := fs.Int32("partition", -1, "partition, -1 for any: the broker picks one for each request, with --acks this command does")
	batch := fs.Int("batch-size", producer.DefaultBatchMessages, "messages in a request, at most")
	async := fs.Bool("async", false, "gather messages in full batches")
	interval := fs.Duration("queue-interval", producer.DefaultQueueInterval, "with --async: how long a partial batch waits")
	acksName := fs.String("acks", "none", "what to wait for: none, received, appended, flushed")
	compression := fs.String("compression", "none", "none, gzip or snappy")
	connectTimeout := fs.connectFlag()
	maxSize := fs.sizeFlag("max-message-size", producer.DefaultMaxMessageBytes, "longest line, without its end; with --compression: largest compressed message")
	fs.require("broker-list", "topic")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	brokers, err := brokerList(*list)
	if err != nil {
		return err
	}
	if err := message.CheckTopic(*topic); err != nil {
		return usageError{err}
	}
	acks, err := producer.ParseAcks(*acksName)
	if err != nil {
		return usageError{err}
	}
	codec, err := message.ParseCodec(*compression)
	if err != nil {
		return usagef("--compression: %v", err)
	}
	switch {
	case *batch < 1:
		return usagef("--batch-size %d: at least 1 is wanted", *batch)
	case *maxSize < 1:
		return usagef("--max-message-size %d: at least 1 is wanted", *maxSize)
	case *partition < -1:
		return usagef("--partition %d: a partition from 0, or -1 for any, is wanted", *partition)
	}
	connect, err := newConnector(*connectTimeout, std.Err)
	if err != nil {
		return err
	}
	var p *producer.Producer
	err = connect.try(ctx, func() error {
		p, err = producer.New(ctx, producer.Config{
			Brokers: brokers, Async: *async, BatchMessages: *batch, QueueInterval: *interval, Acks: acks, Codec: codec, MaxMessageBytes: int(*maxSize),
		})
		return err
	})
	if err != nil {
		return err
	}
	pick := func() int32 { return *partition }
	if *partition < 0 && acks != producer.AcksNone {
		n := commonPartitions(ctx, brokers, *topic, std.Err)
		pick = func() int32 { return rand.Int32N(n) }
	}
	longest := int(*maxSize)
	if codec != message.CodecNone {
		longest = max(longest, maxCompressedLine)
	}
	err = produceLines(ctx, p, *topic, pick, newLineBatches(std.In, *batch, longest))
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, p.Close(closeCtx))
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

// produceLines sends every line, those that were there at once to the partition
// that is picked for them. Reading cannot be interrupted, so it runs in a
// goroutine of its own, which is left behind when ctx ends: the program ends
// then too.
func produceLines(ctx context.Context, p *producer.Producer, topic string, pick func() int32, in *lineBatches) error {
	done := make(chan error, 1)
	go func() {
		for {
			lines, err := in.next()
			if len(lines) > 0 {
				if err := p.Send(ctx, topic, pick(), lines...); err != nil {
					first := in.number - int64(len(lines)) + 1
					var partial *producer.PartialError
					if errors.As(err, &partial) {
						first += int64(partial.Taken)
					}
					done <- fmt.Errorf("stopped at line %d of the input: %w", first, err)
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
