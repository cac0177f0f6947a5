package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

func perfCommand() command {
	return command{name: "perf", summary: "measure how fast a broker takes or gives messages", run: runPerf}
}

// allPartitions is the value of --partition for all that the topic has.
const allPartitions = -1

// perfOptions are the flags of perf.
type perfOptions struct {
	broker    string
	topic     string
	partition int32 // allPartitions for all
	messages  int64
	interval  time.Duration // between two reports of progress
	progress  io.Writer
	connect   *connector
	notes     *streamNotes

	// produce
	messageSize int
	batch       int
	producers   int
	inFlight    int
	rate        float64
	acks        producer.Acks
	codec       message.Codec
	text        bool // payloads of words instead of random bytes

	// consume
	consumers   int
	start       int64
	follow      bool
	idleTimeout time.Duration
	fetchSize   int
}

// perfResult is what perf prints.
type perfResult struct {
	Messages          int64   `json:"messages"`
	Bytes             int64   `json:"bytes"` // of the log
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	MBPerSecond       float64 `json:"mb_per_second"`
	*perfRate
	Latency *perfLatency `json:"latency,omitempty"`
	*perfContent
}

// perfRate is how well the wanted rate was kept.
type perfRate struct {
	Wanted   float64 `json:"rate_wanted"`
	Achieved float64 `json:"rate_achieved"`
	Missed   bool    `json:"rate_missed"` // less than 99 % of it
}

func (r *perfResult) finish(d time.Duration) {
	r.Seconds = d.Seconds()
	if r.Seconds > 0 {
		r.MessagesPerSecond = float64(r.Messages) / r.Seconds
		r.MBPerSecond = float64(r.Bytes) / 1e6 / r.Seconds
	}
}

const perfAbout = `produce  sends --messages messages that carry a sequence number, the time that
         they were planned for, and a checksum. The clock stops when the broker's
         log end says that all have arrived. With --acks it prints how long the
         acknowledgements took, with --rate from the planned time of each
         message, so that a stall counts for all that it held up
consume  reads from the beginning to the end that there is at the start, or
         --messages messages, or with --follow what comes, and counts which of
         those that "perf produce" sent are lost, doubled or damaged; it fails if
         any is. Of messages sent after its start it prints the time from when
         they were planned until they were there, which says something only when
         both run on one host

MB are 10^6 bytes of log: payloads and the 9 bytes that each message adds, or what
compression makes of them.`

// perfFlags are the flags of perf that only one of its actions takes.
var perfFlags = map[string]string{
	"message-size": "produce", "batch-size": "produce", "producers": "produce", "in-flight": "produce", "rate": "produce",
	"acks": "produce", "compression": "produce", "payload": "produce",
	"consumers": "consume", "offset": "consume", "follow": "consume", "idle-timeout": "consume", "fetch-size": "consume",
}

