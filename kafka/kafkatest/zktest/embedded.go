package zktest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"kafkalab/kafka/zkserver"
)

// embeddedNode is a zkserver in this process.
type embeddedNode struct {
	cfg    zkserver.Config
	server *zkserver.Server // nil while it is stopped
	output logTail
}

func newEmbeddedNode(folder string, s settings) (*embeddedNode, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	e := &embeddedNode{}
	e.cfg = zkserver.Config{
		Listen:            addr,
		DataDir:           folder,
		TickTime:          s.tick,
		MinSessionTimeout: s.minTimeout,
		MaxSessionTimeout: s.maxTimeout,
		Logger:            slog.New(slog.NewTextHandler(&e.output, nil)),
	}
	return e, nil
}

func (e *embeddedNode) addr() string { return e.cfg.Listen }

func (e *embeddedNode) start() error {
	server, err := zkserver.Start(context.Background(), e.cfg)
	if err != nil {
		return fmt.Errorf("%w (%w)", err, errPortTaken)
	}
	e.server = server
	return nil
}

func (e *embeddedNode) running() bool {
	if e.server == nil {
		return false
	}
	select {
	case <-e.server.Done():
		return false
	default:
		return true
	}
}

// kill does what stop does: one cannot kill a part of this process.
func (e *embeddedNode) kill() error { return e.stop() }

func (e *embeddedNode) stop() error {
	if e.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := e.server.Close(ctx)
	e.server = nil
	return err
}

func (e *embeddedNode) ready() (bool, error) {
	if !e.running() {
		return false, fmt.Errorf("it has ended: %w", e.server.Err())
	}
	return true, nil
}

func (e *embeddedNode) log() []byte { return e.output.bytes() }

// logTail keeps the end of what is written to it.
type logTail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logTail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(b)
	if over := l.b.Len() - maxLogBytes; over > 0 {
		l.b.Next(over)
	}
	return len(b), nil
}

func (l *logTail) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// Embedded returns the server of a cluster of kind Embedded, for what only that
// can do: DelayWatches, Drop, Sessions. It fails the test for others and while
// the server is stopped.
func (c *Cluster) Embedded() *zkserver.Server {
	c.t.Helper()
	c.servers.mu.Lock()
	defer c.servers.mu.Unlock()
	e, ok := c.servers.nodes[0].(*embeddedNode)
	if !ok || e.server == nil {
		c.t.Fatalf("no embedded server runs in this cluster of kind %v", c.Kind)
	}
	return e.server
}

func (v *servers) expireEmbedded(session int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.nodes[0].(*embeddedNode)
	if e.server == nil {
		return fmt.Errorf("session %#x: the server is stopped", session)
	}
	return e.server.Expire(session)
}
