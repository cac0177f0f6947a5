package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// connectLimit bounds the opening of a connection beside its context.
	connectLimit = 30 * time.Second
	// askLimit bounds a question to the server whose context has no deadline:
	// long, since a server that pauses is not gone.
	askLimit = 5 * time.Minute
	// callGrace is how long a call may go on after its context has ended.
	callGrace = 2 * time.Second
	// closeGrace is how long the server has to take what is left when a
	// connection is closed.
	closeGrace = 2 * time.Second
	// endGrace is how long the library has to tell that a connection ended.
	endGrace = time.Second
)

var errClosed = errors.New("the client is closed")

// link is one connection.
type link struct {
	addr  string
	conn  *nats.Conn
	js    jetstream.JetStream
	raw   net.Conn
	ended chan struct{} // closed when the connection has ended

	mu   sync.Mutex
	said error // by the server, beside any answer; the first

	once sync.Once
}

// dialer opens the library's socket within a context, and keeps it: closing it
// is the one way to end a call of the library that is blocked in a write.
type dialer struct {
	ctx  context.Context
	raw  net.Conn
	err  error
	stop func() bool
}

func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	d.raw, d.err = (&net.Dialer{}).DialContext(d.ctx, network, addr)
	if d.err == nil {
		// The handshake takes no context.
		d.stop = context.AfterFunc(d.ctx, func() { _ = d.raw.Close() })
	}
	return d.raw, d.err
}

// dial opens a connection. A server that has gone is the end of an experiment,
// so that nothing is connected again.
func dial(ctx context.Context, addr string, opts ...jetstream.JetStreamOpt) (*link, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("nats %s: %w", addr, ctx.Err())
	}
	l := &link{addr: addr, ended: make(chan struct{})}
	d := &dialer{ctx: ctx}
	conn, err := nats.Connect("nats://"+addr,
		nats.Name("kafkalab"),
		nats.SetCustomDialer(d),
		nats.NoReconnect(),
		nats.Timeout(connectLimit),
		// A write that times out would leave out what was to be written, and go on.
		nats.FlusherTimeout(0),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.note(err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(l.ended) }),
	)
	if d.stop != nil && !d.stop() {
		err = errors.Join(ctx.Err(), err)
	}
	// The library says of a refused connection only that there is no server.
	if d.err != nil {
		err = d.err
	}
	l.conn, l.raw = conn, d.raw
	if err == nil {
		l.js, err = jetstream.New(conn, append(opts, jetstream.WithDefaultTimeout(askLimit))...)
	}
	if err != nil {
		if conn != nil {
			err = errors.Join(err, l.close(ctx))
		}
		return nil, fmt.Errorf("nats %s: opening the connection: %w", addr, err)
	}
	return l, nil
}

// note keeps what the server said.
func (l *link) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = err
	}
}

// abort ends the connection at once, so that every call on it returns.
func (l *link) abort() { _ = l.raw.Close() } // a second close is harmless

// because adds to an error what the server has said, and why the connection
// ended.
func (l *link) because(err error) error {
	if err == nil {
		return nil
	}
	l.mu.Lock()
	said := l.said
	l.mu.Unlock()
	for _, why := range []error{said, l.conn.LastError()} {
		if why != nil && !errors.Is(err, why) {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return err
}

// close ends the connection within closeGrace and a moment, whether or not the
// server takes what is left to be written.
func (l *link) close(ctx context.Context) (err error) {
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, closeGrace)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.conn.Close() // writes what is left
		}()
		select {
		case <-done:
		case <-ctx.Done():
			l.abort()
			<-done
			err = fmt.Errorf("nats %s: the server did not take what was left within %v; the connection was given up", l.addr, closeGrace)
		}
		select {
		case <-l.ended:
		case <-time.After(endGrace):
		}
	})
	return err
}
