package runner

import (
	"context"
	"errors"
	"fmt"

	"kafkalab/harness/driver"
)

// standInLog is the server with what it may offer besides.
type standInLog struct {
	*standInServer
	fault string
}

func (s *standInLog) Shut(ctx context.Context) error {
	if s.fault == "no-shut" {
		return errors.New("it does not listen")
	}
	return s.Stop(ctx)
}
func (s *standInLog) Kill(ctx context.Context) error { return s.Stop(ctx) }
func (s *standInLog) Restart(ctx context.Context) error {
	if s.fault == "no-restart" {
		<-ctx.Done()
		return errors.New("the journal is damaged")
	}
	return s.run(ctx)
}
func (s *standInLog) StoreParts() []driver.StorePart {
	return []driver.StorePart{{Name: "log", Globs: []string{"*.queue"}}, {Name: "index", Globs: []string{"*.index"}}}
}
func (s *standInLog) MetricsURL() string { return "http://127.0.0.1:1/metrics" }

// standInFanOut is a client with several consumers.
type standInFanOut struct {
	*standInClient
	queues []string
}

func (c *standInFanOut) FanOut(ctx context.Context, queue string, groups int) ([]string, error) {
	if c.o.kind == "log" {
		return c.Client.(driver.FanOut).FanOut(ctx, queue, groups)
	}
	for i := range groups {
		c.queues = append(c.queues, fmt.Sprint(queue, "-", i+1))
	}
	return c.queues, nil
}

// Producer sends to every queue. The fault "half" leaves the last one out.
func (c *standInFanOut) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	if len(c.queues) == 0 {
		return c.standInClient.Producer(ctx, queue)
	}
	queues := c.queues
	if c.o.fault == "half" {
		queues = queues[:len(queues)-1]
	}
	var all manyProducers
	for _, q := range queues {
		p, err := c.Client.Producer(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

type manyProducers []driver.Producer

func (m manyProducers) Send(ctx context.Context, payload []byte) error {
	for _, p := range m {
		if err := p.Send(ctx, payload); err != nil {
			return err
		}
	}
	return nil
}

func (m manyProducers) Flush(ctx context.Context) error { return ctx.Err() }
