package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

const produceAuditAbout = `With --audit each line is published in an envelope with the time, the name of this
server, an id of this producer and a sequence number, and how many there were in
each fixed window of time is published to the topic of monitoring events; "kafka
audit" checks that all of them arrive. Lines whose sending fails are sent again for
--audit-retry, with the same sequence numbers, and then given up: the others go
on, and the exit status is 1. With --avro-schema too there is no envelope: the same is
in a field "header" of the record, which is added to the schema.`

// auditRetry is how long lines are sent again by default.
const auditRetry = 30 * time.Second

// eventsTimeout bounds how long a command waits at its end until its last monitoring
// events are acknowledged.
const eventsTimeout = 15 * time.Second

// auditFlags are the flags of produce that begin with audit.
type auditFlags struct {
	on     bool
	window time.Duration
	topic  string
	server string
	retry  time.Duration
	spool  string
}

func (a *auditFlags) add(fs *flagSet) {
	fs.BoolVar(&a.on, "audit", false, "put each line into an envelope, and publish monitoring events")
	fs.DurationVar(&a.window, "audit-window", audit.DefaultWindow, "with --audit: length of the windows that are counted by")
	fs.StringVar(&a.topic, "audit-topic", audit.DefaultTopic, "with --audit: topic of the monitoring events")
	fs.StringVar(&a.server, "audit-server", "", "with --audit: name of this server in the envelopes; by default that of the host")
	fs.DurationVar(&a.retry, "audit-retry", auditRetry, "with --audit: how long lines whose sending fails are sent again, 0: not at all")
	fs.StringVar(&a.spool, "audit-spool", "", "with --audit: file for monitoring events that are not published yet, for the next start; none by default")
}

// check checks the flags.
func (a *auditFlags) check(fs *flagSet, topic string) error {
	if !a.on {
		return fs.refuse("it goes with --audit", "audit-window", "audit-topic", "audit-server", "audit-retry", "audit-spool")
	}
	if a.server == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("the name of this host: %w: give --audit-server", err)
		}
		a.server = name
	}
	if err := errors.Join(audit.CheckWindow(a.window), message.CheckTopic(a.topic), envelope.CheckServer(a.server)); err != nil {
		return usageError{err}
	}
	switch {
	case a.retry < 0:
		return usagef("--audit-retry %v: 0 or more is wanted", a.retry)
	case a.topic == topic:
		return usagef("--audit-topic %s: it is --topic, and monitoring events need one of their own", topic)
	}
	return nil
}

// overhead is how many bytes an envelope adds to a line.
func (a *auditFlags) overhead() int {
	if !a.on {
		return 0
	}
	return envelope.Size(envelope.Header{Server: a.server}, 0)
}

// auditedLines publishes lines with an audited producer.
type auditedLines struct {
	*audit.Producer
	topic string
	notes io.Writer
	lost  int // lines that were given up
	// fitting returns how many of some lines can be messages, and what is wrong with
	// the next one.
	fitting func(lines [][]byte) (int, error)
}

