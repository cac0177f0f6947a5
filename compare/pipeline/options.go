package pipeline

import (
	"fmt"
	"time"

	"kafkalab/harness/driver"
)

// fault is what is done to a pipeline on purpose.
type fault string

// The faults.
const (
	faultNone   fault = "none"
	faultBroker fault = "broker" // a live broker is killed with SIGKILL, and started again
	faultMirror fault = "mirror" // a mirror is, and another one takes its place
	faultSet    fault = "set"    // one message set is left out between front end and balancer
)

func (f fault) words() string {
	switch f {
	case faultBroker:
		return "a live broker is killed with SIGKILL and started again"
	case faultMirror:
		return "a mirror is killed with SIGKILL and another one started"
	case faultSet:
		return "one message set is left out on its way from a front end to the balancer"
	}
	return "nothing"
}

// options of the driver, of both halves. Those of periods are Kafka 0.7's own
// defaults where it has one.
type options struct {
	brokers        int           // "brokers" of the live cluster
	replicaBrokers int           // "replica-brokers"
	partitions     int           // "partitions" of the topic at each live broker
	flush          time.Duration // "flush-interval" of all brokers (0.7: 1 s)
	session        time.Duration // "session-timeout" with ZooKeeper (0.7: 6 s)

	frontEnds int           // "front-ends": processes that publish
	acks      string        // "acks" of the front ends: none (0.7), received, appended, flushed
	batch     int           // "batch": messages of a request, at most (0.7: 200)
	linger    time.Duration // "linger": how long a batch waits to be full (0.7: 5 s); 0: not at all
	window    time.Duration // "audit-window" of the monitoring events
	mirrors   int           // "mirrors": processes of the one group
	load      time.Duration // "load-interval": from one load to the next

	fault fault // "fault": none, broker, mirror, set
}

func readOptions(o driver.Options) (options, error) {
	r := o.Read()
	opts := options{
		brokers:        r.Int("brokers", 2, 1, 4),
		replicaBrokers: r.Int("replica-brokers", 1, 1, 4),
		partitions:     r.Int("partitions", 2, 1, 100),
		flush:          r.Duration("flush-interval", time.Second),
		session:        r.Duration("session-timeout", 6*time.Second),
		frontEnds:      r.Int("front-ends", 2, 1, 16),
		acks:           r.OneOf("acks", "none", "received", "appended", "flushed"),
		batch:          r.Int("batch", 200, 1, 100_000),
		linger:         r.Duration("linger", 5*time.Second),
		window:         r.Duration("audit-window", 5*time.Second),
		mirrors:        r.Int("mirrors", 2, 1, 8),
		load:           r.Duration("load-interval", 10*time.Second),
		fault:          fault(r.OneOf("fault", string(faultNone), string(faultBroker), string(faultMirror), string(faultSet))),
	}
	if err := r.Err(); err != nil {
		return opts, err
	}
	return opts, opts.check()
}

// check looks at what options mean together.
func (opts options) check() error {
	all := opts.brokers * opts.partitions
	switch {
	case opts.flush < time.Millisecond:
		return fmt.Errorf("option flush-interval = %v: at least 1ms is wanted, or nothing would become visible", opts.flush)
	case opts.session < 500*time.Millisecond || opts.session > time.Minute:
		return fmt.Errorf("option session-timeout = %v: from 500ms to 1m is wanted", opts.session)
	case opts.window < time.Second:
		return fmt.Errorf("option audit-window = %v: at least 1s is wanted", opts.window)
	case opts.load < 100*time.Millisecond:
		return fmt.Errorf("option load-interval = %v: at least 100ms is wanted", opts.load)
	case opts.linger != 0 && opts.linger < time.Millisecond:
		return fmt.Errorf("option linger = %v: at least 1ms is wanted, or 0s for no wait", opts.linger)
	case all%opts.replicaBrokers != 0:
		return fmt.Errorf("options brokers = %d, partitions = %d, replica-brokers = %d: the %d partitions cannot be dealt evenly to the replica brokers", opts.brokers, opts.partitions, opts.replicaBrokers, all)
	case opts.fault == faultBroker && opts.brokers < 2:
		return fmt.Errorf("options fault = %q, brokers = %d: front ends would have nowhere to go: give 2 or more", opts.fault, opts.brokers)
	case opts.fault == faultMirror && opts.mirrors < 2:
		return fmt.Errorf("options fault = %q, mirrors = %d: nobody would take over: give 2 or more", opts.fault, opts.mirrors)
	case opts.fault == faultSet && opts.acks != "none":
		return fmt.Errorf("options fault = %q, acks = %q: a front end that waits for an answer would notice: give acks = %q", opts.fault, opts.acks, "none")
	}
	return nil
}
