package broker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
)

// withLog has a broker log to w, from the level of information up.
func withLog(w io.Writer) kafkatest.Option {
	return func(c *broker.Config) { c.Logger = slog.New(slog.NewTextHandler(w, nil)) }
}

// TestContactIsTold: that ZooKeeper is away is logged, and that it is there again;
// and that the session has expired, and the broker has registered again.
func TestContactIsTold(t *testing.T) {
	t.Parallel()
	c := zktest.Start(t, zktest.Embedded)
	o := observe(t, c)
	line := c.NewLine()
	var log sharedBuffer
	kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(line.Connect()), withTimeout(6*time.Second), withLog(&log))
	_, session := o.broker(1)
	const away, back = `msg="no connection to ZooKeeper: the broker serves on`, `msg="connection to ZooKeeper is there again"`
	if text := log.String(); strings.Contains(text, away) || !strings.Contains(text, "waiting for ZooKeeper at "+line.Connect()+", up to ") {
		t.Errorf("at first: %s", text)
	}
	line.Cut()
	eventually(t, "a warning", func() bool { return strings.Contains(log.String(), away) })
	if strings.Contains(log.String(), back) {
		t.Errorf("it is not: %s", log.String())
	}
	line.Mend()
	eventually(t, "the all-clear", func() bool { return strings.Contains(log.String(), back) })
	if err := c.Expire(session); err != nil && !errors.Is(err, coord.ErrNoNode) {
		t.Fatal(err)
	}
	o.awaitOther(1, session)
	eventually(t, "the new registration", func() bool {
		_, after, ok := strings.Cut(log.String(), "session with ZooKeeper expired: the broker registers again")
		return ok && strings.Contains(after, "broker registered in ZooKeeper")
	})
}

// TestNobodyServedBeforeZooKeeper: a broker that waits for ZooKeeper takes nothing
// that it may not come to keep; that its address is taken it says before it waits.
func TestNobodyServedBeforeZooKeeper(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log sharedBuffer
	cfg := broker.DefaultConfig()
	cfg.Listen, cfg.LogDir = l.Addr().String(), t.TempDir()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.ZooKeeper.Servers, cfg.ZooKeeper.ConnectTimeout = "127.0.0.1:1", 1000*time.Second
	if _, err := broker.Start(t.Context(), cfg); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("address that is taken: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := broker.Start(ctx, cfg)
		ended <- err
	}()
	eventually(t, "that it waits", func() bool {
		return strings.Contains(log.String(), "waiting for ZooKeeper at 127.0.0.1:1, up to 16m40s")
	})
	if conn, err := net.Dial("tcp", cfg.Listen); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connected: %v, %v", conn, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
}
