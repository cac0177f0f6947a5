package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/streadway/amqp"

	"kafkalab/compare/internal/coalesce"
)

const (
	// heartbeat is longer than the library's 10 s, so that a client that gets
	// no processor for a while does not lose its connection.
	heartbeat = 60 * time.Second
	// callGrace is how long a call may go on after its context has ended.
	callGrace = 2 * time.Second
	// closeGrace is how long the server has to answer to a close. One that has
	// blocked the connection does not read it.
	closeGrace = 2 * time.Second
	// comeBack is how long the leader of a stream may take to be there after a
	// start of the server, and awaitEvery how often it is asked for.
	comeBack   = 30 * time.Second
	awaitEvery = 100 * time.Millisecond
	// maxReasons bounds what is kept of connection.blocked.
	maxReasons = 100
)

// link is one AMQP connection.
type link struct {
	addr string
	conn *amqp.Connection
	gate *gate
	// sock is set when writes are gathered.
	sock *coalesce.Conn
	raw  net.Conn

	closed  *reason
	closing sync.Once
	wg      sync.WaitGroup // of the goroutines that listen to the library
}

// dial opens a connection. blocked is called with each connection.blocked.
func dial(ctx context.Context, addr string, coalesced bool, blocked func(reason string)) (*link, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("rabbitmq: %w", err)
	}
	l := &link{addr: addr, raw: raw}
	var sock net.Conn = raw
	if coalesced {
		l.sock = coalesce.New(raw)
		sock = l.sock
	}
	l.gate = newGate(sock, maxAhead)
	stop := context.AfterFunc(ctx, l.abort)
	l.conn, err = amqp.Open(l.gate, amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}},
		Vhost:     "/",
		Heartbeat: heartbeat,
		Locale:    "en_US",
	})
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		// Ends the library's goroutines too: they see the socket closed.
		l.abort()
		_ = l.gate.Close()
		return nil, fmt.Errorf("rabbitmq %s: opening the connection: %w", addr, err)
	}
	l.closed = l.follow(l.conn.NotifyClose(make(chan *amqp.Error, 1)))
	notices := l.conn.NotifyBlocked(make(chan amqp.Blocking))
	l.wg.Go(func() {
		// Ends when the library closes the channel, with the connection. It must
		// be drained: the library's reader waits for it.
		for b := range notices {
			if b.Active {
				blocked(b.Reason)
			}
		}
	})
	return l, nil
}

// abort ends the connection at once, so that every call on it returns.
func (l *link) abort() {
	l.gate.open()
	if l.sock != nil {
		l.sock.Abort()
	}
	// A second close is harmless.
	_ = l.raw.Close()
}

// flush returns when all that was written is with the operating system.
func (l *link) flush(ctx context.Context) error {
	if l.sock == nil {
		return nil
	}
	return l.sock.Flush(ctx)
}

// because adds to an error of the library why the connection ended, if it has
// and the server or the socket gave a reason.
func (l *link) because(err error) error {
	if err == nil || !l.conn.IsClosed() {
		return err
	}
	return l.closed.explain(err)
}

// reason is why a connection or a channel was closed by the other side.
type reason struct {
	known chan struct{} // closed when it has ended
	err   *amqp.Error   // nil: by us; set before known is closed
}

// follow returns the reason that will come from a NotifyClose channel of the
// connection or one of its channels.
func (l *link) follow(closes chan *amqp.Error) *reason {
	r := &reason{known: make(chan struct{})}
	l.wg.Go(func() {
		// The library sends at most one and always closes the channel, with the
		// connection at the latest.
		r.err = <-closes
		close(r.known)
	})
	return r
}

// explain adds the reason to err. The library hands it out a moment after the
// calls have failed.
func (r *reason) explain(err error) error {
	select {
	case <-r.known:
	case <-time.After(time.Second):
		return err
	}
	if r.err == nil || errors.Is(err, r.err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, r.err)
}

// close ends the connection within closeGrace and the time that the socket
// needs, whether or not the server answers.
func (l *link) close(ctx context.Context) (err error) {
	l.closing.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, closeGrace)
		defer cancel()
		l.gate.open()
		done := make(chan error, 1)
		go func() { done <- l.conn.Close() }()
		select {
		case err = <-done:
		case <-ctx.Done():
			l.abort()
			<-done
			err = fmt.Errorf("rabbitmq %s: the server did not answer to the close within %v; the connection was given up", l.addr, closeGrace)
		}
		if errors.Is(err, amqp.ErrClosed) {
			err = nil // it had ended before, which was reported then
		}
		l.wg.Wait()
	})
	return err
}
