package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"kafkalab/kafka/zkserver"
)

// zookeeperStopLimit is how long a server that was told to stop may take to send
// its last answers and close its log.
const zookeeperStopLimit = 10 * time.Second

func zookeeperCommand() command {
	return command{name: "zookeeper", summary: "run a single ZooKeeper node, for a first try", run: runZooKeeper}
}

// zookeeperFlags binds the flags of "kafka zookeeper" to a configuration. apply
// carries over the ones whose types differ, after parsing.
func zookeeperFlags(std stdio, cfg *zkserver.Config) (fs *flagSet, apply func()) {
	fs = newFlags(std, "kafka zookeeper --data-dir DIR [flags]",
		"Runs a single server of ZooKeeper's client protocol until it is told to stop by SIGINT or SIGTERM: enough to try brokers and\n"+
			"consumer groups without Java. Clusters belong on a real ensemble of ZooKeeper: while this one process is away, nobody can register,\n"+
			"claim a partition or commit an offset. Every client may change everything, so serve it to machines that you trust.\n"+
			"It answers the four-letter words ruok, stat, srvr and mntr.",
		"  kafka zookeeper --data-dir zookeeper\n"+
			"  kafka zookeeper --data-dir /var/lib/kafka-zookeeper --listen 0.0.0.0:2181 --tick-time 2s --max-session-timeout 1m\n"+
			"  echo ruok | nc 127.0.0.1 2181\n")
	fs.StringVar(&cfg.Listen, "listen", "127.0.0.1:2181", "address to serve clients on; port 0 takes a free one, which the log tells")
	fs.StringVar(&cfg.DataDir, "data-dir", "", "folder of the snapshots and the transaction log; made if missing")
	fs.DurationVar(&cfg.TickTime, "tick-time", zkserver.DefaultTickTime, "unit of session time-outs; sessions end up to a tick late")
	fs.DurationVar(&cfg.MinSessionTimeout, "min-session-timeout", 0, "least time-out that a session can have; 0, the default: 2 ticks")
	fs.DurationVar(&cfg.MaxSessionTimeout, "max-session-timeout", 0, "largest time-out that a session can have; 0, the default: 20 ticks")
	fs.IntVar(&cfg.MaxConnections, "max-connections", zkserver.DefaultMaxConnections, "connections open at once; 0: no limit")
	maxRequest := fs.sizeFlag("max-request-size", zkserver.DefaultMaxRequestBytes, "largest request, as ZooKeeper's jute.maxbuffer")
	return fs, func() {
		cfg.MaxRequestBytes = int(*maxRequest)
	}
}

func runZooKeeper(ctx context.Context, args []string, std stdio) error {
	cfg, err := zookeeperConfig(args, std)
	if err != nil {
		return err
	}
	s, err := zkserver.Start(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		return nil // told to stop before it was up
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		cfg.Logger.Info("ZooKeeper server stops")
	case <-s.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), zookeeperStopLimit)
	defer cancel()
	return errors.Join(s.Err(), s.Close(stop))
}

// zookeeperConfig turns the command line into the configuration of a server.
func zookeeperConfig(args []string, std stdio) (zkserver.Config, error) {
	var cfg zkserver.Config
	fs, apply := zookeeperFlags(std, &cfg)
	level := logLevel(slog.LevelInfo)
	fs.Var(&level, "log-level", "least level of what is logged")
	format := logFormat("text")
	fs.Var(&format, "log-format", "form of the log: a line of key=value for each entry, or a JSON object")
	if err := fs.parse(args, 0, 0); err != nil {
		return cfg, err
	}
	apply()
	cfg.Logger = format.logger(std.Err, slog.Level(level))
	switch {
	case strings.TrimSpace(cfg.DataDir) == "":
		return cfg, usagef("--data-dir is missing: name the folder that the nodes are to be kept in")
	case cfg.TickTime <= 0:
		return cfg, usagef("--tick-time %v: at least 1ms is wanted", cfg.TickTime)
	case cfg.MinSessionTimeout < 0:
		return cfg, usagef("--min-session-timeout %v: 0, which is 2 ticks, or more is wanted", cfg.MinSessionTimeout)
	case cfg.MaxSessionTimeout < 0:
		return cfg, usagef("--max-session-timeout %v: 0, which is 20 ticks, or more is wanted", cfg.MaxSessionTimeout)
	case cfg.MaxConnections < 0:
		return cfg, usagef("--max-connections %d: 0, which is no limit, or more is wanted", cfg.MaxConnections)
	case cfg.MaxConnections == 0:
		cfg.MaxConnections = -1
	}
	if err := checkListen("listen", cfg.Listen); err != nil {
		return cfg, err
	}
	if cfg.MaxRequestBytes == 0 {
		return cfg, usagef("--max-request-size 0: at least 1KiB is wanted")
	}
	if err := cfg.Check(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}