// newAuditedLines returns what publishes lines by messages, and monitoring events by
// events.
func (o *produceOptions) newAuditedLines(messages, events audit.Sender, notes io.Writer) (*auditedLines, error) {
	log := slog.New(slog.NewTextHandler(notes, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := audit.ProducerConfig{
		Messages: messages, Acked: o.cfg.Acks != producer.AcksNone && !o.cfg.Async, RetryFor: o.audit.retry, Events: events, Topic: o.audit.topic,
		Server: o.audit.server, Window: o.audit.window, Spool: o.audit.spool, Logger: log,
		NotSent: func(err error) { fmt.Fprintf(notes, "%v; going on\n", err) },
	}
	if e := o.avro.encoder; e != nil {
		cfg.Encode = func(dst []byte, h envelope.Header, line []byte) ([]byte, error) {
			return e.AppendJSONWithHeader(dst, line, h)
		}
	}
	p, err := audit.NewProducer(cfg)
	if err != nil {
		return nil, err
	}
	return &auditedLines{Producer: p, topic: o.topic, notes: notes, fitting: o.avro.fitting}, nil
}

// send publishes lines with one key, and goes on after those that it has to give up. A
// line that can be no message is an error.
func (a *auditedLines) send(ctx context.Context, key []byte, lines [][]byte) (int, error) {
	n, unfit := a.fitting(lines)
	if n == 0 {
		return 0, unfit
	}
	lines = lines[:n]
	err := a.Send(ctx, a.topic, key, lines...)
	switch {
	case err == nil:
		return len(lines), unfit
	case ctx.Err() != nil:
		return taken(err), err
	}
	left := len(lines) - taken(err)
	a.lost += left
	fmt.Fprintf(a.notes, "%s given up: %v; going on\n", count(left, "line"), err)
	return len(lines), unfit
}

// end closes what publishes the messages, then publishes what the events are to tell of
// them, and closes what publishes those.
func (a *auditedLines) end(ctx context.Context, messages, events interface{ Close(context.Context) error }) error {
	ctx = context.WithoutCancel(ctx)
	closeCtx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := messages.Close(closeCtx)
	a.Lost(err)
	eventsCtx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	err = errors.Join(err, a.Close(eventsCtx), events.Close(eventsCtx))
	stats := a.Stats()
	if a.lost > 0 {
		err = errors.Join(err, fmt.Errorf("%s were given up", count(a.lost, "line")))
	}
	if stats.NotSent > 0 && err == nil {
		err = fmt.Errorf("%s did not arrive, or not for certain", count(stats.NotSent, "message"))
	}
	return err
}

// eventsConfig returns the settings of the producer of monitoring events.
func (o *produceOptions) eventsConfig() producer.Config {
	return producer.Config{Brokers: o.cfg.Brokers, Acks: producer.AcksFlushed}
}

// auditedToBroker publishes to one of the brokers of the list, with monitoring events.
func (o *produceOptions) auditedToBroker(ctx context.Context, std stdio, p *producer.Producer, pick func() int32) error {
	events, err := producer.New(ctx, o.eventsConfig())
	if err != nil {
		return errors.Join(err, p.Close(ctx))
	}
	n := commonPartitions(ctx, o.cfg.Brokers, o.audit.topic, std.Err)
	a, err := o.newAuditedLines(
		audit.ToPartition{Producer: p, Partition: func(string) int32 { return pick() }},
		audit.ToPartition{Producer: events, Partition: func(string) int32 { return rand.Int32N(n) }}, std.Err)
	if err != nil {
		return errors.Join(err, p.Close(ctx), events.Close(ctx))
	}
	send := func(lines [][]byte) (int, error) { return a.send(ctx, nil, lines) }
	err = produceLines(ctx, send, newLineBatches(std.In, o.cfg.BatchMessages, o.longestLine()))
	return errors.Join(err, a.end(ctx, p, events))
}

// auditedToCluster publishes to all brokers that are registered, with monitoring events.
func (o *produceOptions) auditedToCluster(ctx context.Context, std stdio, c *producer.Cluster, events *producer.Cluster) error {
	a, err := o.newAuditedLines(c, events, std.Err)
	if err != nil {
		return errors.Join(err, c.Close(ctx), events.Close(ctx))
	}
	send := func(lines [][]byte) (int, error) { return a.send(ctx, nil, lines) }
	longest := o.longestLine()
	if o.keyed {
		k := &keyedLines{separator: []byte(o.separator), send: func(key []byte, payloads [][]byte) (int, error) { return a.send(ctx, key, payloads) }}
		send = k.sendAll
		longest += maxKeyBytes + len(o.separator)
	}
	err = produceLines(ctx, send, newLineBatches(std.In, o.cfg.BatchMessages, longest))
	return errors.Join(err, a.end(ctx, c, events))
}
