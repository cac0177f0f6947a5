package nats

import (
	"fmt"

	"kafkalab/harness/driver"
)

// options are what a scenario can choose.
type options struct {
	acks          string // of the stream, for each message: async, each, none
	window        int    // async: messages that may wait for theirs; each: 1
	ackAll        bool   // the consumer acknowledges
	ackEvery      int    // ackAll: messages per acknowledgement
	prefetch      int    // messages that a pull asks for at most
	prefetchBytes int    // of payload that a pull asks for at most
}

const (
	defaultWindow = 4000 // the library's own
	// The paper's pull: 1,000 messages or about 200 KB (NetDB'11 §5).
	defaultPrefetch      = 1000
	defaultPrefetchBytes = 200 << 10
	defaultAckEvery      = 250
)

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opt := options{
		acks:          r.OneOf("acks", "async", "each", "none"),
		window:        r.Int("window", defaultWindow, 1, 100_000),
		ackAll:        r.OneOf("ack", "none", "all") == "all",
		ackEvery:      r.Int("ack-every", defaultAckEvery, 1, 65535),
		prefetch:      r.Int("prefetch", defaultPrefetch, 1, 65535),
		prefetchBytes: r.Int("prefetch-bytes", defaultPrefetchBytes, 1<<10, 32<<20),
	}
	if err := r.Err(); err != nil {
		return options{}, fmt.Errorf("nats: %w", err)
	}
	// An option that would do nothing is a misunderstanding.
	for _, n := range []struct {
		name, needs string
		met         bool
	}{
		{"window", "acks = async", opt.acks == "async"},
		{"ack-every", "ack = all", opt.ackAll},
	} {
		if _, given := o[n.name]; given && !n.met {
			return options{}, fmt.Errorf("nats: option %s does nothing without %s", n.name, n.needs)
		}
	}
	if opt.acks == "each" {
		opt.window = 1
	}
	return opt, nil
}
