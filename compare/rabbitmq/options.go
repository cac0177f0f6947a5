package rabbitmq

import (
	"fmt"

	"github.com/streadway/amqp"

	"kafkalab/harness/driver"
)

// options are what a scenario can choose.
type options struct {
	queue     string // lazy, classic, classic-v2, quorum, stream
	transient bool   // delivery mode 1 in place of 2
	confirms  string // none, each, bulk
	window    int    // confirms outstanding at most; each: 1
	coalesced bool   // the client's socket
	manualAck bool
	prefetch  int // manualAck: messages sent ahead of their acknowledgement
	ackEvery  int // manualAck: messages per acknowledgement
	memory    int // percent of the memory that the server may use
}

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opt := options{
		queue:     r.OneOf("queue", "lazy", "classic", "classic-v2", "quorum", "stream"),
		transient: r.OneOf("delivery", "persistent", "transient") == "transient",
		confirms:  r.OneOf("confirms", "none", "each", "bulk"),
		window:    r.Int("window", 1000, 1, 100_000),
		coalesced: r.OneOf("socket", "coalesced", "plain") == "coalesced",
		manualAck: r.OneOf("ack", "auto", "manual") == "manual",
		prefetch:  r.Int("prefetch", 1000, 1, 65535),
		ackEvery:  r.Int("ack-every", 250, 1, 65535),
		memory:    r.Int("memory-percent", 60, 10, 90),
	}
	if err := r.Err(); err != nil {
		return options{}, fmt.Errorf("rabbitmq: %w", err)
	}
	if opt.stream() {
		if _, given := o["ack"]; given && !opt.manualAck {
			return options{}, fmt.Errorf("rabbitmq: option ack = auto: a stream is consumed with acknowledgements and a prefetch only")
		}
		opt.manualAck = true
	}
	// Transient messages in a queue of these kinds are stored all the same.
	if _, given := o["delivery"]; given && opt.transient && (opt.stream() || opt.queue == "quorum") {
		return options{}, fmt.Errorf("rabbitmq: option delivery = transient does nothing with queue = %s", opt.queue)
	}
	// An option that would do nothing is a misunderstanding.
	for _, n := range []struct {
		name, needs string
		met         bool
	}{
		{"window", "confirms = bulk", opt.confirms == "bulk"},
		{"prefetch", "ack = manual", opt.manualAck},
		{"ack-every", "ack = manual", opt.manualAck},
	} {
		if _, given := o[n.name]; given && !n.met {
			return options{}, fmt.Errorf("rabbitmq: option %s does nothing without %s", n.name, n.needs)
		}
	}
	if opt.confirms == "each" {
		opt.window = 1
	}
	if opt.manualAck && opt.ackEvery > opt.prefetch {
		if _, given := o["ack-every"]; given {
			return options{}, fmt.Errorf("rabbitmq: option ack-every = %d: with prefetch = %d no more than that ever waits to be acknowledged", opt.ackEvery, opt.prefetch)
		}
		opt.ackEvery = (opt.prefetch + 3) / 4
	}
	return opt, nil
}

// stream says whether messages stay when they have been consumed.
func (o options) stream() bool { return o.queue == "stream" }

// mode is the delivery mode of messages.
func (o options) mode() uint8 {
	if o.transient {
		return amqp.Transient
	}
	return amqp.Persistent
}

// arguments are those with which the queue is declared.
func (o options) arguments() amqp.Table {
	switch o.queue {
	case "lazy":
		return amqp.Table{"x-queue-mode": "lazy"}
	case "classic-v2":
		return amqp.Table{"x-queue-version": int32(2)}
	case "quorum", "stream":
		return amqp.Table{"x-queue-type": o.queue}
	}
	return nil
}

// consuming are the arguments with which it is consumed: a stream from its
// beginning.
func (o options) consuming() amqp.Table {
	if o.stream() {
		return amqp.Table{"x-stream-offset": "first"}
	}
	return nil
}
