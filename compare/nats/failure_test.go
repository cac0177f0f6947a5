package nats_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kafkalab/compare/nats"
	"kafkalab/harness/driver"
	"kafkalab/harness/host/hosttest"
)

// start starts a server.
func start(t *testing.T) driver.Server {
	t.Helper()
	h := hosttest.Local(t, "")
	limit, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	s, err := nats.New().Start(limit, h, h.Dir()+"/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(limit); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect opens a client that the test closes.
func connect(t *testing.T, s driver.Server, o driver.Options) driver.Client {
	t.Helper()
	c, err := nats.New().Connect(t.Context(), s.Target(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // some tests leave messages without an ack
	return c
}

// admin is a connection of the library's own, beside the driver.
func admin(t *testing.T, s driver.Server) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect("nats://" + s.Target().Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A message that the stream refuses is told, with the reason and the number;
// without acks it is the server's count that tells.
func TestRefused(t *testing.T) {
	s := start(t)
	const room = 10
	_, err := admin(t, s).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "full", Subjects: []string{"full"}, MaxMsgs: room, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, o := range []driver.Options{{}, {"window": "1"}, {"acks": "none"}} {
		c := connect(t, s, o)
		p, err := c.Producer(ctx, "full")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * room {
			if err = p.Send(ctx, make([]byte, 200)); err != nil {
				break
			}
		}
		if err == nil {
			err = p.Flush(ctx)
		}
		if o["acks"] == "none" {
			if err != nil {
				t.Errorf("%v: %v", o, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "maximum messages exceeded") || !strings.Contains(err.Error(), "of them not acknowledged") {
			t.Errorf("%v: %v, want the stream's reason", o, err)
		}
		if n, err := c.Arrived(ctx, "full"); err != nil || n != room {
			t.Errorf("%v: %d have arrived, %v; want %d", o, n, err, room)
		}
	}
}

// A consumer of an empty queue does not know the size of messages. It gets
// large ones too, as large as the testbed's largest.
func TestEmptyAtFirst(t *testing.T) {
	s := start(t)
	c := connect(t, s, nil)
	r, err := c.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	sizes := []int{200, 1 << 20, 1 << 20, 300_000, 24, 1 << 20, 700_000, 700_000}
	for _, n := range sizes {
		if err := p.Send(ctx, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for received := 0; received < len(sizes); {
		err := r.Receive(ctx, func(payload []byte) error {
			if len(payload) != sizes[received] {
				t.Errorf("message %d has %d bytes, want %d", received, len(payload), sizes[received])
			}
			received++
			return nil
		})
		if err != nil {
			t.Fatalf("after %d messages: %v", received, err)
		}
	}
}

// A consumer that the server has deleted, and a server that stands still, end
// Receive with a word for it.
func TestReceiveEnds(t *testing.T) {
	t.Parallel() // most of it is waiting for heartbeats
	s := start(t)
	c := connect(t, s, nil)
	receive := func() error {
		r, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { ended <- r.Receive(ctx, func([]byte) error { return nil }) }()
		return <-ended
	}
	t.Run("deleted", func(t *testing.T) {
		stream, stop := admin(t, s), make(chan struct{})
		deleted := make(chan error, 1)
		go func() { deleted <- deleteWhenPulling(t.Context(), stream, stop) }()
		err := receive()
		close(stop)
		if err == nil || !strings.Contains(err.Error(), "Consumer Deleted") {
			t.Errorf("Receive: %v", err)
		}
		if err := <-deleted; err != nil {
			t.Error(err)
		}
	})
	t.Run("stands still", func(t *testing.T) {
		r, err := c.Consumer(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Processes()[0].Signal(t.Context(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = r.Receive(ctx, func([]byte) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "the server stands still") {
			t.Errorf("Receive: %v", err)
		}
		if err := s.Processes()[0].Signal(t.Context(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
}

// deleteWhenPulling deletes the consumer of queue "q" once it waits for
// messages.
func deleteWhenPulling(ctx context.Context, js jetstream.JetStream, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return errors.New("no consumer was seen to wait")
		case <-time.After(20 * time.Millisecond):
		}
		stream, err := js.Stream(ctx, "q")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for info := range stream.ListConsumers(ctx).Info() {
			if info.NumWaiting > 0 {
				return stream.DeleteConsumer(ctx, info.Name)
			}
		}
	}
}

// Who answers to nothing is given up with the context.
func TestConnectToSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = nats.New().Connect(ctx, driver.Target{Addr: l.Addr().String()}, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	l.Close()
	_, err = nats.New().Connect(t.Context(), driver.Target{Addr: l.Addr().String()}, nil)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestQueueNames(t *testing.T) {
	c := connect(t, start(t), nil)
	for _, name := range []string{"", "a.b", "a b", "*", ">", strings.Repeat("x", 201)} {
		if _, err := c.Producer(t.Context(), name); err == nil || !strings.Contains(err.Error(), "queue name") {
			t.Errorf("Producer of %q: %v", name, err)
		}
		if _, err := c.Consumer(t.Context(), name); err == nil || !strings.Contains(err.Error(), "queue name") {
			t.Errorf("Consumer of %q: %v", name, err)
		}
	}
}

// Close may come from anywhere, and ends calls that wait.
func TestCloseEndsCalls(t *testing.T) {
	s := start(t)
	c := connect(t, s, driver.Options{"window": "1"})
	r, err := c.Consumer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(t.Context(), "silent")
	if err != nil {
		t.Fatal(err)
	}
	// A stream that gives no acks holds the second message back for good.
	if _, err := admin(t, s).UpdateStream(t.Context(), jetstream.StreamConfig{Name: "silent", Subjects: []string{"silent"}, NoAck: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	received, sent := make(chan error, 1), make(chan error, 1)
	go func() { received <- r.Receive(ctx, func([]byte) error { return nil }) }()
	first := make(chan struct{})
	go func() {
		err := p.Send(ctx, make([]byte, 200))
		close(first)
		if err == nil {
			err = p.Send(ctx, make([]byte, 200))
		}
		sent <- err
	}()
	<-first
	if err := c.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 messages not acknowledged") {
		t.Errorf("Close: %v", err)
	}
	for what, ended := range map[string]chan error{"Receive": received, "Send": sent} {
		if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, err := c.Producer(ctx, "q"); err == nil || !strings.Contains(err.Error(), "the client is closed") {
		t.Errorf("Producer after Close: %v", err)
	}
	if _, err := c.Arrived(ctx, "q"); err == nil {
		t.Error("Arrived after Close succeeds")
	}
}
