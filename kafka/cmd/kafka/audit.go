package main

import (
	"context"
	"errors"
	"fmt"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

func auditCommand() command {
	return command{name: "audit", summary: "check that no message is lost: count a tier, compare tiers", run: runAudit}
}

const auditAbout = `Checks that all messages of audited producers ("kafka produce --audit") arrive at
each tier: the cluster they are published to, one that mirrors it, a load.

watch   consumes topics of a cluster, and its monitoring events, from all
        partitions, and counts the messages by topic, server and window of time,
        until it is interrupted. Positions and counts are in one file, --state,
        which is replaced whole: after a crash it goes on from there, and no
        message counts twice. It begins with the beginning of the logs
count   counts the files that a load has published ("kafka etl"), as a tier. Files that
        are counted already are passed over, so it may be called again and again
report  compares what the states of one or several tiers have counted with the
        monitoring events of all of them. The exit status is 1 when messages are
        missing, unreported, or could not be counted

A window of a tier is
  complete    all messages that were made have come, each once
  doubled     all have come, and some more often
  missing     some have not come
  unreported  messages have come that no event tells of: their producer died
              before it told how many it has made, so that nobody knows
  open        more may come: the tier was not known to hold nothing more at
              --grace after the window's end`

const auditExamples = `  kafka audit watch --tier live --zk-connect 127.0.0.1:2181 --topic clicks --state live.state
  kafka audit watch --tier mirror --zk-connect 127.0.0.1:2182 --topic clicks --state mirror.state --metrics-listen 127.0.0.1:9310
  kafka audit count --tier load --dir loaded --topic clicks --state load.state
  kafka audit report --state live.state --state mirror.state --state load.state
  kafka audit report --state live.state --state mirror.state --json --figure completeness.svg
`

// auditActions are the actions of audit. Each has flags of its own.
var auditActions = map[string]func(ctx context.Context, args []string, std stdio) error{
	"watch":  runAuditWatch,
	"count":  runAuditCount,
	"report": runAuditReport,
}

func runAudit(ctx context.Context, args []string, std stdio) error {
	if len(args) > 0 && auditActions[args[0]] != nil {
		return auditActions[args[0]](ctx, args[1:], std)
	}
	fs := newFlags(std, "kafka audit watch|count|report [flags]", auditAbout, auditExamples)
	fs.oneOf("watch", "count", "report")
	// The action comes first, as each has flags of its own.
	return fs.parse(args, 1, 1)
}

// checkerFlags are the flags of all that counts a tier.
type checkerFlags struct {
	cfg      audit.CheckerConfig
	avro     bool
	registry string // of schemas
	client   *schema.Client
}

func (f *checkerFlags) add(fs *flagSet) {
	c := &f.cfg
	fs.StringVar(&c.Tier, "tier", "", "name of the tier, as in live, mirror, load")
	fs.StringArrayVar(&c.Topics, "topic", nil, "topic to be counted, may be given several times")
	fs.StringVar(&c.State, "state", "", "file for positions and counts; made if missing")
	fs.DurationVar(&c.Window, "audit-window", audit.DefaultWindow, "length of the windows by which messages are counted that no event tells of: that of the producers")
	fs.DurationVar(&c.Limits.Keep, "keep", audit.DefaultKeep, "how long windows are kept; after that as sums alone")
	fs.DurationVar(&c.Limits.Ahead, "max-clock-ahead", audit.DefaultAhead, "messages that were made further in the future are not counted by windows")
	fs.IntVar(&c.Limits.MaxProducers, "max-producers", audit.DefaultMaxProducers, "producers that are kept, each counted for every topic that it publishes to; what is beyond is told of, and not counted by windows")
	fs.IntVar(&c.Limits.MaxWindows, "max-windows", audit.DefaultMaxWindows, "windows that are kept, of all producers, those of messages and those of events; what is beyond is told of likewise")
	fs.BoolVar(&f.avro, "avro", false, "messages are Avro, with the audit header as a record of the schema")
	fs.registryURLFlag(&f.registry, "with --avro")
	fs.require("tier", "topic", "state")
}

// check checks the flags' values that would not be errors of the command's use else.
func (f *checkerFlags) check(fs *flagSet) error {
	c := &f.cfg
	switch {
	case f.avro != fs.Changed(registryFlag):
		return usagef("--avro and --%s go together: it has the schemas that the messages name", registryFlag)
	case c.Limits.Keep <= 0:
		return usagef("--keep %v: more than 0 is wanted", c.Limits.Keep)
	case c.Limits.Ahead <= 0:
		return usagef("--max-clock-ahead %v: more than 0 is wanted", c.Limits.Ahead)
	case c.Limits.MaxProducers < 1:
		return usagef("--max-producers %d: at least 1 is wanted", c.Limits.MaxProducers)
	case c.Limits.MaxWindows < 1:
		return usagef("--max-windows %d: at least 1 is wanted", c.Limits.MaxWindows)
	}
	if err := c.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// open makes the client of the schema registry, if messages are Avro. close ends it. With
// awaitTurn reading a header waits where the client may not ask for a schema yet.
func (f *checkerFlags) open(awaitTurn bool) (err error) {
	if !f.avro {
		return nil
	}
	if f.client, err = schema.NewClient(schema.ClientConfig{URL: f.registry, AwaitTurn: awaitTurn, Logger: f.cfg.Logger}); err != nil {
		return usagef("--%s: %w", registryFlag, err)
	}
	f.cfg.Header = func(ctx context.Context, payload []byte) (envelope.Header, error) {
		h, err := f.client.Header(ctx, payload)
		if errors.Is(err, schema.ErrNoHeader) {
			err = fmt.Errorf("%w: %w", envelope.ErrNotEnvelope, err)
		}
		return h, err
	}
	return nil
}

func (f *checkerFlags) close() {
	if f.client != nil {
		f.client.Close()
	}
}
