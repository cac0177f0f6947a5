package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

func perfCommand() command {
	return command{name: "perf", summary: "measure how fast a broker takes or gives messages", run: runPerf}
}

// perfOptions are the flags of perf.
type perfOptions struct {
	brokers     []string
	topic       string
	partition   int32
	messages    int64
	messageSize int
	batch       int
	producers   int
	rate        float64
	acks        producer.Acks
	fetchSize   int
}

// perfResult is what perf prints.
type perfResult struct {
	Messages          int64   `json:"messages"`
	Bytes             int64   `json:"bytes"` // of the log
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	MBPerSecond       float64 `json:"mb_per_second"`
	*perfContent
}

func (r *perfResult) finish(d time.Duration) {
	r.Seconds = d.Seconds()
	if r.Seconds > 0 {
		r.MessagesPerSecond = float64(r.Messages) / r.Seconds
		r.MBPerSecond = float64(r.Bytes) / 1e6 / r.Seconds
	}
}

func runPerf(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka perf produce|consume --broker-list HOST:PORT --topic T",
		`produce  sends --messages messages that carry a sequence number and a checksum;
         the clock stops when the broker's log end says that all have arrived
consume  reads a partition from its beginning to the end that it has at the
         start, or --messages messages, and counts which of those that "perf
         produce" sent are lost, doubled or damaged; it fails if any is

MB are 10^6 bytes of log: payloads and the 9 bytes that each message adds.`,
		`  kafka perf produce --broker-list 127.0.0.1:9092 --topic perf --messages 1000000 --batch-size 50
  kafka perf consume --broker-list 127.0.0.1:9092 --topic perf --json
`)
	var o perfOptions
	list := fs.String("broker-list", "", "the broker, HOST:PORT")
	fs.StringVar(&o.topic, "topic", "", "topic; best a new one for each run")
	fs.Int32Var(&o.partition, "partition", 0, "partition")
	fs.Int64Var(&o.messages, "messages", 0, "how many messages; consume: 0 for all that are there")
	fs.IntVar(&o.messageSize, "message-size", 200, "produce: bytes of a payload, at least 20")
	fs.IntVar(&o.batch, "batch-size", producer.DefaultBatchMessages, "produce: messages in a request")
	fs.IntVar(&o.producers, "producers", 1, "produce: how many producers, each with a connection")
	fs.Float64Var(&o.rate, "rate", 0, "produce: messages a second of all producers together, 0 for as many as go")
	acksName := fs.String("acks", "none", "produce: none, received, appended, flushed")
	fetchSize := fs.sizeFlag("fetch-size", consumer.DefaultFetchBytes, "consume: how much to ask for at once")
	asJSON := fs.Bool("json", false, "print JSON")
	fs.require("broker-list", "topic")
	if err := fs.parse(args, 1, 1); err != nil {
		return err
	}
	var err error
	if o.brokers, err = brokerList(*list); err != nil {
		return err
	}
	if o.acks, err = producer.ParseAcks(*acksName); err != nil {
		return usageError{err}
	}
	o.fetchSize = int(*fetchSize)
	work, measure := fs.Arg(0), perfProduce
	switch work {
	case "produce":
	case "consume":
		measure = perfConsume
	default:
		return usagef("%q is neither produce nor consume", work)
	}
	if err := o.check(work); err != nil {
		return err
	}
	r, err := measure(ctx, o)
	if r == nil {
		return err
	}
	return errors.Join(err, printPerf(std.Out, r, *asJSON))
}

func (o perfOptions) check(work string) error {
	if err := message.CheckTopic(o.topic); err != nil {
		return usageError{err}
	}
	switch {
	case len(o.brokers) != 1:
		return usagef("--broker-list: one broker is measured, and %d are given", len(o.brokers))
	case o.partition < 0:
		return usagef("--partition %d: 0 or more is wanted", o.partition)
	case o.messages < 0 || work == "produce" && o.messages == 0:
		return usagef("--messages %d: how many messages to send is wanted", o.messages)
	case o.messageSize < perfHeaderBytes || o.messageSize > producer.DefaultMaxMessageBytes:
		return usagef("--message-size %d: %d to %d are wanted", o.messageSize, perfHeaderBytes, producer.DefaultMaxMessageBytes)
	case o.batch < 1:
		return usagef("--batch-size %d: at least 1 is wanted", o.batch)
	case o.producers < 1 || o.producers > 1000:
		return usagef("--producers %d: 1 to 1000 are wanted", o.producers)
	case o.rate < 0:
		return usagef("--rate %v: 0 or more is wanted", o.rate)
	case o.fetchSize < 1 || o.fetchSize > client.DefaultMaxResponseBytes:
		return usagef("--fetch-size %d: 1 to %d are wanted", o.fetchSize, client.DefaultMaxResponseBytes)
	}
	return nil
}

