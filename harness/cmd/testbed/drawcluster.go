package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kafkalab/harness/host"
	"kafkalab/plots"
)

// What the cluster that is drawn does: two producers, two topics, two groups.
// Segment files are small, so that there are several of them.
const (
	drawSegmentBytes = 16 << 10
	drawLineBytes    = 200 // NetDB'11 §5
	drawEntryBytes   = drawLineBytes + 9
	drawLines        = 600 // of each producer to each of its topics
	drawBatch        = 20  // lines a request: each goes to a partition picked by chance
)

var drawTopics = []struct {
	name       string
	partitions int // at each broker
}{{"clicks", 2}, {"searches", 1}}

var drawProducers = []plots.Producer{{Name: "front end 1", Topics: []string{"clicks"}}, {Name: "front end 2", Topics: []string{"clicks", "searches"}}}

var drawGroups = []struct {
	name    string
	topics  []string
	members int
}{{"newsfeed", []string{"clicks"}, 2}, {"reporting", []string{"clicks", "searches"}, 1}}

// drawnCluster is a cluster of processes on this machine, and what is behind it.
type drawnCluster struct {
	host      host.Host
	std       stdio
	kafka     string // the program
	zookeeper string // its address
	replica   string // that of the ZooKeeper of the replica cluster; "": there is none
	folders   []string
	inputs    []io.Closer // of producers, which are there until the end
	programs  []*drawnProgram
}

// drawnProgram is one of its processes, with the end of what it has written.
type drawnProgram struct {
	host.Process
	name   string
	output *saidBy
}

// start starts everything and waits until all that was published is consumed
// and committed.
func (c *drawnCluster) start(ctx context.Context, brokers int) error {
	var err error
	if c.kafka, err = c.host.Binary(ctx, "kafka"); err != nil {
		return err
	}
	fmt.Fprintf(c.std.Err, "Starting a ZooKeeper, %d brokers, %d producers and %d groups.\n", brokers, len(drawProducers), len(drawGroups))
	if c.zookeeper, err = c.server(ctx, "zookeeper", "zookeeper", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(c.host.Dir(), "zookeeper")); err != nil {
		return err
	}
	for id := range brokers {
		folder := filepath.Join(c.host.Dir(), fmt.Sprintf("broker%d", id))
		c.folders = append(c.folders, folder)
		_, err := c.server(ctx, fmt.Sprintf("broker %d", id), "broker", "--listen", "127.0.0.1:0", "--log-dir", folder, "--broker-id", fmt.Sprint(id), "--zk-connect", c.zookeeper,
			"--segment-size", fmt.Sprint(drawSegmentBytes), "--flush-messages", "100", "--flush-interval", "100ms")
		if err != nil {
			return err
		}
	}
	for _, t := range drawTopics {
		if _, err := c.host.Run(ctx, c.kafka, "topics", "create", t.name, "--partitions", fmt.Sprint(t.partitions), "--zk-connect", c.zookeeper); err != nil {
			return err
		}
	}
	for _, g := range drawGroups {
		args := []string{"consume", "--zk-connect", c.zookeeper, "--group", g.name, "--autocommit-interval", "200ms"}
		for _, t := range g.topics {
			args = append(args, "--topic", t)
		}
		for i := range g.members {
			if _, err := c.program(ctx, nil, fmt.Sprintf("consumer %d of %s", i+1, g.name), args...); err != nil {
				return err
			}
		}
	}
	if err := c.until(ctx, "every partition has an owner", c.owned); err != nil {
		return err
	}
	if err := c.publish(ctx); err != nil {
		return err
	}
	return c.until(ctx, "everything is consumed and committed", c.consumed)
}

