package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
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

// logFormat is the flag for the form of the log.
type logFormat string

func (f *logFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("%q is neither text nor json", s)
	}
	*f = logFormat(s)
	return nil
}

func (f *logFormat) String() string { return string(*f) }
func (f *logFormat) Type() string   { return "text|json" }

// logger returns a logger of the format to w.
func (f logFormat) logger(w io.Writer, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if f == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// brokerFlags binds the flags of "kafka broker" to a configuration. apply
// carries over the ones whose types differ, after parsing.
func brokerFlags(std stdio, cfg *broker.Config) (fs *flagSet, apply func()) {
	fs = newFlags(std, "kafka broker --log-dir DIR [flags]",
		"Runs a broker until it is told to stop by SIGINT or SIGTERM. Sizes have units (64KiB, 1GiB), times too (1s, 100ms, 168h).",
		"  kafka broker --log-dir data\n"+
			"  kafka broker --log-dir data --listen 0.0.0.0:9092 --num-partitions 4 --flush-messages 0 --flush-interval 1s --metrics-listen 127.0.0.1:9100\n"+
			"  kafka broker --log-dir data --retention 48h --retention-size 100GiB --topic-retention audit:0,clicks:24h\n"+
			"  kafka broker --config server.properties --log-dir /mnt/raid/kafka\n"+
			"  kafka broker --log-dir data --broker-id 1 --listen 0.0.0.0:9092 --zk-connect zk1:2181,zk2:2181,zk3:2181/kafka\n\n"+
			"Keys of --config, those of Kafka 0.7, in the form of Java's properties files. A flag on the command line wins over its key;\n"+
			"without either its default holds.\n"+keyHelp(serverProperties))
	fs.StringVar(&cfg.LogDir, "log-dir", cfg.LogDir, "folder of the partitions; made if missing")
	fs.Int32Var(&cfg.ID, "broker-id", cfg.ID, "number of this broker in the cluster; 0 by default")
	fs.StringVar(&cfg.Listen, "listen", cfg.Listen, "address to serve clients on; port 0 takes a free one, which the log tells")
	fs.Int32Var(&cfg.Storage.DefaultPartitions, "num-partitions", cfg.Storage.DefaultPartitions, "partitions of a topic that was not created with a number of its own")
	storageSizes := storageFlags(fs, cfg)
	limitSizes := limitFlags(fs, cfg)
	fs.BoolVar(&cfg.Sendfile, "sendfile", cfg.Sendfile, "send fetched bytes from file to socket inside the kernel; false copies them through the process")
	fs.StringVar(&cfg.MetricsListen, "metrics-listen", cfg.MetricsListen, "address of an HTTP server for /metrics (Prometheus), /healthz, /config, which shows the settings in force as JSON, and, to programs on this machine alone, /debug/pprof/ (profiles of Go); none by default")
	zooKeeperFlags(fs, cfg)
	var topics topicFlags
	topics.add(fs)
	return fs, func() {
		storageSizes()
		limitSizes()
		topics.apply(cfg)
	}
}

// storageFlags adds the flags for how logs are kept.
func storageFlags(fs *flagSet, cfg *broker.Config) (apply func()) {
	s := &cfg.Storage
	fs.IntVar(&s.FlushMessages, "flush-messages", s.FlushMessages, "flush a partition after so many messages; 0: not by count")
	fs.DurationVar(&s.FlushInterval, "flush-interval", s.FlushInterval, "flush what is unflushed so often; 0: not by time")
	visible := visibility(s.Visible)
	fs.Var(&visible, "visible", "when consumers see a message: once it is flushed (the paper's rule), or as soon as it is appended; then a crash of the machine can take back, and offsets give anew, what was already consumed")
	segment := fs.sizeFlag("segment-size", s.SegmentBytes, "start a new segment file when the last one is larger")
	fs.DurationVar(&s.RollInterval, "roll-interval", s.RollInterval, "start a new segment file when the first message of the last one is older; 0: not by age")
	fs.DurationVar(&s.RetentionAge, "retention", s.RetentionAge, "delete a segment file when its last message is older; 0: not by age")
	retention := fs.sizeFlag("retention-size", s.RetentionBytes, "delete the oldest segment files of a partition as long as the others hold so much; 0, the default: not by size")
	fs.DurationVar(&s.CleanupInterval, "cleanup-interval", s.CleanupInterval, "look so often for segment files to delete")
	return func() {
		s.Visible = storage.Visibility(visible)
		s.SegmentBytes = int64(*segment)
		s.RetentionBytes = int64(*retention)
	}
}

// Flags for the registration in ZooKeeper, beside zkFlag.
const (
	zkSessionFlag = "zk-session-timeout"
	zkTimeoutFlag = "zk-connect-timeout"
	hostnameFlag  = "hostname"
)

// zooKeeperFlags adds the flags for the registration in ZooKeeper.
func zooKeeperFlags(fs *flagSet, cfg *broker.Config) {
	zk := &cfg.ZooKeeper
	fs.StringVar(&zk.Servers, zkFlag, zk.Servers, "ZooKeeper to register the broker and its topics in, HOST:PORT, several divided by commas, with /PATH at the end if the cluster has its nodes below one; none by default: then clients must name the broker with --broker-list")
	fs.DurationVar(&zk.SessionTimeout, zkSessionFlag, coord.DefaultSessionTimeout, "with --zk-connect: how long the broker may be out of touch with ZooKeeper before it counts as gone; ZooKeeper has the last word")
	fs.DurationVar(&zk.ConnectTimeout, zkTimeoutFlag, zk.ConnectTimeout, "with --zk-connect: how long the start waits for ZooKeeper; 0, the default: as long as the session's time-out")
	fs.StringVar(&cfg.AdvertisedHost, hostnameFlag, cfg.AdvertisedHost, "with --zk-connect: name or IPv4 address to register, by which clients reach this broker; by default the address of --listen or, if that is all interfaces, the one from which ZooKeeper is reached")
}

// checkZooKeeperFlags checks the flags for the registration in ZooKeeper.
func checkZooKeeperFlags(fs *flagSet, cfg *broker.Config) error {
	zk := &cfg.ZooKeeper
	if zk.Servers == "" {
		return fs.refuse("it is for the registration in ZooKeeper: give --zk-connect too", zkSessionFlag, zkTimeoutFlag, hostnameFlag)
	}
	switch {
	case zk.SessionTimeout < coord.MinSessionTimeout || zk.SessionTimeout > coord.MaxSessionTimeout:
		return usagef("--%s %v: %v up to %v is wanted", zkSessionFlag, zk.SessionTimeout, coord.MinSessionTimeout, coord.MaxSessionTimeout)
	case zk.ConnectTimeout < 0:
		return usagef("--%s %v: 0 or more is wanted", zkTimeoutFlag, zk.ConnectTimeout)
	}
	if err := zk.Check(); err != nil {
		return usagef("--%s: %w", zkFlag, err)
	}
	if cfg.AdvertisedHost != "" {
		if err := registry.CheckHost(cfg.AdvertisedHost); err != nil {
			return usagef("--%s: %v", hostnameFlag, err)
		}
	}
	return nil
}

// limitFlags adds the flags for what clients may ask of the broker.
func limitFlags(fs *flagSet, cfg *broker.Config) (apply func()) {
	maxMessage := fs.sizeFlag("max-message-size", int64(cfg.MaxMessageBytes), "largest payload of a message; a set with a larger one is dropped")
	maxDecompressed := fs.sizeFlag("max-decompressed-size", int64(cfg.MaxDecompressedBytes), "most that a compressed message may hold decompressed; a set with a larger one is dropped")
	maxRequest := fs.sizeFlag("max-request-size", int64(cfg.MaxRequestBytes), "largest request")
	maxMemory := fs.sizeFlag("max-request-memory", cfg.MaxRequestMemoryBytes, "memory for the requests of all connections that are being read; 0: no limit")
	fs.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections, "connections open at once; 0: no limit")
	fs.IntVar(&cfg.MaxConnectionsPerAddress, "max-connections-per-address", cfg.MaxConnectionsPerAddress, "connections open at once from one IP address; 0, the default: no limit")
	fs.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "close a connection that asks for nothing for so long; 0, the default: never")
	fs.DurationVar(&cfg.ReadTimeout, "read-timeout", cfg.ReadTimeout, "close a connection that stands still in the middle of a request for so long; 0: never")
	fs.DurationVar(&cfg.WriteTimeout, "write-timeout", cfg.WriteTimeout, "close a connection that takes nothing of an answer for so long; 0: never")
	sendBuffer := fs.sizeFlag("socket-send-buffer", int64(cfg.SendBufferBytes), "send buffer of a connection; 0, the default: the kernel adjusts it")
	receiveBuffer := fs.sizeFlag("socket-receive-buffer", int64(cfg.ReceiveBufferBytes), "receive buffer of a connection; 0, the default: the kernel adjusts it")
	return func() {
		cfg.MaxMessageBytes, cfg.MaxDecompressedBytes = int(*maxMessage), int(*maxDecompressed)
		cfg.MaxRequestBytes, cfg.MaxRequestMemoryBytes = int(*maxRequest), int64(*maxMemory)
		cfg.SendBufferBytes, cfg.ReceiveBufferBytes = int(*sendBuffer), int(*receiveBuffer)
	}
}

