package drivertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/harness/driver"
)

// errStopped ends a Receive when a test has what it wants.
var errStopped = errors.New("stopped by the test")

// receive receives messages numbered from 0 and checks them.
func receive(ctx context.Context, r driver.Consumer, messages, payloadBytes int) error {
	check := newChecker(payloadBytes)
	for check.next < messages {
		err := r.Receive(ctx, func(p []byte) error {
			if err := check.check(p); err != nil {
				return err
			}
			if check.next == messages {
				return errStopped
			}
			return nil
		})
		if check.next == messages && !errors.Is(err, errStopped) {
			return fmt.Errorf("what Receive returns, %v, is not the error of its handler", err)
		}
		if err != nil && !errors.Is(err, errStopped) {
			return fmt.Errorf("after %d messages of %d: %w", check.next, messages, err)
		}
	}
	return nil
}

// tail: a consumer that waits at an empty queue gets the messages that come
// then, while they are sent on another connection.
func (c Config) tail(t *testing.T, s driver.Server, o driver.Options, queue string) {
	producing, consuming := c.connect(t, s, o), c.connect(t, s, o)
	r, err := consuming.Consumer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	// It asks before there is anything, and gets nothing.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	err = r.Receive(ctx, func([]byte) error { return errors.New("a message, before any was sent") })
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Receive at an empty queue: %v, wanted the context's error", err)
	}
	p, err := producing.Producer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	ctx = timeout(t)
	go func() { received <- receive(ctx, r, c.Messages, c.PayloadBytes) }()
	c.produce(t, p, c.Messages)
	if err := <-received; err != nil {
		t.Error(err)
	}
}

// sizes: payloads of the smallest and the largest size of a scenario arrive as
// they were.
func (c Config) sizes(t *testing.T, s driver.Server) {
	for _, size := range []struct{ payloadBytes, messages int }{{10, 500}, {1 << 20, 6}} {
		c.PayloadBytes, c.Messages = size.payloadBytes, size.messages
		queue := fmt.Sprint("size", size.payloadBytes)
		o := c.Options
		if size.payloadBytes > 1<<10 && c.LargeOptions != nil {
			o = c.LargeOptions
		}
		cl := c.connect(t, s, o)
		p, err := cl.Producer(timeout(t), queue)
		if err != nil {
			t.Fatal(err)
		}
		c.produce(t, p, c.Messages)
		waitArrived(t, cl, queue, int64(c.Messages))
		r, err := cl.Consumer(timeout(t), queue)
		if err != nil {
			t.Fatal(err)
		}
		if err := receive(timeout(t), r, c.Messages, c.PayloadBytes); err != nil {
			t.Errorf("payloads of %d bytes: %v", size.payloadBytes, err)
		}
	}
}

// fanOut: each of several consumers gets all messages, whoever has prepared
// that.
func (c Config) fanOut(t *testing.T, s driver.Server, o driver.Options, queue string) {
	preparing := c.connect(t, s, o)
	f, ok := preparing.(driver.FanOut)
	if !ok {
		t.Skip("the driver has no fan-out")
	}
	const groups = 3
	var queues []string
	for range 2 { // the second time changes nothing
		var err error
		if queues, err = f.FanOut(timeout(t), queue, groups); err != nil {
			t.Fatal(err)
		}
	}
	if len(queues) != groups {
		t.Fatalf("queues %q, wanted %d", queues, groups)
	}
	producing := c.connect(t, s, o)
	p, err := producing.Producer(timeout(t), queue)
	if err != nil {
		t.Fatal(err)
	}
	c.produce(t, p, c.Messages)
	received := make(chan error, groups)
	ctx := timeout(t)
	for i, q := range queues {
		waitArrived(t, producing, q, int64(c.Messages))
		if i > 0 && q == queues[0] {
			t.Logf("queue %s once more", q)
		}
	}
	for i, q := range queues {
		r, err := c.connect(t, s, o).Consumer(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			err := receive(ctx, r, c.Messages, c.PayloadBytes)
			if err != nil {
				err = fmt.Errorf("consumer %d: %w", i, err)
			}
			received <- err
		}()
	}
	for range queues {
		if err := <-received; err != nil {
			t.Error(err)
		}
	}
}
