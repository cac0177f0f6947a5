package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/mirror"
)

// embedded is the mirror in the process of a broker (Kafka 0.7's embedded consumer).
type embedded struct {
	consumerFiles []string
	producerFile  string
	options       mirrorOptions
	cfg           mirror.Config
}

// Flags of the broker for the mirror in its process.
const (
	embeddedConsumerFlag = "embedded-consumer"
	embeddedProducerFlag = "embedded-producer"
)

// embeddedFlags adds the flags for a mirror in the broker's process.
func embeddedFlags(fs *flagSet) *embedded {
	e := &embedded{}
	fs.StringArrayVar(&e.consumerFiles, embeddedConsumerFlag, nil, "file with the keys of a Kafka 0.7 consumer (\"kafka mirror --help\" has them): topics of its cluster are copied into this broker's, in this process; several times for several clusters, none by default")
	fs.StringVar(&e.producerFile, embeddedProducerFlag, "", "with --embedded-consumer: file with the keys of a Kafka 0.7 producer, which names the cluster to copy into; by default that of --zk-connect")
	return e
}

// wanted reports whether there is to be a mirror.
func (e *embedded) wanted() bool { return len(e.consumerFiles) > 0 }

// check reads the files.
func (e *embedded) check(fs *flagSet, cfg *broker.Config) error {
	if !e.wanted() {
		return fs.refuse("it says where an embedded consumer copies to: give --"+embeddedConsumerFlag+" too", embeddedProducerFlag)
	}
	if e.producerFile == "" && cfg.ZooKeeper.Servers == "" {
		return usagef("--%s: it copies into the cluster of --%s, which is missing; or name another one by --%s", embeddedConsumerFlag, zkFlag, embeddedProducerFlag)
	}
	o := &e.options
	flags := mirrorFlags(stdio{}, o)
	o.consumerFiles, o.producerFile = e.consumerFiles, e.producerFile
	if err := o.applyFiles(flags); err != nil {
		return fmt.Errorf("embedded consumer: %w", err)
	}
	if o.target == "" {
		o.target = cfg.ZooKeeper.Servers
	}
	var err error
	if e.cfg, err = o.config(cfg.Logger.With("part", "mirror")); err != nil {
		return usagef("embedded consumer: %w", err)
	}
	return nil
}

// embeddedRetry is the pause until a mirror that could not start is started again.
const embeddedRetry = 5 * time.Second

// start starts the mirror, if there is to be one, whose metrics are shown with the
// broker's. The broker does not wait for it: a source whose ZooKeeper is away is no
// reason not to serve. stop ends it, and is to be called before the broker is stopped,
// which it may copy into.
func (e *embedded) start(ctx context.Context, s *broker.Server, log *slog.Logger) (stop func() error) {
	if !e.wanted() {
		return func() error { return nil }
	}
	e.options.tellNotes(log)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := e.run(ctx, s.Metrics())
		if err != nil {
			err = fmt.Errorf("embedded consumer: %w", err)
		}
		ended <- err
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// run mirrors until ctx ends.
func (e *embedded) run(ctx context.Context, metrics prometheus.Registerer) error {
	log := e.cfg.Logger
	m, err := mirror.Open(ctx, e.cfg)
	for err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it was up
		}
		log.Error("embedded consumer has not started, it is tried again", "error", err, "retry_in", embeddedRetry)
		select {
		case <-time.After(embeddedRetry):
		case <-ctx.Done():
			return nil
		}
		m, err = mirror.Open(ctx, e.cfg)
	}
	err = registerMirror(m, metrics)
	if err == nil {
		log.Info("mirror started", "group", e.cfg.Group, "sources", e.options.sources, "target", e.options.target)
		<-ctx.Done()
	}
	return errors.Join(err, closeMirror(ctx, m, e.cfg, log))
}
