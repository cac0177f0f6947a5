package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/storage"
)

// brokerStopLimit is how long a broker that was told to stop may take to
// finish its requests and flush its logs.
const brokerStopLimit = 30 * time.Second

func brokerCommand() command {
	return command{name: "broker", summary: "run a broker", run: runBroker}
}

// visibility is the flag for [storage.Visibility].
type visibility storage.Visibility

func (v *visibility) Set(s string) error {
	switch s {
	case "flushed":
		*v = visibility(storage.VisibleFlushed)
	case "appended":
		*v = visibility(storage.VisibleAppended)
	default:
		return fmt.Errorf("%q is neither flushed nor appended", s)
	}
	return nil
}

func (v *visibility) String() string { return storage.Visibility(*v).String() }
func (v *visibility) Type() string   { return "flushed|appended" }

// logLevel is the flag for [slog.Level].
type logLevel slog.Level

func (l *logLevel) Set(s string) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return fmt.Errorf("%q is not one of debug, info, warn, error", s)
	}
	*l = logLevel(level)
	return nil
}

func (l *logLevel) String() string { return strings.ToLower(slog.Level(*l).String()) }
func (l *logLevel) Type() string   { return "debug|info|warn|error" }

// brokerFlags binds the flags of "kafka broker" to a configuration. apply
// carries over the ones whose types differ, after parsing.
func brokerFlags(std stdio, cfg *broker.Config) (fs *flagSet, apply func()) {
	fs = newFlags(std, "kafka broker --log-dir DIR [flags]",
		"Runs a broker until it is told to stop by SIGINT or SIGTERM. Sizes have units (64KiB, 1GiB), times too (1s, 100ms).",
		"  kafka broker --log-dir data\n"+
			"  kafka broker --log-dir data --listen 0.0.0.0:9092 --num-partitions 4 --flush-messages 0 --flush-interval 1s --metrics-listen 127.0.0.1:9100\n"+
			"  kafka broker --config server.properties --log-dir /mnt/raid/kafka\n\n"+
			"Keys of --config (those of Kafka 0.7; flags given on the command line win):\n"+propertyHelp())
	fs.Int32Var(&cfg.ID, "broker-id", cfg.ID, "number of this broker in the cluster")
	fs.StringVar(&cfg.Listen, "listen", cfg.Listen, "address to serve clients on; port 0 takes a free one, which the log tells")
	fs.StringVar(&cfg.LogDir, "log-dir", cfg.LogDir, "folder of the partitions; made if missing")
	fs.Int32Var(&cfg.Storage.DefaultPartitions, "num-partitions", cfg.Storage.DefaultPartitions, "partitions of a topic that was not created with a number of its own")
	fs.IntVar(&cfg.Storage.FlushMessages, "flush-messages", cfg.Storage.FlushMessages, "flush a partition after so many messages; 0: not by count")
	fs.DurationVar(&cfg.Storage.FlushInterval, "flush-interval", cfg.Storage.FlushInterval, "flush what is unflushed so often; 0: not by time")
	visible := visibility(cfg.Storage.Visible)
	fs.Var(&visible, "visible", "when consumers see a message: once it is flushed (the paper's rule), or as soon as it is appended; then a crash of the machine can take back, and offsets give anew, what was already consumed")
	segment := fs.sizeFlag("segment-size", cfg.Storage.SegmentBytes, "start a new segment file when the last one is larger")
	maxMessage := fs.sizeFlag("max-message-size", int64(cfg.MaxMessageBytes), "largest payload of a message; a set with a larger one is dropped")
	maxRequest := fs.sizeFlag("max-request-size", int64(cfg.MaxRequestBytes), "largest request")
	fs.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections, "connections open at once; 0: no limit")
	fs.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "close a connection that asks for nothing for so long; 0: never")
	fs.DurationVar(&cfg.ReadTimeout, "read-timeout", cfg.ReadTimeout, "close a connection that stands still in the middle of a request for so long; 0: never")
	fs.DurationVar(&cfg.WriteTimeout, "write-timeout", cfg.WriteTimeout, "close a connection that takes nothing of an answer for so long; 0: never")
	sendBuffer := fs.sizeFlag("socket-send-buffer", 0, "send buffer of a connection; 0: the kernel adjusts it")
	receiveBuffer := fs.sizeFlag("socket-receive-buffer", 0, "receive buffer of a connection; 0: the kernel adjusts it")
	fs.BoolVar(&cfg.Sendfile, "sendfile", cfg.Sendfile, "send fetched bytes from file to socket inside the kernel; false copies them through the process")
	fs.StringVar(&cfg.MetricsListen, "metrics-listen", cfg.MetricsListen, "address of an HTTP server for /metrics (Prometheus) and /healthz; empty: none")
	return fs, func() {
		cfg.Storage.Visible = storage.Visibility(visible)
		cfg.Storage.SegmentBytes = int64(*segment)
		cfg.MaxMessageBytes = int(*maxMessage)
		cfg.MaxRequestBytes = int(*maxRequest)
		cfg.SendBufferBytes, cfg.ReceiveBufferBytes = int(*sendBuffer), int(*receiveBuffer)
	}
}

func runBroker(ctx context.Context, args []string, std stdio) error {
	cfg, err := brokerConfig(args, std)
	if err != nil {
		return err
	}
	s, err := broker.Start(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		return nil // told to stop before it was up
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		cfg.Logger.Info("broker stops")
	case <-s.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerStopLimit)
	defer cancel()
	return errors.Join(s.Err(), s.Close(stop))
}

// brokerConfig turns the command line, and the file that it may name, into the
// configuration of a broker.
func brokerConfig(args []string, std stdio) (broker.Config, error) {
	cfg := broker.DefaultConfig()
	fs, apply := brokerFlags(std, &cfg)
	file := fs.String("config", "", "file with the keys of Kafka 0.7, see below")
	level := logLevel(slog.LevelInfo)
	fs.Var(&level, "log-level", "least level of what is logged")
	if err := fs.parse(args, 0, 0); err != nil {
		return cfg, err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: slog.Level(level)}))
	if *file != "" {
		notes, err := applyProperties(fs, *file)
		if err != nil {
			return cfg, err
		}
		for _, n := range notes {
			cfg.Logger.Warn("key without effect", "file", *file, "key", n.key, "why", n.why)
		}
	}
	apply()
	if strings.TrimSpace(cfg.LogDir) == "" {
		return cfg, usagef("--log-dir is missing: name the folder that the messages are to be kept in")
	}
	switch {
	case cfg.Storage.SegmentBytes < 1:
		return cfg, usagef("--segment-size %d: at least 1 byte is wanted", cfg.Storage.SegmentBytes)
	case cfg.MaxMessageBytes < 1 || cfg.MaxMessageBytes > cfg.MaxRequestBytes:
		return cfg, usagef("--max-message-size %d: 1 byte up to what --max-request-size allows, %d, is wanted", cfg.MaxMessageBytes, cfg.MaxRequestBytes)
	case cfg.Storage.DefaultPartitions < 1:
		return cfg, usagef("--num-partitions %d: at least 1 is wanted", cfg.Storage.DefaultPartitions)
	}
	if err := cfg.Check(); err != nil {
		return cfg, usageError{err}
	}
	if cfg.Storage.FlushMessages == 0 && cfg.Storage.FlushInterval == 0 && cfg.Storage.Visible == storage.VisibleFlushed {
		cfg.Logger.Warn("both flush rules are off: messages become visible only when a producer asks for a flush, a segment is full, or the broker stops; give --flush-messages, --flush-interval or --visible appended")
	}
	return cfg, nil
}