func runPerf(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka perf produce|consume --broker-list HOST:PORT --topic T", perfAbout,
		`  kafka perf produce --broker-list 127.0.0.1:9092 --topic perf --messages 1000000 --batch-size 50
  kafka perf produce --broker-list 127.0.0.1:9092 --topic perf --messages 100000 --rate 10000 --batch-size 1 --acks flushed
  kafka perf consume --broker-list 127.0.0.1:9092 --topic perf --json
  kafka perf consume --broker-list 127.0.0.1:9092 --topic perf --offset latest --follow
`)
	o := perfOptions{progress: std.Err}
	list := fs.String("broker-list", "", "the broker, HOST:PORT")
	fs.StringVar(&o.topic, "topic", "", "topic; best a new one for each run")
	partition := fs.String("partition", "0", "partition, or all: producers take turns, consumers read each")
	fs.Int64Var(&o.messages, "messages", 0, "produce: how many messages; consume: how many at most for each consumer and partition, 0 for all that are there")
	fs.DurationVar(&o.interval, "report-interval", 5*time.Second, "how often a line of progress is written, if not to a terminal; 0: never")
	fs.IntVar(&o.messageSize, "message-size", 200, fmt.Sprintf("produce: bytes of a payload, at least %d", perfHeaderBytes))
	fs.IntVar(&o.batch, "batch-size", producer.DefaultBatchMessages, "produce: messages in a request")
	fs.IntVar(&o.producers, "producers", 1, "produce: how many producers, each with a connection")
	fs.IntVar(&o.inFlight, "in-flight", 16, "produce: with --acks, how many requests of a producer wait for their answers at once")
	fs.Float64Var(&o.rate, "rate", 0, "produce: messages a second of all producers together, 0 for as many as go")
	acksName := fs.String("acks", "none", "produce: none, received, appended, flushed")
	codecName := fs.String("compression", "none", "produce: none, gzip, snappy")
	payload := fs.String("payload", "random", "produce: random bytes, which do not compress, or text, which does")
	fs.IntVar(&o.consumers, "consumers", 1, "consume: how many consumers, each with connections of its own, and each reading all")
	offset := fs.String("offset", "earliest", "consume: where to begin: earliest, latest, or the offset of a message")
	fs.BoolVar(&o.follow, "follow", false, "consume: wait for more at the end of the log, until --messages, --idle-timeout or an interrupt")
	fs.DurationVar(&o.idleTimeout, "idle-timeout", 10*time.Second, "consume: with --follow, end when no message came for so long; 0: never")
	fetchSize := fs.sizeFlag("fetch-size", consumer.DefaultFetchBytes, "consume: how much to ask for at once")
	asJSON := fs.Bool("json", false, "print JSON")
	connectTimeout := fs.connectFlag()
	fs.require("broker-list", "topic")
	if err := fs.parse(args, 1, 1); err != nil {
		return err
	}
	work := fs.Arg(0)
	if work != "produce" && work != "consume" {
		return usagef("%q is neither produce nor consume", work)
	}
	for name, of := range perfFlags {
		if fs.Changed(name) && work != of {
			return usagef("--%s is for %s", name, of)
		}
	}
	err := o.parse(*list, *partition, *acksName, *codecName, *payload, *offset)
	if err != nil {
		return err
	}
	o.fetchSize = int(*fetchSize)
	o.notes = &streamNotes{out: std.Err, broker: o.broker}
	if o.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	measure := perfProduce
	if work == "consume" {
		measure = perfConsume
	}
	if err := o.check(work, fs.Changed("idle-timeout"), fs.Changed("in-flight")); err != nil {
		return err
	}
	r, err := measure(ctx, o)
	if r == nil {
		return err
	}
	return errors.Join(err, printPerf(std.Out, r, *asJSON))
}

// parse reads the values of flags that are not what they say.
func (o *perfOptions) parse(list, partition, acks, codec, payload, offset string) error {
	brokers, err := brokerList(list)
	if err != nil {
		return err
	}
	if len(brokers) != 1 {
		return usagef("--broker-list: one broker is measured, and %d are given", len(brokers))
	}
	o.broker = brokers[0]
	if o.partition = allPartitions; partition != "all" {
		n, err := strconv.ParseInt(partition, 10, 32)
		if err != nil || n < 0 {
			return usagef("--partition %q: a number from 0, or all, is wanted", partition)
		}
		o.partition = int32(n)
	}
	if o.acks, err = producer.ParseAcks(acks); err != nil {
		return usageError{err}
	}
	if o.codec, err = message.ParseCodec(codec); err != nil {
		return usageError{err}
	}
	if o.text = payload == "text"; !o.text && payload != "random" {
		return usagef("--payload %q: random or text is wanted", payload)
	}
	o.start, err = startOffset(offset)
	return err
}

// maxPerfBuffers bounds the memory for the payloads of requests that wait for
// their answers, in bytes.
const maxPerfBuffers = 1 << 30

