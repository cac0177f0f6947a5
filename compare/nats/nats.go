// Package nats is NATS JetStream as a system under test, driven with nats.go.
// It is none of the paper's systems (NetDB'11 §5): it stands in the tables as
// "also measured", for it is what many would take today.
//
// A queue is a stream of the same name with one subject of that name, kept in
// files like a log: messages stay when they have been consumed. By default the
// producer publishes asynchronously with a bounded number of outstanding acks,
// as the library's documentation recommends, and the consumer pulls without
// acknowledging, which is what the others' automatic acknowledgement comes to.
//
// That is its documented best for this work too: NATS's own pages publish with
// PublishAsync and a bounded number pending ("Publishing to Streams",
// docs.nats.io, using-nats/developer/develop_jetstream/publish; the library's
// default is 4,000), and let a consumer that needs no redelivery have ack policy
// none, or one that does acknowledge many at once with ack policy all
// ("Consumers", docs.nats.io, nats-concepts/jetstream/consumers). Its 2.9 has no
// setting for when files are flushed: it does so every two minutes.
//
// Options: acks (async, each, none) with window, ack (none, all) with ack-every,
// prefetch, prefetch-bytes.
package nats

import (
	"context"
	"fmt"
	"strings"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Driver is NATS JetStream. It holds no state.
type Driver struct{}

// New returns the driver.
func New() driver.Driver { return &Driver{} }

// Name is "nats".
func (d *Driver) Name() string { return "nats" }

// packageName is the Debian package, and the name of the program in it.
const packageName = "nats-server"

// Check reads the options and looks for the program on the broker host.
func (d *Driver) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	return launch.Missing(ctx, broker, packageName, packageName, "bash")
}

// Settings describes the system for the table.
func (d *Driver) Settings(ctx context.Context, broker host.Host, o driver.Options) ([]driver.Setting, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	// Of the program itself: it need not be the distribution's.
	out, err := host.Ask(ctx, broker, onPath(packageName, "--version")...)
	if err != nil {
		return nil, fmt.Errorf("the version of %s on %s: %w", packageName, broker.Name(), err)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), packageName+": v")
	ack := "none: what was sent counts as consumed (ack policy none)"
	if opt.ackAll {
		ack = fmt.Sprintf("cumulative, one for %d messages (ack policy all)", opt.ackEvery)
	}
	return []driver.Setting{
		{Row: "version", Value: "NATS " + version},
		{Row: "protocol and client", Value: "NATS with JetStream, github.com/nats-io/nats.go v1.55.0, one connection; pulls by this driver's own requests on one subscription, in the way of the library's Consume"},
		{Row: "persistence", Value: "stream in files (storage file, one replica): a message is written to its file before it is acknowledged"},
		{Row: "flush to disk", Value: "fsync in the background every 2 minutes (the server's own interval, which 2.9 cannot be told): an ack does not say that a message is safe from a loss of power"},
		{Row: "producer acknowledgement", Value: opt.acknowledgement()},
		{Row: "producer batching", Value: "one message a publish; the library writes what has gathered (bytes, about 32 KiB, nothing waits)"},
		{Row: "consumer acknowledgement", Value: ack},
		{Row: "consumer prefetch", Value: fmt.Sprintf("pulls of up to %d messages or %d bytes, whichever is less; the next one is asked for when half of that has come", opt.prefetch, opt.prefetchBytes)},
		{Row: "queue or log", Value: "one stream with one subject, kept as a log (retention limits, without a limit)"},
		{Row: "memory", Value: "no limit set; the store keeps blocks in use, else the page cache"},
		{Row: "deviations from the defaults", Value: deviations(opt)},
	}, nil
}

func (o options) acknowledgement() string {
	const means = "; it means: written to the stream's file, not flushed"
	switch o.acks {
	case "async":
		return fmt.Sprintf("asynchronous, an ack for each message, up to %d outstanding", o.window) + means
	case "each":
		return "an ack awaited for every message" + means
	}
	return "none (a plain publish on the stream's subject; one round trip at the end of all)"
}

// deviations names what differs from a server with JetStream switched on and a
// client of the library as they come.
func deviations(o options) string {
	list := []string{"client does not reconnect"}
	if o.acks != "none" && o.window != defaultWindow {
		list = append(list, fmt.Sprintf("window %d for %d", o.window, defaultWindow))
	}
	list = append(list, fmt.Sprintf("pulls of %d messages for 500", o.prefetch))
	list = append(list, "the consumer's state in memory")
	if !o.ackAll {
		list = append(list, "ack policy none for explicit")
	} else {
		list = append(list, "ack policy all for explicit")
	}
	return strings.Join(list, "; ")
}
