package rawlimit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"kafkalab/harness/driver"
)

var errClosed = errors.New("physical limit: the client is closed")

// client opens a connection for each producer and consumer, and one to ask
// what has arrived.
type client struct {
	addr        string
	path        Path
	fetchBytes  int // of one fetch; 0: consumers get one stream
	outstanding int // fetches that are unanswered at a time

	mu        sync.Mutex // guards all that follows
	closed    bool
	conns     map[net.Conn]struct{}
	producers []closer

	askMu sync.Mutex // one question at a time
	ask   *conn      // nil: not connected
}

// closer is a producer at the end: it gives up, and says what was not sent.
type closer interface{ close() error }

// conn is a connection whose request was answered.
type conn struct {
	net.Conn
	in *bufio.Reader
}

// connect connects to the server to see that it is there.
func connect(ctx context.Context, addr string, opts options) (*client, error) {
	c := &client{addr: addr, path: opts.path, fetchBytes: opts.fetchBytes, outstanding: opts.outstanding, conns: map[net.Conn]struct{}{}}
	ask, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.ask = ask
	return c, nil
}

func (c *client) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("physical limit: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
		return nil, errClosed
	}
	c.conns[nc] = struct{}{}
	return &conn{Conn: nc, in: bufio.NewReaderSize(nc, maxLineBytes)}, nil
}

// drop closes a connection that is of no more use.
func (c *client) drop(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, cn.Conn)
	cn.Close()
}

// open dials and makes a request.
func (c *client) open(ctx context.Context, r request) (*conn, error) {
	cn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.request(ctx, cn, r); err != nil {
		c.drop(cn)
		return nil, err
	}
	return cn, nil
}

// request makes a request on a connection that is between two. After an error
// the connection is of no more use.
func (c *client) request(ctx context.Context, cn *conn, r request) (answer, error) {
	var a answer
	stop := interrupt(ctx, cn.SetDeadline)
	err := writeLine(cn, r)
	if err == nil {
		err = readLine(cn.in, &a)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = a.err()
	}
	if err != nil {
		return a, fmt.Errorf("physical limit: %s of queue %q at %s: %w", r.Op, r.Queue, c.addr, err)
	}
	return a, nil
}

// interrupt lets what the deadline bounds fail when ctx ends. stop reports
// false if that has happened. A deadline that is set too late, between the last
// operation and stop, is still in force then.
func interrupt(ctx context.Context, setDeadline func(time.Time) error) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = setDeadline(time.Unix(1, 0)) // fails only on a closed connection, where nothing waits
	})
}

func (c *client) Producer(_ context.Context, queue string) (driver.Producer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	var p interface {
		driver.Producer
		closer
	}
	switch c.path {
	case PathDisk:
		p = &grantProducer{strictProducer: strictProducer{client: c, queue: queue}}
	case PathPing:
		p = &pingProducer{strictProducer: strictProducer{client: c, queue: queue}}
	default:
		p = newStreamProducer(c, queue)
	}
	c.producers = append(c.producers, p)
	return p, nil
}

// Consumer asks for nothing yet: the server sends as much as the sockets'
// buffers take to whoever has asked, and a measurement begins with Receive.
func (c *client) Consumer(_ context.Context, queue string) (driver.Consumer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	return &consumer{client: c, queue: queue, buf: make([]byte, 0, receiveBytes), fetch: fetching{bytes: c.fetchBytes, ahead: c.outstanding}}, nil
}

// Arrived asks the server, on a connection of its own.
func (c *client) Arrived(ctx context.Context, queue string) (int64, error) {
	c.askMu.Lock()
	defer c.askMu.Unlock()
	if c.ask == nil {
		cn, err := c.dial(ctx)
		if err != nil {
			return 0, err
		}
		c.ask = cn
	}
	a, err := c.request(ctx, c.ask, request{Op: opArrived, Queue: queue})
	if err != nil {
		c.drop(c.ask)
		c.ask = nil
		return 0, err
	}
	return a.Messages, nil
}

// StoredSize is that of Kafka, whose entries ours are as large as.
func (c *client) StoredSize(payload int) int { return entryHeaderBytes + payload }

// Close ends everything at once, and says how many messages were handed over
// but not sent: none after Flush.
func (c *client) Close(context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for nc := range c.conns {
		nc.Close()
	}
	producers := c.producers
	c.mu.Unlock()
	var err error
	for _, p := range producers {
		err = errors.Join(err, p.close())
	}
	return err
}

// receiveBytes is the room for what one read returns.
const receiveBytes = 1 << 20

// consumer takes the stream apart.
type consumer struct {
	client *client
	conn   *conn // nil before the first Receive
	queue  string
	buf    []byte // what was received, from the entry at start on
	start  int
	fetch  fetching // with its bytes 0 there is one stream
}

func (c *consumer) Receive(ctx context.Context, handle func(payload []byte) error) error {
	if c.conn == nil {
		if err := c.open(ctx); err != nil {
			return err
		}
	}
	for handled := false; !handled; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		want := 0
		for {
			payload, size, need, err := parseEntry(c.buf[c.start:])
			if err != nil {
				return fmt.Errorf("queue %q: %w", c.queue, err)
			}
			if size == 0 {
				want = need
				break
			}
			c.start += size
			handled = true
			if err := handle(payload); err != nil {
				return err
			}
		}
		if !handled {
			if err := c.read(ctx, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// open asks for the stream, or for the first fetches.
func (c *consumer) open(ctx context.Context) error {
	r := request{Op: opConsume, Queue: c.queue}
	if c.fetch.bytes > 0 {
		r.Op = opFetch
	}
	cn, err := c.client.open(ctx, r)
	if err != nil {
		return err
	}
	c.conn = cn
	if c.fetch.bytes > 0 {
		return c.askAhead()
	}
	return nil
}

// read moves the cut-off entry to the front, makes room for all want bytes of
// it, and receives more.
func (c *consumer) read(ctx context.Context, want int) error {
	n := copy(c.buf, c.buf[c.start:])
	c.buf, c.start = c.buf[:n], 0
	if want > cap(c.buf) {
		c.buf = append(make([]byte, 0, want), c.buf...)
	}
	room := c.buf[n:cap(c.buf)]
	for {
		stop := interrupt(ctx, c.conn.SetReadDeadline)
		got, err := c.receive(room)
		inTime := stop()
		c.buf = c.buf[:n+got]
		switch {
		case got > 0:
			return nil // an error shows again next time
		case !inTime:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline of a context that ended after its Receive had.
			if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
				return fmt.Errorf("physical limit: %w", err)
			}
		case err != nil:
			return fmt.Errorf("physical limit: receiving queue %q: %w", c.queue, err)
		}
	}
}

// receive is one read into room.
func (c *consumer) receive(room []byte) (int, error) {
	if c.fetch.bytes > 0 {
		return c.readAnswer(room)
	}
	return c.conn.in.Read(room)
}