func (o *perfOptions) check(work string, idleGiven, inFlightGiven bool) error {
	if err := message.CheckTopic(o.topic); err != nil {
		return usageError{err}
	}
	switch {
	case o.messages < 0 || work == "produce" && o.messages == 0:
		return usagef("--messages %d: how many messages to send is wanted", o.messages)
	case o.interval < 0:
		return usagef("--report-interval %v: 0 or more is wanted", o.interval)
	case o.messageSize < perfHeaderBytes || o.messageSize > producer.DefaultMaxMessageBytes:
		return usagef("--message-size %d: %d to %d are wanted", o.messageSize, perfHeaderBytes, producer.DefaultMaxMessageBytes)
	case o.batch < 1:
		return usagef("--batch-size %d: at least 1 is wanted", o.batch)
	case o.producers < 1 || o.producers > 1000:
		return usagef("--producers %d: 1 to 1000 are wanted", o.producers)
	case o.inFlight < 1 || o.inFlight > 1000:
		return usagef("--in-flight %d: 1 to 1000 are wanted", o.inFlight)
	case inFlightGiven && o.acks == producer.AcksNone:
		return usagef("--in-flight is for --acks: without them no request is answered")
	case !(o.rate >= 0 && o.rate <= 1e9): // not NaN either
		return usagef("--rate %v: 0 to 1000000000 are wanted", o.rate)
	case o.consumers < 1 || o.consumers > 1000:
		return usagef("--consumers %d: 1 to 1000 are wanted", o.consumers)
	case o.idleTimeout < 0:
		return usagef("--idle-timeout %v: 0 or more is wanted", o.idleTimeout)
	case idleGiven && !o.follow:
		return usagef("--idle-timeout is for --follow: without it the end of the log is the end")
	case o.fetchSize < 1 || o.fetchSize > wire.MaxRequestSize:
		return usagef("--fetch-size %d: 1 to %d are wanted", o.fetchSize, wire.MaxRequestSize)
	}
	if o.acks == producer.AcksNone {
		return nil
	}
	request := min(int64(o.batch), o.messages) * int64(message.EntrySize(o.messageSize))
	if total := request * int64(o.inFlight*o.producers); request > wire.MaxRequestSize-1024 || total > maxPerfBuffers {
		return usagef("%d messages of %d bytes in a request, %d of those in flight: that is too much to be held in memory, at most %d bytes are: lower --batch-size or --in-flight",
			o.batch, o.messageSize, o.inFlight*o.producers, maxPerfBuffers)
	}
	return nil
}

func printPerf(out io.Writer, r *perfResult, asJSON bool) error {
	if asJSON {
		return writeJSON(out, r)
	}
	_, err := fmt.Fprintf(out, "%d messages, %d bytes of log in %.3f s: %.0f messages/s, %.1f MB/s\n",
		r.Messages, r.Bytes, r.Seconds, r.MessagesPerSecond, r.MBPerSecond)
	if k := r.perfRate; k != nil && err == nil {
		_, err = fmt.Fprintf(out, "rate: %.0f messages/s of %.0f wanted\n", k.Achieved, k.Wanted)
		if k.Missed && err == nil {
			_, err = fmt.Fprintln(out, "RATE NOT REACHED: the latencies are those of an overloaded system or client")
		}
	}
	if r.Latency != nil && err == nil {
		_, err = fmt.Fprintln(out, r.Latency)
	}
	if c := r.perfContent; c != nil && err == nil {
		_, err = fmt.Fprintf(out, "%d lost, %d doubled, %d damaged, %d not from perf\n", c.Lost, c.Doubled, c.Damaged, c.Foreign)
	}
	return err
}

// perfPartitions returns the states of the partitions that are meant. A topic
// that does not exist is wire.CodeNoSuchTopic.
func (o *perfOptions) perfPartitions(ctx context.Context, c *client.Conn) ([]wire.TopicState, error) {
	if o.partition != allPartitions {
		s, err := askPartition(ctx, c, o.topic, o.partition)
		return []wire.TopicState{s}, err
	}
	states, err := c.Topics(ctx, o.topic)
	if errors.Is(err, wire.CodeNoSuchTopic) {
		return nil, noSuchTopic(o.topic, c.Addr())
	}
	return states, err
}

// interrupted words the error of a measurement whose context has ended.
func interrupted(ctx context.Context, err error, done, all int64, what string) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	of := ""
	if all > 0 {
		of = fmt.Sprintf(" of %d", all)
	}
	stop := fmt.Errorf("interrupted after %d%s messages were %s", done, of, what)
	var lost *producer.NotSentError
	if errors.As(err, &lost) {
		return errors.Join(stop, lost)
	}
	return stop
}
