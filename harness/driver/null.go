package driver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/workload"
)

// Null is a driver of no system at all: it throws messages away and makes them
// again. What is measured with it is the ceiling of the testbed itself, and a
// system that comes near it cannot be judged by this testbed.
//
// It takes messages of [workload] only, in their order, and remembers of a
// queue which run it was and how many messages came. That is enough to make
// each of them again for a consumer. The memory is a page shared through a file
// in the server's folder, so that producer and consumer may be different
// processes of one machine, and neither pays for the other.
type Null struct{}

// NewNull returns the driver.
func NewNull() Null { return Null{} }

// Name is "null".
func (Null) Name() string { return "null" }

// Check refuses all options, and hosts that do not share a file system.
func (Null) Check(_ context.Context, broker host.Host, o Options) error {
	if err := o.Read().Err(); err != nil {
		return err
	}
	if broker.Kind() == host.SSH {
		return fmt.Errorf("the null driver needs client and broker on one machine, but %s is reached by ssh: use it with a local or netns testbed", broker.Name())
	}
	return nil
}

// Settings says that hardly anything applies.
func (Null) Settings(_ context.Context, _ host.Host, o Options) ([]Setting, error) {
	if err := o.Read().Err(); err != nil {
		return nil, err
	}
	rows := make([]Setting, len(SettingRows))
	for i, row := range SettingRows {
		rows[i] = Setting{Row: row, Value: "does not apply"}
	}
	rows[1].Value = "none: a call within the client's process"
	rows[2].Value = "none: messages are thrown away and made again"
	return rows, nil
}

// Start makes the folder for the queues' pages.
func (n Null) Start(ctx context.Context, broker host.Host, dir string, o Options) (Server, error) {
	if err := n.Check(ctx, broker, o); err != nil {
		return nil, err
	}
	if err := broker.MkdirAll(ctx, dir); err != nil {
		return nil, fmt.Errorf("null driver: %w", err)
	}
	return nullServer{dir: dir}, nil
}

// Connect opens nothing yet.
func (Null) Connect(_ context.Context, target Target, o Options) (Client, error) {
	if err := o.Read().Err(); err != nil {
		return nil, err
	}
	dir := target.Extra["dir"]
	if dir == "" {
		return nil, fmt.Errorf("null driver: target %+v is none of its own", target)
	}
	return &nullClient{dir: dir, pages: map[string]*nullPage{}}, nil
}

// NullTarget is the target of a null server whose folder is dir, which must be
// there.
func NullTarget(dir string) Target { return nullServer{dir: dir}.Target() }

// nullServer is a folder: nothing runs.
type nullServer struct{ dir string }

func (s nullServer) Target() Target {
	return Target{Addr: "none:0", Extra: map[string]string{"dir": s.dir}}
}
func (s nullServer) Processes() []host.Process  { return nil }
func (s nullServer) Died() <-chan struct{}      { return nil } // never
func (s nullServer) StoreDir() string           { return s.dir }
func (s nullServer) Logs() []string             { return nil }
func (s nullServer) Stop(context.Context) error { return nil }

var errNullClosed = errors.New("null driver: the client is closed")

// nullClient holds a page of each queue that was asked for.
type nullClient struct {
	dir string

	mu     sync.Mutex
	closed bool
	pages  map[string]*nullPage
}

// page returns the queue's page, which stays mapped until the process ends:
// a producer or consumer may still be using it when the client is closed, and
// it is one page.
func (c *nullClient) page(queue string) (*nullPage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errNullClosed
	}
	if p := c.pages[queue]; p != nil {
		return p, nil
	}
	p, err := openNullPage(c.dir, queue)
	if err != nil {
		return nil, fmt.Errorf("null driver, queue %q: %w", queue, err)
	}
	c.pages[queue] = p
	return p, nil
}

func (c *nullClient) Producer(_ context.Context, queue string) (Producer, error) {
	p, err := c.page(queue)
	if err != nil {
		return nil, err
	}
	return &nullProducer{page: p, count: p.count.Load()}, nil
}

func (c *nullClient) Consumer(_ context.Context, queue string) (Consumer, error) {
	p, err := c.page(queue)
	if err != nil {
		return nil, err
	}
	return &nullConsumer{page: p}, nil
}

// FanOut returns the queue itself: every consumer makes all messages again.
func (c *nullClient) FanOut(_ context.Context, queue string, groups int) ([]string, error) {
	return slices.Repeat([]string{queue}, groups), nil
}

// Arrived returns how many were thrown away.
func (c *nullClient) Arrived(_ context.Context, queue string) (int64, error) {
	p, err := c.page(queue)
	if err != nil {
		return 0, err
	}
	return int64(p.count.Load()), nil
}

func (c *nullClient) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// nullProducer is the only writer of its page.
type nullProducer struct {
	page  *nullPage
	count uint64
}

func (p *nullProducer) Send(ctx context.Context, payload []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, ok := workload.Peek(payload)
	if !ok {
		return fmt.Errorf("null driver: a payload of %d bytes is none of the workload's", len(payload))
	}
	if p.count == 0 {
		p.page.payloadBytes.Store(uint64(len(payload)))
		p.page.runID.Store(h.RunID)
		p.page.first.Store(h.Sequence)
	}
	want := workload.Header{RunID: p.page.runID.Load(), Sequence: p.page.first.Load() + p.count}
	if h != want || len(payload) != int(p.page.payloadBytes.Load()) {
		return fmt.Errorf("null driver: message %d of run %d with %d bytes where message %d of run %d with %d bytes should follow: it can make only the workload's own sequence again",
			h.Sequence, h.RunID, len(payload), want.Sequence, want.RunID, p.page.payloadBytes.Load())
	}
	p.count++
	p.page.count.Store(p.count) // after the rest: see nullPage
	return nil
}

// Flush has nothing to wait for.
func (p *nullProducer) Flush(ctx context.Context) error { return ctx.Err() }

// nullConsumer makes the messages again.
type nullConsumer struct {
	page     *nullPage
	made     uint64
	generate *workload.Generator
}

// Bounds of Receive: how many messages it makes at a time, about as many as
// the systems under test prefetch, and how often it looks for more.
const (
	nullPull = 1000
	nullPoll = time.Millisecond
)

func (c *nullConsumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	for c.page.count.Load() <= c.made {
		select {
		case <-time.After(nullPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.generate == nil {
		g, err := workload.NewGenerator(c.page.runID.Load(), int(c.page.payloadBytes.Load()))
		if err != nil {
			return fmt.Errorf("null driver: %w", err)
		}
		g.Seek(c.page.first.Load())
		c.generate = g
	}
	for range min(nullPull, c.page.count.Load()-c.made) {
		c.made++
		if err := handle(c.generate.Next()); err != nil {
			return err
		}
	}
	return nil
}

// nullFile is the file that holds a queue's page.
func nullFile(dir, queue string) string { return filepath.Join(dir, fmt.Sprintf("%x.queue", queue)) }
