// Package activemq is ActiveMQ as a system under test, driven over STOMP 1.2
// with go-stomp.
//
// By default it promises what the paper asked of it: persistent messages in
// KahaDB, whose journal is left to the operating system, automatic
// acknowledgement, a prefetch of 1,000 (NetDB'11 §5). The producer either
// waits for no receipt, or for one with every message, which is what a JMS
// client does by default for persistent messages.
//
// Options: receipt (none, every), socket (coalesced, plain), ack (auto,
// client) with ack-every, prefetch, sync (never, periodic, always), heap-mb,
// memory-mb.
package activemq

import (
	"context"
	"fmt"
	"strings"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Driver is ActiveMQ. It holds no state.
type Driver struct{}

// New returns the driver.
func New() driver.Driver { return &Driver{} }

// Name is "activemq".
func (d *Driver) Name() string { return "activemq" }

// Check reads the options and looks for the programs on the broker host.
func (d *Driver) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	return launch.Missing(ctx, broker, "activemq", "java", launcher, home+"/lib/activemq-stomp.jar", home+"/lib/activemq-kahadb-store.jar", messagingJar, "bash")
}

// Settings describes the system for the table.
func (d *Driver) Settings(ctx context.Context, broker host.Host, o driver.Options) ([]driver.Setting, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	version, err := launch.PackageVersion(ctx, broker, "activemq", "java", "-Dactivemq.home="+home, "-jar", launcher, "--version")
	if err != nil {
		return nil, err
	}
	out, err := host.Ask(ctx, broker, "java", "--version")
	if err != nil {
		return nil, fmt.Errorf("the version of Java on %s: %w", broker.Name(), err)
	}
	java, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	receipt, ack := "none for a message; one receipt at the end of all", "automatic"
	if opt.receipts {
		receipt = "one receipt awaited for every message (as a JMS client does by default for persistent messages)"
	}
	if opt.clientAck {
		ack = fmt.Sprintf("client, cumulative, one for %d messages", opt.ackEvery)
	}
	return []driver.Setting{
		{Row: "version", Value: fmt.Sprintf("ActiveMQ %s, %s", version, java)},
		{Row: "protocol and client", Value: "STOMP 1.2 (stomp+nio), github.com/go-stomp/stomp/v3 v3.1.5, one connection; no heart-beats"},
		{Row: "persistence", Value: "persistent:true on every message, KahaDB"},
		{Row: "flush to disk", Value: opt.flushing()},
		{Row: "producer acknowledgement", Value: receipt},
		{Row: "producer batching", Value: opt.batching()},
		{Row: "consumer acknowledgement", Value: ack},
		{Row: "consumer prefetch", Value: fmt.Sprintf("%d messages", opt.prefetch)},
		{Row: "queue or log", Value: "one queue"},
		{Row: "memory", Value: fmt.Sprintf("Java heap %d MiB, memoryUsage %d mb", opt.heapMB, opt.memoryMB)},
		{Row: "deviations from the defaults", Value: fmt.Sprintf("journalDiskSyncStrategy %s for always; producerFlowControl false; %smemoryUsage %d mb, storeUsage 40 gb, tempUsage 2 gb; "+
			"useJmx, advisorySupport and schedulerSupport off; statisticsBrokerPlugin on", opt.sync, opt.ordering(), opt.memoryMB)},
	}, nil
}

func (o options) ordering() string {
	if o.keepsOrder {
		return "useCache and concurrentStoreAndDispatchQueues false, since a message was seen out of order with both on; "
	}
	return ""
}

func (o options) flushing() string {
	switch o.sync {
	case "always":
		return "fsync of the journal for every write (journalDiskSyncStrategy always)"
	case "periodic":
		return "fsync of the journal every second (journalDiskSyncStrategy periodic)"
	}
	return "left to the operating system (journalDiskSyncStrategy never)"
}

func (o options) batching() string {
	if o.coalesced {
		return "one message a SEND; the client's socket writes what has gathered (bytes, up to 256 KiB, nothing waits)"
	}
	return "one message a SEND; the library's plain socket (a system call per message)"
}
