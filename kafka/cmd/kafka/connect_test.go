package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
)

var errRefused = fmt.Errorf("connect to broker: %w", syscall.ECONNREFUSED)

// TestConnectAgain: only an address where nobody listens is tried again, up to
// the time that all brokers share, and the user is told when it takes long.
func TestConnectAgain(t *testing.T) {
	attempts := 0
	refusing := func(refusals int, then error) func() error {
		attempts = 0
		return func() error {
			if attempts++; attempts <= refusals {
				return errRefused
			}
			return then
		}
	}
	var notes strings.Builder
	c, err := newConnector(time.Hour, &notes)
	if err != nil {
		t.Fatal(err)
	}
	c.begin = c.begin.Add(time.Hour) // nothing takes long, however busy the machine is
	if err := c.try(t.Context(), refusing(1, nil)); err != nil || attempts != 2 || notes.Len() > 0 {
		t.Errorf("%d attempts: %v, %q", attempts, err, notes.String())
	}
	if err := c.try(t.Context(), refusing(0, io.EOF)); !errors.Is(err, io.EOF) || attempts != 1 {
		t.Errorf("another error: %d attempts: %v", attempts, err)
	}
	c.begin = c.begin.Add(-time.Hour - 2*connectNoteAfter)
	if err := c.try(t.Context(), refusing(3, nil)); err != nil || strings.Count(notes.String(), "connection refused; trying again for 1h0m2s in all\n") != 1 {
		t.Errorf("%d attempts: %v, %q", attempts, err, notes.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.try(ctx, func() error {
		cancel()
		return errRefused
	})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("interrupted: %v", err)
	}
	c.until = time.Now()
	if err := c.try(t.Context(), refusing(1, nil)); !errors.Is(err, syscall.ECONNREFUSED) || attempts != 1 {
		t.Errorf("after its time: %d attempts: %v", attempts, err)
	}
}

// TestConnectTimeout: nobody comes, and it ends with what has kept it.
func TestConnectTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"produce", "--topic", "t"}, {"consume", "--topic", "t"}, {"offsets", "--topic", "t"}, {"topics", "list"},
		{"perf", "consume", "--topic", "t"}, {"perf", "produce", "--topic", "t", "--messages", "1"},
	} {
		status, _, errs := runTool(t.Context(), append(args, "--broker-list", addr, "--connect-timeout", "150ms")...)
		if status != 1 || !strings.Contains(errs, addr) || !strings.Contains(errs, "connection refused") {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
}

// TestStreamNotes: the user hears of a loss and of its end once, however many
// streams and attempts there are, and of a connection that comes and goes not all
// the time.
func TestStreamNotes(t *testing.T) {
	var out strings.Builder
	n := &streamNotes{out: &out, broker: "host:1"}
	expect := func(want string) {
		t.Helper()
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
		out.Reset()
	}
	n.disconnected(fmt.Errorf("broker host:1: %w without an answer", client.ErrPeerClosed))
	n.disconnected(errRefused)
	expect("connection to host:1 lost (closed by the broker), trying again\n")
	n.connected()
	n.connected()
	expect("connected to host:1 again\n")
	n.disconnected(errRefused)
	n.connected()
	expect("")
	n.said = n.said.Add(-noteInterval)
	n.disconnected(errRefused)
	expect("connection to host:1 lost (connect to broker: connection refused), trying again\n")
}

// TestConsumeTellsOfItsBroker: a broker that goes away and comes back is a line
// each, and what comes then is printed.
func TestConsumeTellsOfItsBroker(t *testing.T) {
	for _, args := range [][]string{{"consume"}, {"perf", "consume", "--follow", "--idle-timeout", "0", "--report-interval", "1ms"}} {
		b := kafkatest.Start(t)
		produce := func() {
			t.Helper()
			in := stdio{In: strings.NewReader("line\n"), Out: io.Discard, Err: io.Discard}
			if status := realMain(t.Context(), []string{"produce", "--broker-list", b.HostPort(), "--topic", "t", "--acks", "flushed"}, in); status != 0 {
				t.Fatalf("produce: status %d", status)
			}
		}
		produce()
		ctx, cancel := context.WithCancel(t.Context())
		out := &lines{has: make(chan struct{}, 1)} // both: consume prints the messages, perf how many
		status := make(chan int, 1)
		go func() {
			status <- realMain(ctx, append(args, "--broker-list", b.HostPort(), "--topic", "t"), stdio{Out: out, Err: out})
		}()
		wait := func(texts ...string) {
			t.Helper()
			for {
				for _, text := range texts {
					if strings.Contains(out.String(), text) {
						return
					}
				}
				select {
				case <-out.has:
				case s := <-status:
					t.Fatalf("status %d: %s", s, out)
				}
			}
		}
		wait("line\n", "1 messages read")
		b.Stop()
		wait("connection to " + b.HostPort() + " lost (")
		b.Restart()
		wait("connected to " + b.HostPort() + " again\n")
		produce()
		wait("again\nline\n", "2 messages read")
		cancel()
		if s := <-status; s != 0 {
			t.Errorf("%v: status %d: %s", args, s, out)
		}
	}
}

// TestConsumeTellsOfZooKeeper: a member of a group says that ZooKeeper is away, and
// that it is back, and goes on.
func TestConsumeTellsOfZooKeeper(t *testing.T) {
	zk := startZooKeeper(t)
	b := kafkatest.Start(t, registered(zk.Addr, 0))
	produce := func() {
		t.Helper()
		in := stdio{In: strings.NewReader("line\n"), Out: io.Discard, Err: io.Discard}
		if status := realMain(t.Context(), []string{"produce", "--broker-list", b.HostPort(), "--topic", "t", "--acks", "flushed"}, in); status != 0 {
			t.Fatalf("produce: status %d", status)
		}
	}
	produce()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{has: make(chan struct{}, 1)}
	status := make(chan int, 1)
	go func() {
		status <- realMain(ctx, []string{"consume", "--zk-connect", zk.Addr, "--group", "g", "--topic", "t", "--zk-session-timeout", "2s"}, stdio{Out: out, Err: out})
	}()
	wait := func(text string, times int) {
		t.Helper()
		for strings.Count(out.String(), text) < times {
			select {
			case <-out.has:
			case s := <-status:
				t.Fatalf("status %d: %s", s, out)
			}
		}
	}
	wait("line\n", 1)
	zk.Stop()
	wait("ZooKeeper is out of reach: nothing is committed, and after 2s nothing read, until it is there again\n", 1)
	zk.Start()
	wait("ZooKeeper is there again\n", 1)
	produce()
	wait("line\n", 2)
	cancel()
	if s := <-status; s != 0 {
		t.Errorf("status %d: %s", s, out)
	}
}

// TestPerfInterrupted: an interrupt is told as such, with how far it was.
func TestPerfInterrupted(t *testing.T) {
	b := kafkatest.Start(t)
	for _, args := range [][]string{
		{"produce", "--messages", "100000000", "--rate", "1000", "--batch-size", "1"},
		{"produce", "--messages", "100000000", "--rate", "1000", "--batch-size", "1", "--acks", "received"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		errs := &lines{has: make(chan struct{}, 1)}
		status := make(chan int, 1)
		go func() {
			args := append([]string{"perf"}, args...)
			status <- realMain(ctx, append(args, "--broker-list", b.HostPort(), "--topic", "t", "--report-interval", "1ms"), stdio{Out: io.Discard, Err: errs})
		}()
		<-errs.has
		cancel()
		if s := <-status; s != 1 || !strings.Contains(errs.String(), "kafka perf: interrupted after ") || !strings.Contains(errs.String(), " of 100000000 messages were handed over\n") ||
			strings.Contains(errs.String(), "canceled") {
			t.Errorf("%v: status %d: %s", args, s, errs)
		}
	}
}
