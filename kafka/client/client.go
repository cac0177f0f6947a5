// Package client speaks to one broker over one connection: every request of
// the protocol as a typed call (Kafka 0.7's simple consumer and sync producer
// in one), and the two halves of a call, [Conn.Send] and [Conn.Receive], for
// callers that keep several requests on their way.
//
// A call ends with its context, or after [Config.RequestTimeout] when the
// context has no earlier deadline; the connection then ends as well, since an
// answer that comes later could be taken for another's. A peer that answers with something that no
// broker would send is reported as [ErrNotBroker]; nothing is ever allocated
// for a size that such a peer claims.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"kafkalab/kafka/wire"
)

// Defaults of [Config].
const (
	DefaultDialTimeout      = 10 * time.Second
	DefaultRequestTimeout   = 30 * time.Second
	DefaultMaxResponseBytes = 64 << 20
)

// Errors of a connection. Each comes wrapped with the peer's address. But for
// ErrArgument the connection has ended and a new one must be dialed.
var (
	// ErrNotBroker says that the peer sent what no broker would send.
	ErrNotBroker = errors.New("not a broker")
	// ErrNoAnswer says that the time for an answer ran out.
	ErrNoAnswer = errors.New("no answer")
	// ErrPeerClosed says that the peer closed the connection while an answer
	// was awaited. A broker does so when it finds a request malformed or does
	// not know its type.
	ErrPeerClosed = errors.New("connection closed by the peer")
	// ErrCutOff is the [ErrPeerClosed] of a peer that had sent a part of its
	// answer. A broker does so when it stops, or cannot read what it answers with.
	ErrCutOff = fmt.Errorf("%w in the middle of an answer", ErrPeerClosed)
	// ErrClosed says that the connection was closed by [Conn.Close].
	ErrClosed = errors.New("connection is closed")
	// ErrArgument says that a request was refused before it was sent.
	ErrArgument = errors.New("bad argument")
)

// Config holds the limits of a connection. Zero fields take the defaults.
type Config struct {
	DialTimeout    time.Duration // of [Dial], beside its context
	RequestTimeout time.Duration // of writing a request, and of waiting for an answer
	// MaxResponseBytes bounds the payload of an answer, inclusive. The answer
	// to a fetch is bounded by the size it asked for as well.
	MaxResponseBytes int
}

func (c Config) withDefaults() Config {
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.MaxResponseBytes <= 0 {
		c.MaxResponseBytes = DefaultMaxResponseBytes
	}
	return c
}

// Conn is a connection to one broker. Its calls are for one goroutine at a
// time; of the halves, one goroutine may send while another receives. Close
// may be called from any.
type Conn struct {
	nc   net.Conn
	addr string
	cfg  Config

	mu      sync.Mutex // guards all up to the blank line
	err     error      // why the connection has ended, or nil
	answers []Answer   // awaited, oldest first
	// idle is set while Receive waits with no answer awaited, so with no time
	// limit: the next Send starts the clock. cancelled is set when the context
	// of that Receive has ended, so that Send does not undo it.
	idle      bool
	cancelled bool
	// clock is when the wait for the answer at the front began to count; zero
	// while it does not.
	clock time.Time

	cancelWrite, cancelRead func() // endWrite and endRead, bound once

	recv   receiver      // owned by the receiving goroutine
	waited time.Duration // likewise; see Waited
	out    []byte        // a typed call's request; owned by the calling goroutine
	in     []byte        // a typed call's answer; likewise
	sets   []wire.FetchResult
}

// Dial connects to the broker at addr, a host and port.
func Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	cfg = cfg.withDefaults()
	d := net.Dialer{Timeout: cfg.DialTimeout}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to broker %s: %w", addr, err)
	}
	// Requests are gathered by us and written whole, so a delay can only cost
	// time (KAFKA-171).
	if tc, ok := nc.(*net.TCPConn); ok {
		if err := tc.SetNoDelay(true); err != nil {
			return nil, errors.Join(fmt.Errorf("connect to broker %s: %w", addr, err), nc.Close())
		}
	}
	c := &Conn{nc: nc, addr: addr, cfg: cfg}
	c.cancelWrite, c.cancelRead = c.endWrite, c.endRead
	return c, nil
}

// endWrite ends a write in progress, as its context has ended.
func (c *Conn) endWrite() {
	_ = c.nc.SetWriteDeadline(past) // it fails for a closed connection, whose write fails too
}

// endRead ends a Receive in progress, as its context has ended.
func (c *Conn) endRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
	_ = c.nc.SetReadDeadline(past)
}

// Addr returns the address that was dialed.
func (c *Conn) Addr() string { return c.addr }

// Err returns why the connection has ended, or nil while it is usable.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection and ends calls in progress with [ErrClosed].
// Further calls of Close do nothing.
func (c *Conn) Close() error {
	c.mu.Lock()
	ended := c.err != nil
	if !ended {
		c.err = fmt.Errorf("broker %s: %w", c.addr, ErrClosed)
	}
	c.mu.Unlock()
	if ended {
		return nil
	}
	return c.nc.Close()
}

// end marks the connection as unusable for the reason err, closes it, and
// returns the reason: the first one that was given.
func (c *Conn) end(err error) error {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = fmt.Errorf("broker %s: %w", c.addr, err)
	}
	err = c.err
	c.mu.Unlock()
	if first {
		// The reason is what matters; that closing failed as well tells no more.
		_ = c.nc.Close()
	}
	return err
}

// onCancel runs f when ctx ends. The returned function stops that, and waits
// for f if it has begun, so that f never meets a later call.
func onCancel(ctx context.Context, f func()) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		f()
		close(done)
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// past is a deadline that has been missed: setting it ends a call in progress.
var past = time.Unix(1, 0)

// deadline returns the earlier of ctx's deadline and now plus d.
func deadline(ctx context.Context, d time.Duration) time.Time {
	t := time.Now().Add(d)
	if ct, ok := ctx.Deadline(); ok && ct.Before(t) {
		return ct
	}
	return t
}

// ctxErr returns the error of ctx, also when its deadline has passed but its
// own timer has not yet run.
func ctxErr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t, ok := ctx.Deadline(); ok && !time.Now().Before(t) {
		return context.DeadlineExceeded
	}
	return nil
}
