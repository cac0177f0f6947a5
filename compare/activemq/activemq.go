// Package activemq is ActiveMQ as a system under test, driven over STOMP 1.2
// with go-stomp.
//
// By default it promises what the paper asked of it: persistent messages in
// KahaDB, whose journal is left to the operating system (its index is synced as
// its pages are written, as the broker comes), automatic
// acknowledgement, a prefetch of 1,000 (NetDB'11 §5). The producer either
// waits for no receipt, or for one with every message, which is what a JMS
// client does by default for persistent messages.
//
// Its documented best for this work is, by the pages of ActiveMQ Classic's own
// documentation (activemq.apache.org/components/classic/documentation/…):
//
//   - asynchronous sends, since waiting for each message is a "huge latency
//     penalty" ("Async Sends", async-sends; "Performance Tuning",
//     performance-tuning): receipt = none, or receipt = bulk where the producer
//     is to know what was taken, with a window as useAsyncSend has it in a
//     producer window.
//   - sync = never, the fastest of the journal's strategies, or periodic, which
//     loses a second's worth at most ("KahaDB", kahadb: journalDiskSyncStrategy).
//     The same page has preallocation = entire_journal_async for SSDs
//     (preallocationScope).
//   - index-cache as large as the index, larger index-batch, index-async = true:
//     the properties are on the same page, that they are for speed stands in Red
//     Hat's guide to the same broker ("Red Hat JBoss A-MQ 6, Tuning Guide",
//     6.2 KahaDB Optimization, docs.redhat.com).
//   - ack = client with acknowledgements of many messages, which is what
//     optimizeAcknowledge does in the Java client ("Performance Tuning"), with a
//     large prefetch ("What is the Prefetch Limit For?",
//     what-is-the-prefetch-limit-for).
//   - useCache and concurrentStoreAndDispatchQueues are on as shipped, and would be
//     here with use-cache and concurrent-store; but messages were seen out of order
//     with both, which the testbed takes for a fault unless a system's may_reorder
//     says that order is not promised.
//
// Options: receipt (none, every, bulk) with window, socket (coalesced, plain),
// ack (auto, client) with ack-every, prefetch, sync (never, periodic, always),
// index-batch, index-cache, index-async, index-syncs (true, false), preallocation (entire_journal,
// entire_journal_async, none), use-cache and concurrent-store (false, true), heap-mb, memory-mb.
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
	ack := "automatic: an acknowledgement for each message that is sent, made by the broker's STOMP side (a JMS client in its automatic mode gathers them)"
	if opt.clientAck {
		ack = fmt.Sprintf("client, cumulative, one for %d messages", opt.ackEvery)
	}
	return []driver.Setting{
		{Row: "version", Value: fmt.Sprintf("ActiveMQ %s, %s", version, java)},
		{Row: "protocol and client", Value: opt.client()},
		{Row: "persistence", Value: "persistent:true on every message, KahaDB"},
		{Row: "flush to disk", Value: opt.flushing()},
		{Row: "producer acknowledgement", Value: opt.acknowledgement()},
		{Row: "producer batching", Value: opt.batching()},
		{Row: "consumer acknowledgement", Value: ack},
		{Row: "consumer prefetch", Value: fmt.Sprintf("%d messages", opt.prefetch)},
		{Row: "queue or log", Value: "one queue; a queue for each of several consumers, by a composite destination"},
		{Row: "memory", Value: fmt.Sprintf("Java heap %d MiB, memoryUsage %d mb", opt.heapMB, opt.MemoryMB)},
		{Row: "deviations from the defaults", Value: fmt.Sprintf("journalDiskSyncStrategy %s for always; %sproducerFlowControl false; %smemoryUsage %d mb, storeUsage 40 gb, tempUsage 2 gb; "+
			"useJmx, advisorySupport and schedulerSupport off; statisticsBrokerPlugin on", opt.Sync, opt.indexing(), opt.ordering(), opt.MemoryMB)},
	}, nil
}

const whyOrder = ", since a message was seen out of order with both on; "

func (o options) ordering() string {
	switch {
	case o.Cache && o.Concurrent:
		return ""
	case o.Cache:
		return "concurrentStoreAndDispatchQueues false" + whyOrder
	case o.Concurrent:
		return "useCache false" + whyOrder
	}
	return "useCache and concurrentStoreAndDispatchQueues false" + whyOrder
}

// indexing names what differs from KahaDB's own.
func (o options) indexing() string {
	text := ""
	if o.IndexBatch != defaultIndexBatch {
		text += fmt.Sprintf("indexWriteBatchSize %d for %d; ", o.IndexBatch, defaultIndexBatch)
	}
	if o.IndexCache != defaultIndexCache {
		text += fmt.Sprintf("indexCacheSize %d pages for %d; ", o.IndexCache, defaultIndexCache)
	}
	if o.IndexAsync {
		text += "enableIndexWriteAsync true for false; "
	}
	if !o.IndexSyncs {
		text += "enableIndexDiskSyncs false for true; "
	}
	if o.Preallocation != "entire_journal" {
		text += fmt.Sprintf("preallocationScope %s for entire_journal; ", o.Preallocation)
	}
	return text
}

func (o options) client() string {
	const wire = "STOMP 1.2 (stomp+nio), github.com/go-stomp/stomp/v3 v3.1.5"
	if o.receipt == "bulk" {
		return wire + " (the producer with its own framing, since the library has one receipt outstanding at most), one connection; no heart-beats"
	}
	return wire + ", one connection; no heart-beats"
}

func (o options) acknowledgement() string {
	switch o.receipt {
	case "every":
		return "one receipt awaited for every message (as a JMS client does by default for persistent messages); it means: " + o.promise()
	case "bulk":
		return fmt.Sprintf("receipts, asynchronous, one for %d messages, up to %d messages without; one means: %s", o.receiptEvery, o.window, o.promise())
	}
	return "none for a message; one receipt at the end of all"
}

// promise is what the broker has done when it gives a receipt.
func (o options) promise() string {
	if o.Sync == "always" {
		return "in the journal on disk (fsync)"
	}
	return "taken, on its way to the journal file"
}

func (o options) flushing() string {
	index := "; the index is synced as its pages are written (enableIndexDiskSyncs)"
	if !o.IndexSyncs {
		index = "; the index is not synced (enableIndexDiskSyncs false)"
	}
	switch o.Sync {
	case "always":
		return "fsync of the journal for every write (journalDiskSyncStrategy always)" + index
	case "periodic":
		return "fsync of the journal every second (journalDiskSyncStrategy periodic)" + index
	}
	return "the journal's left to the operating system (journalDiskSyncStrategy never)" + index
}

func (o options) batching() string {
	if o.coalesced {
		return "one message a SEND; the client's socket writes what has gathered (bytes, up to 256 KiB, nothing waits)"
	}
	return "one message a SEND; the library's plain socket (a system call per message)"
}