// program starts one of the processes.
func (c *drawnCluster) program(ctx context.Context, in io.Reader, name string, args ...string) (*drawnProgram, error) {
	p := &drawnProgram{name: name, output: newSaidBy()}
	var err error
	p.Process, err = c.host.Start(ctx, host.Command{Name: name, Args: append([]string{c.kafka}, args...), In: in, Err: p.output})
	if err != nil {
		return nil, err
	}
	c.programs = append(c.programs, p)
	return p, nil
}

// server starts a process that serves, and returns its address when it does.
func (c *drawnCluster) server(ctx context.Context, name string, args ...string) (string, error) {
	p, err := c.program(ctx, nil, name, args...)
	if err != nil {
		return "", err
	}
	select {
	case <-p.output.serving:
		return p.output.address, nil
	case <-p.Done():
		return "", fmt.Errorf("%s ended before it served", name)
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %w", name, ctx.Err())
	}
}

// publish has the producers publish, each topic by a process of its own. They
// stay connected.
func (c *drawnCluster) publish(ctx context.Context) error {
	for _, p := range drawProducers {
		for _, topic := range p.Topics {
			r, w := io.Pipe()
			c.inputs = append(c.inputs, w)
			if _, err := c.program(ctx, r, p.Name, "produce", "--zk-connect", c.zookeeper, "--topic", topic, "--batch-size", fmt.Sprint(drawBatch)); err != nil {
				return errors.Join(err, r.Close())
			}
			for i := range drawLines {
				line := fmt.Sprintf("%s %04d of %s ", topic, i, p.Name)
				if _, err := io.WriteString(w, line+strings.Repeat(".", drawLineBytes-len(line))+"\n"); err != nil {
					return fmt.Errorf("%s: %w", p.Name, err)
				}
			}
		}
	}
	return nil
}

// published is how many bytes of log the producers make of a topic.
func published(topic string) int64 {
	n := int64(0)
	for _, p := range drawProducers {
		if slices.Contains(p.Topics, topic) {
			n += drawLines * drawEntryBytes
		}
	}
	return n
}

// until asks again until it is so, or the time is up. It says what was missing.
func (c *drawnCluster) until(ctx context.Context, what string, is func(context.Context) (missing string, err error)) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	missing := "nobody could be asked"
	for {
		now, err := is(ctx)
		switch {
		case err == nil && now == "":
			return nil
		case err == nil:
			missing = now
		case ctx.Err() == nil:
			return err
		}
		for _, p := range c.programs {
			select {
			case <-p.Done():
				return fmt.Errorf("%s has ended before %s", p.name, what)
			default:
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w; %s", what, ctx.Err(), missing)
		}
	}
}

// explain adds to an error what the processes have written last.
func (c *drawnCluster) explain(err error) error {
	var b strings.Builder
	for _, p := range c.programs {
		if said := p.output.last(); said != "" {
			fmt.Fprintf(&b, "\n%s: %s", p.name, said)
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}

// close lets the producers go; the host ends the processes.
func (c *drawnCluster) close() {
	for _, in := range c.inputs {
		_ = in.Close() // of a pipe: it has no error
	}
}

// saidBy watches what a server writes for the address that it serves on, and
// keeps its last line.
type saidBy struct {
	mu      sync.Mutex
	rest    []byte // the line that is not complete
	line    string
	address string        // set before serving is closed
	serving chan struct{} // closed when the address is known
}

func newSaidBy() *saidBy { return &saidBy{serving: make(chan struct{})} }

var startedLine = regexp.MustCompile(`msg="(?:broker|ZooKeeper server) started".* listen=([0-9.]+:[0-9]+)`)

// maxSaid bounds a line without an end.
const maxSaid = 64 << 10

// Write implements io.Writer.
func (s *saidBy) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, data...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			break
		}
		s.rest, s.line = rest, string(line)
		if m := startedLine.FindSubmatch(line); m != nil && s.address == "" {
			s.address = string(m[1])
			close(s.serving)
		}
	}
	if len(s.rest) > maxSaid {
		s.rest = nil
	}
	return len(data), nil
}

func (s *saidBy) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}
