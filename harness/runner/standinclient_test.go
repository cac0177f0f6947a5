package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"kafkalab/harness/driver"
)

// standInClient commits the fault. Warm-up queues are spared.
type standInClient struct {
	driver.Client
	o   standInOptions
	pid int
}

func (c *standInClient) Arrived(ctx context.Context, queue string) (int64, error) {
	n, err := c.Client.Arrived(ctx, queue)
	if strings.HasPrefix(queue, "bench") && n > 0 {
		switch c.o.fault {
		case "stuck":
			n = min(n, c.o.at)
		case "surplus":
			n++
		case "depth":
			n -= consumed.Load()
		}
	}
	return n, err
}

// killServer ends the server, and returns when the client is told to end.
func (c *standInClient) killServer(ctx context.Context) error {
	_ = syscall.Kill(c.pid, syscall.SIGKILL)
	<-ctx.Done()
	return ctx.Err()
}

// consumed is how many messages this process has received.
var consumed atomic.Int64

func (c *standInClient) CountsDepth() bool { return c.o.fault == "depth" }

func (c *standInClient) StoredSize(n int) int { return n + 9 }

func (c *standInClient) BlockedReasons() []string {
	if c.o.fault == "blocked" {
		return []string{"low on disk"}
	}
	return nil
}

func (c *standInClient) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	p, err := c.Client.Producer(ctx, queue)
	if c.o.warm != 0 && err == nil {
		if !strings.HasPrefix(queue, "warm") {
			return nil, fmt.Errorf("queue %s: the options are those of a warm-up", queue)
		}
		return &sizedProducer{Producer: p, size: c.o.warm}, nil
	}
	if queue != "bench" {
		return p, err
	}
	return &standInProducer{Producer: p, c: c}, err
}

// sizedProducer takes messages of one size alone.
type sizedProducer struct {
	driver.Producer
	size int
}

func (p *sizedProducer) Send(ctx context.Context, payload []byte) error {
	if len(payload) != p.size {
		return fmt.Errorf("a message of %d bytes, where %d are wanted", len(payload), p.size)
	}
	return p.Producer.Send(ctx, payload)
}

type standInProducer struct {
	driver.Producer
	c    *standInClient
	sent int64
}

func (p *standInProducer) Send(ctx context.Context, payload []byte) error {
	p.sent++
	if p.c.o.fault == "slow" {
		time.Sleep(100 * time.Microsecond)
	}
	if p.sent == p.c.o.at && p.c.o.fault == "stall" {
		time.Sleep(120 * time.Millisecond)
	}
	if p.sent > p.c.o.at {
		switch p.c.o.fault {
		case "send-error":
			return errors.New("connection reset")
		case "send-hang":
			<-ctx.Done()
			return ctx.Err()
		case "stubborn":
			select {}
		case "exit":
			fmt.Fprint(os.Stderr, "it was slow before\nout of memory\n")
			os.Exit(3)
		case "death":
			return p.c.killServer(ctx)
		case "death-told":
			_ = syscall.Kill(p.c.pid, syscall.SIGKILL)
			return errors.New("connection reset")
		}
	}
	return p.Producer.Send(ctx, payload)
}

func (c *standInClient) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	consumer, err := c.Client.Consumer(ctx, queue)
	if !strings.HasPrefix(queue, "bench") {
		return consumer, err
	}
	return &standInConsumer{Consumer: consumer, c: c}, err
}

type standInConsumer struct {
	driver.Consumer
	c        *standInClient
	received int64
	kept     []byte
}

func (c *standInConsumer) Receive(ctx context.Context, handle func([]byte) error) error {
	if c.c.o.fault == "slow" {
		time.Sleep(100 * time.Millisecond)
	}
	if c.c.o.fault == "mute" && c.received >= c.c.o.at {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.Consumer.Receive(ctx, func(payload []byte) error {
		c.received++
		consumed.Add(1)
		switch at := c.received == c.c.o.at; {
		case at && c.c.o.fault == "damaged":
			payload[len(payload)-1]++
		case at && c.c.o.fault == "lost":
			return nil
		case at && c.c.o.fault == "doubled":
			if err := handle(payload); err != nil {
				return err
			}
		case at && c.c.o.fault == "reordered":
			c.kept = append([]byte(nil), payload...)
			return nil
		case c.kept != nil:
			if err := handle(payload); err != nil {
				return err
			}
			payload, c.kept = c.kept, nil
		case at && c.c.o.fault == "receive-error":
			return errors.New("connection reset")
		case at && c.c.o.fault == "death-consuming":
			return c.c.killServer(ctx)
		}
		return handle(payload)
	})
}
