package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"time"

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
	zk        zkOptions // in the place of broker: all brokers that are registered
	group     string
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

// profiled calls measure while a profile of this process's time is written to a
// file, if one is named.
func profiled(file string, measure func() (*perfResult, error)) (*perfResult, error) {
	if file == "" {
		return measure()
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("--cpu-profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--cpu-profile: %w", err), f.Close())
	}
	r, err := measure()
	pprof.StopCPUProfile()
	return r, errors.Join(err, f.Close())
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
         message, so that a stall counts for all that it held up; without one
         the messages of a batch are planned for when it is begun
consume  reads from the beginning to the end that there is at the start, or
         --messages messages, or with --follow what comes, and counts which of
         those that "perf produce" sent are lost, doubled or damaged; it fails if
         any is. Of messages sent after its start it prints the time from when
         they were planned until they were there, which says something only when
         both run on one host

With --zk-connect all partitions of the topic at all brokers are measured, which
must not change meanwhile; the topic must exist. Producers use what ZooKeeper
tells of the brokers, and each keeps to one partition, so that the order of its
messages can be checked; use as many as there are partitions, or more. "consume"
joins a group, whose streams share the partitions; its clock starts when they
have them, and other members of the group would make messages seem lost.
--partition and --offset make no sense there, and rates of one partition are
better measured with --broker-list.

MB are 10^6 bytes of log: payloads and the 9 bytes that each message adds, or what
compression makes of them.`

// perfFlags are the flags of perf that only one of its actions takes.
var perfFlags = map[string]string{
	"message-size": "produce", "batch-size": "produce", "producers": "produce", "in-flight": "produce", "rate": "produce",
	"acks": "produce", "compression": "produce", "payload": "produce",
	"group": "consume", "consumers": "consume", "offset": "consume", "follow": "consume", "idle-timeout": "consume", "fetch-size": "consume",
}

const perfExamples = `  kafka perf produce --broker-list 127.0.0.1:9092 --topic perf --messages 1000000 --batch-size 50
  kafka perf produce --broker-list 127.0.0.1:9092 --topic perf --messages 100000 --rate 10000 --batch-size 1 --acks flushed
  kafka perf consume --broker-list 127.0.0.1:9092 --topic perf --json
  kafka perf consume --broker-list 127.0.0.1:9092 --topic perf --offset latest --follow
  kafka perf produce --zk-connect 127.0.0.1:2181 --topic perf --messages 1000000 --producers 4
  kafka perf consume --zk-connect 127.0.0.1:2181 --topic perf --consumers 2