func printPerf(out io.Writer, r *perfResult, asJSON bool) error {
	if asJSON {
		return writeJSON(out, r)
	}
	_, err := fmt.Fprintf(out, "%d messages, %d bytes of log in %.3f s: %.0f messages/s, %.1f MB/s\n",
		r.Messages, r.Bytes, r.Seconds, r.MessagesPerSecond, r.MBPerSecond)
	if c := r.perfContent; c != nil && err == nil {
		_, err = fmt.Fprintf(out, "%d lost, %d doubled, %d damaged, %d not from perf\n", c.Lost, c.Doubled, c.Damaged, c.Foreign)
	}
	return err
}

// perfProduce sends the messages and waits until they have arrived.
func perfProduce(ctx context.Context, o perfOptions) (*perfResult, error) {
	watch, err := client.Dial(ctx, o.brokers[0], client.Config{})
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	before, err := partitionEnd(ctx, watch, o.topic, o.partition)
	if err != nil && !errors.Is(err, wire.CodeNoSuchTopic) { // sending makes the topic
		return nil, err
	}
	r := &perfResult{Messages: o.messages, Bytes: o.messages * int64(message.EntrySize(o.messageSize))}
	begin := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for i := range int64(o.producers) {
		n := o.messages / int64(o.producers)
		if i < o.messages%int64(o.producers) {
			n++
		}
		g.Go(func() error { return perfSend(gctx, o, n) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// All was confirmed by now; the log end proves it, whatever a producer says.
	end, err := partitionEnd(ctx, watch, o.topic, o.partition)
	r.finish(time.Since(begin))
	if err != nil {
		return nil, err
	}
	if got := end - before; got != r.Bytes {
		return r, fmt.Errorf("the log of %s-%d has grown by %d bytes, not %d: messages are missing, or others write to it too", o.topic, o.partition, got, r.Bytes)
	}
	return r, nil
}

// perfSend sends n messages as one producer.
func perfSend(ctx context.Context, o perfOptions, n int64) error {
	p, err := producer.New(ctx, producer.Config{Brokers: o.brokers, Async: true, BatchMessages: o.batch, Acks: o.acks})
	if err != nil {
		return err
	}
	payload := newPerfPayload(o.messageSize)
	perProducer := o.rate / float64(o.producers)
	begin := time.Now()
	for i := range n {
		if perProducer > 0 {
			if err = sleepUntil(ctx, begin.Add(time.Duration(float64(i)/perProducer*float64(time.Second)))); err != nil {
				break
			}
		}
		if err = p.Send(ctx, o.topic, o.partition, payload.next()); err != nil {
			break
		}
	}
	if err == nil {
		err = p.Flush(ctx)
	}
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, p.Close(closeCtx))
}

// sleepUntil waits for a planned time. Times that have passed are not waited
// for, so a stall is caught up with.
func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// perfConsume reads the partition and checks what it reads.
func perfConsume(ctx context.Context, o perfOptions) (*perfResult, error) {
	end, err := logEnd(ctx, o.brokers[0], o.topic, o.partition)
	if err != nil {
		return nil, err
	}
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{
		Broker: o.brokers[0], Topic: o.topic, Partition: o.partition, Start: consumer.Earliest, Reset: consumer.ResetFail, FetchBytes: o.fetchSize,
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := &perfResult{perfContent: &perfContent{}}
	check := perfCheck{content: r.perfContent, next: map[uint64]uint64{}}
	begin := time.Now()
	// The end that was appended at the start may still wait for its flush.
	for first, offset := true, s.ConsumedOffset(); offset < end && (o.messages == 0 || r.Messages < o.messages); first = false {
		it, err := s.NextChunk(ctx)
		if err != nil {
			return r, err
		}
		if first {
			offset = it.NextOffset()
		}
		for (o.messages == 0 || r.Messages < o.messages) && offset < end && it.Next() {
			check.payload(it.Message().Payload)
			r.Messages++
			r.Bytes += it.NextOffset() - it.Offset()
			offset = it.NextOffset()
		}
		if err := it.Err(); err != nil {
			return r, err
		}
	}
	r.finish(time.Since(begin))
	if o.messages > r.Messages {
		return r, fmt.Errorf("%s-%d holds %d messages, not %d", o.topic, o.partition, r.Messages, o.messages)
	}
	if c := r.perfContent; c.Lost+c.Doubled+c.Damaged > 0 {
		return r, fmt.Errorf("%s-%d: %d messages lost, %d doubled, %d damaged", o.topic, o.partition, c.Lost, c.Doubled, c.Damaged)
	}
	return r, nil
}

// newProducerID returns a number that no other producer has.
func newProducerID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}
