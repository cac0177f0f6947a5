package activemq

import (
	"fmt"

	"kafkalab/harness/driver"
)

// options are what a scenario can choose. The exported ones stand in the
// configuration files.
type options struct {
	receipt      string // none, every, bulk
	window       int    // bulk: messages that may wait for theirs
	receiptEvery int    // bulk: messages per receipt
	coalesced    bool   // the client's socket
	clientAck    bool
	prefetch     int
	ackEvery     int    // clientAck: messages per acknowledgement
	Sync         string // of the journal: never, periodic, always
	heapMB       int    // of the Java machine, MiB
	MemoryMB     int    // memoryUsage: what the broker keeps messages in, MiB
	// Cache keeps what a queue's cursor will dispatch in memory, and Concurrent
	// stores a message beside its dispatching. Both are on as ActiveMQ comes. With
	// both on, a message was seen out of its order. The likely cause, not proven, is
	// the known race when the cache becomes full while a message is still being
	// stored (AMQ-9625).
	Cache, Concurrent bool

	// Of KahaDB's index and journal:
	IndexBatch    int // changed index pages that are written together
	IndexCache    int // index pages kept in memory, of 4 KiB
	IndexAsync    bool
	IndexSyncs    bool   // the index is synced as its pages are written, whatever is done with the journal
	Preallocation string // entire_journal, entire_journal_async, none
}

// KahaDB's own.
const (
	defaultIndexBatch = 1000
	defaultIndexCache = 10_000
)

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opt := options{
		receipt:       r.OneOf("receipt", "none", "every", "bulk"),
		window:        r.Int("window", 1000, 1, 100_000),
		coalesced:     r.OneOf("socket", "coalesced", "plain") == "coalesced",
		clientAck:     r.OneOf("ack", "auto", "client") == "client",
		prefetch:      r.Int("prefetch", 1000, 1, 65535),
		ackEvery:      r.Int("ack-every", 100, 1, 65535),
		Sync:          r.OneOf("sync", "never", "periodic", "always"),
		heapMB:        r.Int("heap-mb", 2048, 256, 1<<20),
		MemoryMB:      r.Int("memory-mb", 512, 16, 1<<20),
		Cache:         r.OneOf("use-cache", "false", "true") == "true",
		Concurrent:    r.OneOf("concurrent-store", "false", "true") == "true",
		IndexBatch:    r.Int("index-batch", defaultIndexBatch, 1, 1_000_000),
		IndexCache:    r.Int("index-cache", defaultIndexCache, 100, 1_000_000),
		IndexAsync:    r.OneOf("index-async", "false", "true") == "true",
		IndexSyncs:    r.OneOf("index-syncs", "true", "false") == "true",
		Preallocation: r.OneOf("preallocation", "entire_journal", "entire_journal_async", "none"),
	}
	if err := r.Err(); err != nil {
		return options{}, fmt.Errorf("activemq: %w", err)
	}
	if opt.MemoryMB >= opt.heapMB {
		return options{}, fmt.Errorf("activemq: option memory-mb = %d: it must be smaller than heap-mb = %d, of which it is a part", opt.MemoryMB, opt.heapMB)
	}
	if _, given := o["window"]; given && opt.receipt != "bulk" {
		return options{}, fmt.Errorf("activemq: option window does nothing without receipt = bulk")
	}
	// The broker handles the frames of a connection in their order, so that one
	// receipt tells of all messages before. But it waits for the disk for a
	// message that asks for a receipt alone.
	opt.receiptEvery = (opt.window + 3) / 4
	if opt.Sync == "always" {
		opt.receiptEvery = 1
	}
	_, given := o["ack-every"]
	if given && !opt.clientAck {
		return options{}, fmt.Errorf("activemq: option ack-every does nothing without ack = client")
	}
	// The broker was seen to stall when fewer acknowledgements than four come
	// in a prefetch window.
	if most := max(opt.prefetch/4, 1); opt.clientAck && opt.ackEvery > most {
		if given {
			return options{}, fmt.Errorf("activemq: option ack-every = %d: with prefetch = %d the broker stalls above %d", opt.ackEvery, opt.prefetch, most)
		}
		opt.ackEvery = most
	}
	return opt, nil
}
