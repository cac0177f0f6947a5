// Package kafkatest runs brokers in the process of a test, and a test's program once more
// in a process of its own. Only tests import it.
package kafkatest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"kafkalab/kafka/broker"
)

// stopLimit is how long a broker may take to stop.
const stopLimit = 20 * time.Second

// Option changes the settings of a broker before it starts.
type Option func(*broker.Config)

// WithID gives the broker a number; without it, it is 0.
func WithID(id int32) Option { return func(c *broker.Config) { c.ID = id } }

// WithZooKeeper registers the broker in ZooKeeper, at a connection string such as
// those of zktest, with a session time-out of five seconds.
func WithZooKeeper(connect string) Option {
	return func(c *broker.Config) {
		c.ZooKeeper.Servers = connect
		c.ZooKeeper.SessionTimeout = 5 * time.Second
		c.ZooKeeper.ConnectTimeout = 10 * time.Second
		c.ZooKeeper.RequestTimeout = 5 * time.Second
	}
}

// Broker is a broker of a test. It is stopped at the end of the test, and the
// test fails if that does not go cleanly.
type Broker struct {
	*broker.Server
	// Config is what it was started with; Listen is the address it got.
	Config broker.Config
	// MayStopBadly is set by a test that breaks its broker, so that Stop does
	// not make it fail.
	MayStopBadly bool

	t testing.TB
}

// Start starts a broker on a free port of the loopback, with a log folder
// that is removed after the test. Unless an option says otherwise it flushes
// every message, so that a message is visible as soon as a later request on the
// same connection is answered. What it logs from the level of warnings up is in
// the output of the test.
func Start(t testing.TB, options ...Option) *Broker {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.LogDir = t.TempDir()
	cfg.Storage.FlushMessages = 1
	cfg.Storage.FlushInterval = 0
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	for _, o := range options {
		o(&cfg)
	}
	b := &Broker{Config: cfg, t: t}
	b.start()
	t.Cleanup(b.Stop)
	return b
}

func (b *Broker) start() {
	b.t.Helper()
	s, err := broker.Start(b.t.Context(), b.Config)
	if err != nil {
		b.t.Fatalf("start broker: %v", err)
	}
	b.Server = s
	b.Config.Listen = s.Addr().String()
}

// HostPort returns the address for clients, as --broker-list takes it.
func (b *Broker) HostPort() string { return b.Config.Listen }

// Stop stops the broker as its user would. It may be called more than once.
func (b *Broker) Stop() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := b.Close(ctx); err != nil && !b.MayStopBadly {
		b.t.Errorf("stop broker: %v", err)
	}
}

// Restart stops the broker and starts it again with the same log folder and
// address.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.start()
}