func runBroker(ctx context.Context, args []string, std stdio) error {
	cfg, e, err := brokerSettings(args, std)
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
	stopMirror := e.start(ctx, s, cfg.Logger)
	select {
	case <-ctx.Done():
		cfg.Logger.Info("broker stops")
	case <-s.Done():
	}
	err = stopMirror()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokerStopLimit)
	defer cancel()
	return errors.Join(err, s.Err(), s.Close(stop))
}

// brokerSettings turns the command line, and the files that it may name, into the
// configuration of a broker, and of the mirror in its process.
func brokerSettings(args []string, std stdio) (broker.Config, *embedded, error) {
	cfg := broker.DefaultConfig()
	cfg.Version = versionText()
	fs, apply := brokerFlags(std, &cfg)
	e := embeddedFlags(fs)
	file := fs.String("config", "", "file with the keys of Kafka 0.7, see below; none by default")
	level := logLevel(slog.LevelInfo)
	fs.Var(&level, "log-level", "least level of what is logged")
	format := logFormat("text")
	fs.Var(&format, "log-format", "form of the log: a line of key=value for each entry, or a JSON object")
	if err := fs.parse(args, 0, 0); err != nil {
		return cfg, e, err
	}
	cfg.Logger = format.logger(std.Err, slog.Level(level))
	if *file != "" {
		notes, err := applyProperties(fs, *file)
		if err != nil {
			return cfg, e, err
		}
		for _, n := range notes {
			cfg.Logger.Warn("key without effect", "file", *file, "key", n.key, "why", n.why)
		}
	}
	apply()
	if err := checkBrokerFlags(&cfg); err != nil {
		return cfg, e, fs.nameKey(err)
	}
	if err := checkZooKeeperFlags(fs, &cfg); err != nil {
		return cfg, e, fs.nameKey(err)
	}
	if err := cfg.Check(); err != nil {
		return cfg, e, usageError{err}
	}
	if err := e.check(fs, &cfg); err != nil {
		return cfg, e, err
	}
	if topics := neverFlushed(&cfg.Storage); len(topics) > 0 {
		cfg.Logger.Warn("both flush rules are off: messages become visible only when a producer asks for a flush, a segment is full, or the broker stops; give --flush-messages, --flush-interval or --visible appended",
			"topics", strings.Join(topics, ", "))
	}
	return cfg, e, nil
}

