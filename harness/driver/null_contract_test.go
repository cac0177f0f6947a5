package driver_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"kafkalab/harness/driver"
	"kafkalab/harness/driver/drivertest"
	"kafkalab/harness/workload"
)

// The null driver takes the workload's messages alone, and the suite sends its
// own: each of those travels as one of the workload's, and is found again by
// its sequence number.
func TestNullContract(t *testing.T) {
	drivertest.Run(t, drivertest.Config{Driver: &translated{Driver: driver.NewNull(), sent: map[string][][]byte{}}})
}

type translated struct {
	driver.Driver
	mu   sync.Mutex
	sent map[string][][]byte // by queue and sequence number
}

func (d *translated) Connect(ctx context.Context, target driver.Target, o driver.Options) (driver.Client, error) {
	c, err := d.Driver.Connect(ctx, target, o)
	if err != nil {
		return nil, err
	}
	return translatedClient{c, d}, nil
}

type translatedClient struct {
	driver.Client
	driver *translated
}

func (c translatedClient) Producer(ctx context.Context, queue string) (driver.Producer, error) {
	p, err := c.Client.Producer(ctx, queue)
	if err != nil {
		return nil, err
	}
	g, err := workload.NewGenerator(7, 200)
	return translatedProducer{p, c.driver, queue, g}, err
}

func (c translatedClient) Consumer(ctx context.Context, queue string) (driver.Consumer, error) {
	r, err := c.Client.Consumer(ctx, queue)
	return translatedConsumer{r, c.driver, queue}, err
}

type translatedProducer struct {
	driver.Producer
	driver   *translated
	queue    string
	generate *workload.Generator
}

func (p translatedProducer) Send(ctx context.Context, payload []byte) error {
	p.driver.mu.Lock()
	p.driver.sent[p.queue] = append(p.driver.sent[p.queue], bytes.Clone(payload))
	p.driver.mu.Unlock()
	return p.Producer.Send(ctx, p.generate.Next())
}

type translatedConsumer struct {
	driver.Consumer
	driver *translated
	queue  string
}

func (c translatedConsumer) Receive(ctx context.Context, handle func([]byte) error) error {
	return c.Consumer.Receive(ctx, func(payload []byte) error {
		h, err := workload.Parse(payload, 7)
		if err != nil {
			return err
		}
		c.driver.mu.Lock()
		sent := c.driver.sent[c.queue]
		c.driver.mu.Unlock()
		if h.Sequence >= uint64(len(sent)) {
			return fmt.Errorf("message %d of queue %s was never sent", h.Sequence, c.queue)
		}
		return handle(sent[h.Sequence])
	})
}
