package activemq

import (
	"fmt"

	"kafkalab/harness/driver"
)

// options are what a scenario can choose.
type options struct {
	receipts  bool // one awaited for every SEND
	coalesced bool // the client's socket
	clientAck bool
	prefetch  int
	ackEvery  int    // clientAck: messages per acknowledgement
	sync      string // of the journal: never, periodic, always
	heapMB    int    // of the Java machine, MiB
	memoryMB  int    // memoryUsage: what the broker keeps messages in, MiB
	// keepsOrder switches off two of ActiveMQ's defaults: the cache of a queue's
	// cursor, and storing beside dispatching. With both on, a message was seen
	// out of its order. The likely cause, not proven, is the known race when the
	// cache becomes full while a message is still being stored (AMQ-9625).
	keepsOrder bool
}

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opt := options{
		receipts:   r.OneOf("receipt", "none", "every") == "every",
		coalesced:  r.OneOf("socket", "coalesced", "plain") == "coalesced",
		clientAck:  r.OneOf("ack", "auto", "client") == "client",
		prefetch:   r.Int("prefetch", 1000, 1, 65535),
		ackEvery:   r.Int("ack-every", 100, 1, 65535),
		sync:       r.OneOf("sync", "never", "periodic", "always"),
		heapMB:     r.Int("heap-mb", 2048, 256, 1<<20),
		memoryMB:   r.Int("memory-mb", 512, 16, 1<<20),
		keepsOrder: r.OneOf("order", "kept", "as-shipped") == "kept",
	}
	if err := r.Err(); err != nil {
		return options{}, fmt.Errorf("activemq: %w", err)
	}
	if opt.memoryMB >= opt.heapMB {
		return options{}, fmt.Errorf("activemq: option memory-mb = %d: it must be smaller than heap-mb = %d, of which it is a part", opt.memoryMB, opt.heapMB)
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
