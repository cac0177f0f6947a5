package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func consumeCommand() command {
	return command{name: "consume", summary: "print the messages of a partition", run: runConsume}
}

func runConsume(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka consume --broker-list HOST:PORT --topic T [--partition P] [--offset earliest|latest|N]",
		`Prints each message of a partition as a line, from an offset on, and waits for
more until it is interrupted, --max-messages were printed, or, with
--exit-at-end, everything is printed that the log held when it began. A topic
that does not exist is waited for, but an error with --exit-at-end. Messages
that were compressed together have one offset, and are printed from the first.`,
		`  kafka consume --broker-list 127.0.0.1:9092 --topic t --exit-at-end
  kafka consume --broker-list 127.0.0.1:9092 --topic t --offset latest --json
`)
	list := fs.String("broker-list", "", "the broker that has the partition, HOST:PORT")
	topic := fs.String("topic", "", "topic")
	partition := fs.Int32("partition", 0, "partition")
	offset := fs.String("offset", "earliest", "where to begin: earliest, latest, or the offset of a message")
	resetName := fs.String("offset-reset", "smallest", "where to go on when an offset is out of range: smallest, largest, fail")
	max := fs.Int64("max-messages", 0, "how many messages at most, 0 for no limit")
	exit := fs.Bool("exit-at-end", false, "end at what is the end of the log at the start")
	fetchSize := fs.sizeFlag("fetch-size", consumer.DefaultFetchBytes, "how much to ask for at once")
	maxDecompressed := fs.sizeFlag("max-decompressed-size", consumer.DefaultMaxDecompressedBytes, "how much a compressed message may hold")
	asJSON := fs.Bool("json", false, "print JSON: partition, offset, next offset, payload")
	connectTimeout := fs.connectFlag()
	fs.require("broker-list", "topic")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	brokers, err := brokerList(*list)
	if err != nil {
		return err
	}
	start, err := startOffset(*offset)
	if err != nil {
		return err
	}
	reset, err := consumer.ParseReset(*resetName)
	if err != nil {
		return usageError{err}
	}
	if err := message.CheckTopic(*topic); err != nil {
		return usageError{err}
	}
	switch {
	case len(brokers) != 1:
		return usagef("--broker-list: a partition is on one broker, and %d are given", len(brokers))
	case *max < 0:
		return usagef("--max-messages %d: 0 or more is wanted", *max)
	case *partition < 0:
		return usagef("--partition %d: 0 or more is wanted", *partition)
	case *fetchSize < 1 || *fetchSize > wire.MaxRequestSize:
		return usagef("--fetch-size %s: 1 byte to %d are wanted", fetchSize, wire.MaxRequestSize)
	case *maxDecompressed < 1 || *maxDecompressed > math.MaxInt32:
		return usagef("--max-decompressed-size %s: 1 byte to %d are wanted", maxDecompressed, math.MaxInt32)
	}
	connect, err := newConnector(*connectTimeout, std.Err)
	if err != nil {
		return err
	}
	begin := beginning{topic: *topic, partition: *partition, start: start, reset: reset, notes: &streamNotes{out: std.Err, broker: brokers[0]}}
	if err := begin.find(ctx, connect, brokers[0], *exit); err != nil {
		return err
	}
	c := printer{out: bufio.NewWriter(std.Out), json: *asJSON, partition: *partition, max: *max, end: -1, endCheck: endCheckInterval}
	if *exit {
		c.end = begin.logEnd
		c.logEnd = func() (int64, error) { return logEnd(ctx, brokers[0], *topic, *partition) }
	}
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: brokers[0], Topic: *topic, Partition: *partition, Start: begin.start, Reset: reset, FetchBytes: int(*fetchSize),
		MaxDecompressedBytes: int(*maxDecompressed), Hooks: begin.notes.hooks(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	err = c.print(ctx, s)
	if errors.Is(err, context.Canceled) {
		err = nil // an interrupt is how consuming ends
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

// printer prints messages.
type printer struct {
	out       *bufio.Writer
	json      bool
	partition int32
	max       int64 // messages, 0: no limit
	end       int64 // offset at which to end, -1: nowhere
	logEnd    func() (int64, error)
	endCheck  time.Duration // how often logEnd is asked while the end does not come
	printed   int64
}

// print prints the messages of s. What was printed is written out before the
// stream is asked for more, and so before the messages count as consumed.
func (p *printer) print(ctx context.Context, s *consumer.Stream) error {
	for p.end < 0 || s.ConsumedOffset() < p.end {
		chunk, err := p.next(ctx, s)
		if err != nil {
			return err
		}
		more, err := p.chunk(chunk)
		flushErr := p.out.Flush()
		if err == nil {
			err = flushErr // else they are the same, or the damage matters more
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// endCheckInterval is how long the end may keep one waiting before the broker
// is asked whether there still is one.
const endCheckInterval = 5 * time.Second

// next waits for more. Up to an end it does not wait for ever: the end does not
// come when the topic is deleted meanwhile.
func (p *printer) next(ctx context.Context, s *consumer.Stream) (message.Iterator, error) {
	if p.end < 0 {
		return s.NextChunk(ctx)
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, p.endCheck)
		chunk, err := s.NextChunk(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return chunk, err
		}
		end, err := p.logEnd()
		if err != nil {
			return chunk, err
		}
		if end < p.end {
			return chunk, fmt.Errorf("the log ended at offset %d at the start and ends at %d now: its topic was deleted, and perhaps made anew", p.end, end)
		}
	}
}

// chunk prints the messages of a chunk and says whether to go on. Damage at its
// end is left for the stream to report, which knows the partition.
func (p *printer) chunk(it message.Iterator) (bool, error) {
	for it.Next() {
		if p.end >= 0 && it.Offset() >= p.end {
			return false, nil
		}
		if err := p.message(&it); err != nil {
			return false, err
		}
		p.printed++
		if p.printed == p.max || p.end >= 0 && it.NextOffset() >= p.end {
			return false, nil
		}
	}
	// Compressed messages that hold none may be what the log ends with.
	return p.end < 0 || it.NextOffset() < p.end, nil
}

// printedMessage is a message in JSON.
type printedMessage struct {
	Partition  int32 `json:"partition"`
	Offset     int64 `json:"offset"`
	NextOffset int64 `json:"next_offset"`
	printedPayload
}

func (p *printer) message(it *message.Iterator) error {
	payload := it.Message().Payload
	if !p.json {
		if _, err := p.out.Write(payload); err != nil {
			return err
		}
		return p.out.WriteByte('\n')
	}
	return writeJSON(p.out, printedMessage{p.partition, it.Offset(), it.NextOffset(), printPayload(payload)})
}

// printedPayload is a payload in JSON.
type printedPayload struct {
	Payload *string `json:"payload,omitempty"`
	// PayloadBase64 stands in for Payload where that is not UTF-8.
	PayloadBase64 []byte `json:"payload_base64,omitempty"`
}

func printPayload(b []byte) printedPayload {
	if !utf8.Valid(b) {
		return printedPayload{PayloadBase64: b}
	}
	s := string(b)
	return printedPayload{Payload: &s}
}