`

// perfValues are flags of perf that are not what they say.
type perfValues struct {
	list, partition, acks, codec, payload, offset, profile string
	fetchSize                                              *byteSize
}

// perfFlagSet returns the flags, which set o and v.
func perfFlagSet(std stdio, o *perfOptions, v *perfValues) *flagSet {
	fs := newFlags(std, "kafka perf produce|consume (--broker-list HOST:PORT | --zk-connect HOST:PORT,…/PATH) --topic T", perfAbout, perfExamples)
	fs.StringVar(&v.list, listFlag, "", "the broker, HOST:PORT")
	fs.StringVar(&o.zk.servers, zkFlag, "", "ZooKeeper, HOST:PORT, several divided by commas, with /PATH at the end: all partitions at all brokers are measured")
	fs.StringVar(&o.topic, "topic", "", "topic; best a new one for each run")
	fs.StringVar(&v.partition, "partition", "0", "with --broker-list: partition, or all: producers take turns, consumers read each")
	fs.Int64Var(&o.messages, "messages", 0, "produce: how many messages; consume: how many at most for each consumer and partition, of a group in all, 0 for all that are there")
	fs.DurationVar(&o.interval, "report-interval", 5*time.Second, "how often a line of progress is written, if not to a terminal; 0: never")
	fs.IntVar(&o.messageSize, "message-size", 200, fmt.Sprintf("produce: bytes of a payload, at least %d", perfHeaderBytes))
	fs.IntVar(&o.batch, "batch-size", producer.DefaultBatchMessages, "produce: messages in a request")
	fs.IntVar(&o.producers, "producers", 1, "produce: how many producers, each with connections of its own")
	fs.IntVar(&o.inFlight, "in-flight", 16, "produce: with --acks, how many requests of a producer wait for their answers at once")
	fs.Float64Var(&o.rate, "rate", 0, "produce: messages a second of all producers together, 0 for as many as go")
	fs.StringVar(&v.acks, "acks", "none", "produce: none, received, appended, flushed")
	fs.StringVar(&v.codec, "compression", "none", "produce: none, gzip, snappy")
	fs.StringVar(&v.payload, "payload", "random", "produce: random bytes, which do not compress, or text, which does")
	fs.StringVar(&o.group, "group", "", "consume, with --zk-connect: the group; without it one of its own, deleted afterwards")
	fs.IntVar(&o.consumers, "consumers", 1, "consume: how many consumers, each with connections of its own, and each reading all; of a group: streams, which share all")
	fs.StringVar(&v.offset, "offset", "earliest", "consume, with --broker-list: where to begin: earliest (or smallest), latest (or largest), or the offset of a message")
	fs.BoolVar(&o.follow, "follow", false, "consume: wait for more at the end of the log, until --messages, --idle-timeout or an interrupt")
	fs.DurationVar(&o.idleTimeout, "idle-timeout", 10*time.Second, "consume: with --follow, end when no message came for so long; 0: never")
	fs.StringVar(&v.profile, "cpu-profile", "", "write a profile of where this process's time goes to a file, for \"go tool pprof\"; the broker's is at its --metrics-listen address, for programs on its own machine: /debug/pprof/profile?seconds=5")
	v.fetchSize = fs.sizeFlag("fetch-size", 0, "consume: "+fetchSizeUsage)
	return fs
}

func runPerf(ctx context.Context, args []string, std stdio) error {
	o := perfOptions{progress: std.Err}
	var v perfValues
	fs := perfFlagSet(std, &o, &v)
	asJSON := fs.Bool("json", false, "print JSON")
	connectTimeout := fs.connectFlag()
	fs.oneOf("produce", "consume")
	fs.require("topic")
	if err := fs.parse(args, 1, 1); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	work := fs.Arg(0)
	for name, of := range perfFlags {
		if fs.Changed(name) && work != of {
			return usagef("--%s is for %s", name, of)
		}
	}
	err := o.parse(v)
	if err != nil {
		return err
	}
	if o.zk.servers != "" {
		o.zk.connect = *connectTimeout
		err = fs.refuse("it is for --broker-list: with ZooKeeper all partitions at all brokers are measured, and a group goes on where it has committed", "partition", "offset")
	} else {
		err = fs.refuse("it is for --zk-connect", "group")
	}
	if err != nil {
		return err
	}
	o.notes = &streamNotes{out: std.Err, broker: o.broker}
	if o.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	if err := o.check(work, fs.Changed("idle-timeout"), fs.Changed("in-flight")); err != nil {
		return err
	}
	measure := perfProduce
	switch {
	case work == "consume" && o.zk.servers != "":
		measure = perfConsumeGroup
	case work == "consume":
		measure = perfConsume
	}
	r, err := profiled(v.profile, func() (*perfResult, error) { return measure(ctx, o) })
	if r == nil {
		return err
	}
	return errors.Join(err, printPerf(std.Out, r, *asJSON))
}

// parse reads the values of flags that are not what they say.
func (o *perfOptions) parse(v perfValues) error {
	if o.zk.servers == "" {
		brokers, err := brokerList(v.list)
		if err != nil {
			return err
		}
		if len(brokers) != 1 {
			return usagef("--broker-list: one broker is measured, and %d are given: --zk-connect measures all", len(brokers))
		}
		o.broker = brokers[0]
	}
	if o.partition = allPartitions; v.partition != "all" {
		n, err := strconv.ParseInt(v.partition, 10, 32)
		if err != nil || n < 0 {
			return usagef("--partition %q: a number from 0, or all, is wanted", v.partition)
		}
		o.partition = int32(n)
	}
	var err error
	if o.acks, err = producer.ParseAcks(v.acks); err != nil {
		return usageError{err}
	}
	if o.codec, err = message.ParseCodec(v.codec); err != nil {
		return usageError{err}
	}
	if o.text = v.payload == "text"; !o.text && v.payload != "random" {
		return usagef("--payload %q: random or text is wanted", v.payload)
	}
	o.fetchSize = int(*v.fetchSize)
	o.start, err = startOffset(v.offset)
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
	case o.fetchSize > wire.MaxRequestSize:
		return usagef("--fetch-size %d: at most %d bytes are wanted", o.fetchSize, wire.MaxRequestSize)
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
	_, err := fmt.Fprintf(out, "%s, %d bytes of log in %.3f s: %.0f messages/s, %.1f MB/s\n",
		count(r.Messages, "message"), r.Bytes, r.Seconds, r.MessagesPerSecond, r.MBPerSecond)
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
