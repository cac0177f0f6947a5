// Package drivertest is the contract that every driver must keep, as a test
// against its real server on this machine.
package drivertest

import (
	"context"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Config says what is tested.
type Config struct {
	Driver driver.Driver
	// Options are those with which the servers are started and used.
	Options driver.Options
	// ClientOptions are further ones for the client half, each tried against
	// the same server.
	ClientOptions []driver.Options
	// LargeOptions are those of a client for payloads of 1 MiB; nil: Options.
	LargeOptions driver.Options
	// NoTail says that a consumer cannot wait at an empty queue: the driver is
	// for backlogs only.
	NoTail bool
	// Messages is how many are sent and received with each; 0 means 5,000.
	Messages int
	// PayloadBytes is the size of each, at least 8; 0 means 200, as in the
	// paper.
	PayloadBytes int
	// BinDir is the folder with the project's programs, for drivers that start
	// one of them.
	BinDir string
	// AtOnce runs the parts of the suite, each with servers of its own, at once:
	// for servers that are slow to start.
	AtOnce bool
	// StartTimeout bounds a server's start; 0 means a minute.
	StartTimeout time.Duration
}

const (
	// callTimeout bounds calls that should not take long on a busy machine.
	callTimeout = 60 * time.Second
	// closeTimeout is within what a client must close, whatever the server
	// does (5 seconds, and something for a busy machine).
	closeTimeout = 8 * time.Second
)

// Run runs the suite.
func Run(t *testing.T, c Config) {
	if c.Messages == 0 {
		c.Messages = 5000
	}
	if c.PayloadBytes == 0 {
		c.PayloadBytes = 200
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	run := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			if c.AtOnce {
				t.Parallel()
			}
			test(t)
		})
	}
	run("Check", c.check)
	run("UnknownOption", c.unknownOption)
	run("Settings", c.settings)
	run("Work", c.work)
	run("PortInUse", c.portInUse)
	run("StartDeadline", c.startDeadline)
	run("BrokerFails", c.brokerFails)
}

// open opens a local host and closes it with the test, which fails if anything
// is left running that was started in its folder.
func (c Config) open(t *testing.T) *spy {
	t.Helper()
	h, err := host.Open(t.Context(), host.Config{Name: "local", Kind: host.Local, Dir: t.TempDir(), BinDir: c.BinDir})
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{Host: h}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		s.expectNothingRunning(t)
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start starts a server and stops it with the test.
func (c Config) start(t *testing.T, h *spy) driver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.StartTimeout)
	defer cancel()
	s, err := c.Driver.Start(ctx, h, h.Dir()+"/server", c.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s driver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// connect opens a client and closes it with the test.
func (c Config) connect(t *testing.T, s driver.Server, o driver.Options) driver.Client {
	t.Helper()
	cl, err := c.Driver.Connect(timeout(t), s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeClient(t, cl) })
	return cl
}

// closeClient closes a client and fails if that takes too long or hides what
// a second call would say.
func closeClient(t *testing.T, cl driver.Client) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	within(t, closeTimeout, "Close", func() { err = cl.Close(ctx) })
	return err
}

// within runs f and fails the test at once if it does not return in time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s has not returned within %v", what, d)
	}
}

// timeout returns a context for a call that should not take long.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}
