// Package rabbitmq is RabbitMQ as a system under test, driven over AMQP 0-9-1
// with streadway/amqp.
//
// By default it promises what the paper asked of it: persistent messages in a
// durable queue, no publisher confirms, automatic acknowledgement (NetDB'11
// §5). The queue is lazy, which was in trials (not published) the fastest kind of those
// that lose a message when it is consumed, and keeps a steady size in memory at
// ten million messages.
//
// Its documented best for this work is, by RabbitMQ's own documentation of 3.10:
//
//   - queue = stream: made for throughput, large logs and fan-out, where "no
//     persistent queue types" come near a log ("Streams",
//     www.rabbitmq.com/streams.html). A confirm means that a quorum of replicas
//     has the message, and is not flushed: the same promise as that of the other
//     systems here. Not destructive: a consumer begins at the first offset, and
//     each consumer gets all. Consumed with a prefetch and acknowledgements,
//     which are mere credit there. The page prefers the stream protocol with a
//     client of its own over AMQP; this driver has AMQP only.
//   - confirms = bulk: confirms handled as a stream, asynchronously, with many
//     outstanding; waiting for each is what the page warns of ("Consumer
//     Acknowledgements and Publisher Confirms", www.rabbitmq.com/confirms.html).
//   - ack = manual with acknowledgements of many at once, and for a queue a prefetch
//     of 100 to 300 messages (same page). A stream's prefetch is its credit: the
//     page on streams has 100 in its example and gives no best value.
//   - Erlang's schedulers that do not wait busily (+sbwt none), which its page on
//     "Runtime Tuning" advises where a machine is shared (www.rabbitmq.com/runtime.html):
//     so they are as the package comes, in both views.
//   - queue = lazy for queues of millions of messages, where a queue and not a
//     log is wanted ("Lazy Queues", www.rabbitmq.com/lazy-queues.html).
//
// Options: queue (lazy, classic, classic-v2, quorum, stream), delivery
// (persistent, transient), confirms (none, each, bulk) with window, socket
// (coalesced, plain), ack (auto, manual; a stream is always manual) with
// prefetch and ack-every, memory-percent.
package rabbitmq

import (
	"context"
	"fmt"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Driver is RabbitMQ. It holds no state.
type Driver struct{}

// New returns the driver.
func New() driver.Driver { return &Driver{} }

// Name is "rabbitmq".
func (d *Driver) Name() string { return "rabbitmq" }

// Check reads the options and looks for the programs on the broker host.
func (d *Driver) Check(ctx context.Context, broker host.Host, o driver.Options) error {
	if _, err := readOptions(o); err != nil {
		return err
	}
	return launch.Missing(ctx, broker, "rabbitmq-server", serverProgram, "epmd", "erl", "bash")
}

// Settings describes the system for the table.
func (d *Driver) Settings(ctx context.Context, broker host.Host, o driver.Options) ([]driver.Setting, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	version, err := launch.PackageVersion(ctx, broker, "rabbitmq-server", "sh", "-c", "ls -d /usr/lib/rabbitmq/lib/rabbitmq_server-*")
	if err != nil {
		return nil, err
	}
	erlang, err := launch.PackageVersion(ctx, broker, "erlang-base", "erl", "-noshell", "-eval", `io:put_chars(erlang:system_info(otp_release)), halt().`)
	if err != nil {
		return nil, err
	}
	ack, prefetch, args := "automatic (the server takes a message as consumed when it has sent it)", "does not apply (with automatic acknowledgement the server sends as fast as TCP takes it)", "none"
	if opt.manualAck {
		ack = fmt.Sprintf("manual, cumulative, one for %d messages", opt.ackEvery)
		prefetch = fmt.Sprintf("%d messages", opt.prefetch)
	}
	if opt.stream() {
		ack += " (of a stream it only lets the server send on)"
	}
	if a := opt.arguments(); a != nil {
		args = fmt.Sprint(map[string]any(a))
	}
	return []driver.Setting{
		{Row: "version", Value: fmt.Sprintf("RabbitMQ %s, Erlang %s", version, erlang)},
		{Row: "protocol and client", Value: "AMQP 0-9-1, github.com/streadway/amqp v1.1.0, one connection; heartbeat " + heartbeat.String()},
		{Row: "persistence", Value: opt.persistence()},
		{Row: "flush to disk", Value: opt.flushing()},
		{Row: "producer acknowledgement", Value: opt.acknowledgement()},
		{Row: "producer batching", Value: opt.batching()},
		{Row: "consumer acknowledgement", Value: ack},
		{Row: "consumer prefetch", Value: prefetch},
		{Row: "queue or log", Value: fmt.Sprintf("one queue, %s (arguments: %s), default exchange; a queue for each of several consumers, by a fanout exchange, but for a stream", opt.queue, args)},
		{Row: "memory", Value: fmt.Sprintf("memory watermark %d %% of the memory that the server may use; disk_free_limit 500 MB", opt.memory)},
		{Row: "deviations from the defaults", Value: fmt.Sprintf("queue %s for classic; vm_memory_high_watermark.relative %.2f for 0.40; disk_free_limit.absolute 500MB for 50MB; %sloopback_users none; no plugins; Erlang's schedulers do not wait busily, as shipped (+sbwt none); client heartbeat %v for 10s",
			opt.queue, float64(opt.memory)/100, opt.counting(), heartbeat)},
	}, nil
}

func (o options) persistence() string {
	switch {
	case o.stream():
		return "a stream: every message is written to its log"
	case o.transient:
		return "durable queue, TRANSIENT messages (delivery mode 1): they are gone when the server restarts"
	}
	return "durable queue, persistent messages (delivery mode 2)"
}

func (o options) acknowledgement() string {
	switch o.confirms {
	case "each":
		return "a publisher confirm awaited for every message; it means: " + o.promise()
	case "bulk":
		return fmt.Sprintf("publisher confirms, asynchronous, up to %d outstanding; one means: %s", o.window, o.promise())
	}
	return "none"
}

// promise is what the server has done when it confirms a message.
func (o options) promise() string {
	switch {
	case o.stream():
		return "written to the log of a quorum of replicas (here the only one), not flushed"
	case o.queue == "quorum":
		return "written and flushed by a quorum of replicas (here the only one)"
	case o.transient:
		return "in the queue, not on disk"
	}
	return "on disk"
}

func (o options) flushing() string {
	switch {
	case o.stream():
		return "left to the operating system (streams are never flushed)"
	case o.queue == "quorum":
		return "fsync of the write-ahead log for every batch of messages"
	case o.transient:
		return "does not apply (transient messages)"
	case o.confirms != "none":
		return "fsync before a confirm, for all messages that wait for one together"
	}
	return "no fsync for a message (no confirms); the queue's index is synced with each of its segments, 32,768 messages, and when the queue is idle"
}

// counting tells of the setting without which a stream's count is old.
func (o options) counting() string {
	if o.stream() {
		return fmt.Sprintf("stream_tick_interval %d ms for 5000 (how often what a stream holds is counted); ", countEvery.Milliseconds())
	}
	return ""
}

func (o options) batching() string {
	if o.coalesced {
		return "one message a publish; the client's socket writes what has gathered (bytes, up to 256 KiB, nothing waits)"
	}
	return "one message a publish; the library's plain socket (a system call per frame, three frames a message)"
}
