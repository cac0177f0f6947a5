// Package rabbitmq is RabbitMQ as a system under test, driven over AMQP 0-9-1
// with streadway/amqp.
//
// By default it promises what the paper asked of it: persistent messages in a
// durable queue, no publisher confirms, automatic acknowledgement (NetDB'11
// §5). The queue is lazy, which was measured to be the fastest kind and keeps
// a steady size in memory at ten million messages.
//
// Options: queue (lazy, classic, classic-v2, quorum), acks (none, confirms)
// with window, socket (coalesced, plain), ack (auto, manual) with prefetch and
// ack-every, memory-percent.
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
	acks, ack, prefetch, args := "none", "automatic (the server takes a message as consumed when it has sent it)", "does not apply (with automatic acknowledgement the server sends as fast as TCP takes it)", "none"
	if opt.confirms {
		acks = fmt.Sprintf("publisher confirms, up to %d outstanding", opt.window)
	}
	if opt.manualAck {
		ack = fmt.Sprintf("manual, cumulative, one for %d messages", opt.ackEvery)
		prefetch = fmt.Sprintf("%d messages", opt.prefetch)
	}
	if a := opt.arguments(); a != nil {
		args = fmt.Sprint(map[string]any(a))
	}
	return []driver.Setting{
		{Row: "version", Value: fmt.Sprintf("RabbitMQ %s, Erlang %s", version, erlang)},
		{Row: "protocol and client", Value: "AMQP 0-9-1, github.com/streadway/amqp v1.1.0, one connection; heartbeat " + heartbeat.String()},
		{Row: "persistence", Value: "durable queue, persistent messages (delivery mode 2)"},
		{Row: "flush to disk", Value: opt.flushing()},
		{Row: "producer acknowledgement", Value: acks},
		{Row: "producer batching", Value: opt.batching()},
		{Row: "consumer acknowledgement", Value: ack},
		{Row: "consumer prefetch", Value: prefetch},
		{Row: "queue or log", Value: fmt.Sprintf("one queue, %s (arguments: %s), default exchange", opt.queue, args)},
		{Row: "memory", Value: fmt.Sprintf("memory watermark %d %% of the host's memory; disk_free_limit 500 MB", opt.memory)},
		{Row: "deviations from the defaults", Value: fmt.Sprintf("queue %s for classic; vm_memory_high_watermark.relative %.2f for 0.40; disk_free_limit.absolute 500MB for 50MB; loopback_users none; no plugins; client heartbeat %v for 10s",
			opt.queue, float64(opt.memory)/100, heartbeat)},
	}, nil
}

func (o options) flushing() string {
	switch {
	case o.queue == "quorum":
		return "fsync of the write-ahead log for every batch of messages"
	case o.confirms:
		return "fsync before a confirm, for all messages that wait for one together"
	}
	return "left to the operating system (no fsync without confirms)"
}

func (o options) batching() string {
	if o.coalesced {
		return "one message a publish; the client's socket writes what has gathered (bytes, up to 256 KiB, nothing waits)"
	}
	return "one message a publish; the library's plain socket (a system call per frame, three frames a message)"
}