// checkBrokerFlags checks what the flags' own types do not, so that the error
// names the flag. The rest is checked by broker.Config.
func checkBrokerFlags(cfg *broker.Config) error {
	s := &cfg.Storage
	if strings.TrimSpace(cfg.LogDir) == "" {
		return usagef("--log-dir is missing: name the folder that the messages are to be kept in")
	}
	if err := checkListen("listen", cfg.Listen); err != nil {
		return err
	}
	if cfg.MetricsListen != "" {
		if err := checkListen("metrics-listen", cfg.MetricsListen); err != nil {
			return err
		}
	}
	switch {
	case s.SegmentBytes < 1:
		return usagef("--segment-size %d: at least 1 byte is wanted", s.SegmentBytes)
	case cfg.MaxMessageBytes < 1 || cfg.MaxMessageBytes > cfg.MaxRequestBytes:
		return usagef("--max-message-size %d: 1 byte up to what --max-request-size allows, %d, is wanted", cfg.MaxMessageBytes, cfg.MaxRequestBytes)
	case cfg.MaxDecompressedBytes < 1:
		return usagef("--max-decompressed-size %d: at least 1 byte is wanted", cfg.MaxDecompressedBytes)
	case s.DefaultPartitions < 1:
		return usagef("--num-partitions %d: at least 1 is wanted", s.DefaultPartitions)
	case s.CleanupInterval < storage.LeastInterval:
		return usagef("--cleanup-interval %v: at least %v is wanted; to delete nothing give --retention 0 and no --retention-size", s.CleanupInterval, storage.LeastInterval)
	case s.FlushInterval > 0 && s.FlushInterval < storage.LeastInterval:
		return usagef("--flush-interval %v: 0, which is off, or at least %v is wanted", s.FlushInterval, storage.LeastInterval)
	}
	for _, t := range []struct {
		flag  string
		value time.Duration
	}{
		{"flush-interval", s.FlushInterval}, {"roll-interval", s.RollInterval}, {"retention", s.RetentionAge},
		{"idle-timeout", cfg.IdleTimeout}, {"read-timeout", cfg.ReadTimeout}, {"write-timeout", cfg.WriteTimeout},
	} {
		if t.value < 0 {
			return usagef("--%s %v: 0, which is off, or more is wanted", t.flag, t.value)
		}
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"flush-messages", s.FlushMessages}, {"max-connections", cfg.MaxConnections}, {"max-connections-per-address", cfg.MaxConnectionsPerAddress},
	} {
		if n.value < 0 {
			return usagef("--%s %d: 0, which is off, or more is wanted", n.flag, n.value)
		}
	}
	return nil
}

// neverFlushed returns the topics that nothing flushes by itself although their
// messages are visible only then; "all" stands for those without settings of
// their own.
func neverFlushed(s *storage.Config) []string {
	if s.Visible != storage.VisibleFlushed {
		return nil
	}
	var topics []string
	if s.FlushMessages == 0 && s.FlushInterval == 0 {
		topics = append(topics, "all")
	}
	for _, topic := range slices.Sorted(maps.Keys(s.Topics)) {
		t := s.Topics[topic]
		if t.FlushMessages == nil && t.FlushInterval == nil {
			continue
		}
		n, d := s.FlushMessages, s.FlushInterval
		if t.FlushMessages != nil {
			n = *t.FlushMessages
		}
		if t.FlushInterval != nil {
			d = *t.FlushInterval
		}
		if n == 0 && d == 0 {
			topics = append(topics, topic)
		}
	}
	return topics
}
