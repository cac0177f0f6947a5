package activemq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
)

const (
	// sendAhead is how many frames may wait for the library's writer.
	sendAhead = 1000
	// roomForClose is what the library's queue holds beyond that, for the
	// frame that ends the connection.
	roomForClose = 8
	// callGrace is how long a call may go on after its context has ended.
	callGrace = 2 * time.Second
	// closeGrace is how long the broker has to answer to a DISCONNECT.
	closeGrace = 2 * time.Second
	// endGrace is how long the library has to notice that a connection ended.
	endGrace = time.Second
	// receiptTimeout bounds the library's wait for a receipt. It is long, since
	// a broker that pauses is not gone.
	receiptTimeout = 5 * time.Minute
)

var errClosed = errors.New("the client is closed")

// link is one STOMP connection.
type link struct {
	addr string
	sock *socket
	conn *stomp.Conn

	mu      sync.Mutex
	sub     *stomp.Subscription // nil: none
	closing bool
	once    sync.Once
}

// dial opens a connection, which either sends or has a subscription.
func dial(ctx context.Context, addr string, coalesced, sender bool) (*link, error) {
	sock, err := dialSocket(ctx, addr, coalesced, sender)
	if err != nil {
		return nil, fmt.Errorf("activemq: %w", err)
	}
	options := []func(*stomp.Conn) error{
		stomp.ConnOpt.AcceptVersion(stomp.V12),
		stomp.ConnOpt.Host("b"),
		// A pause of the consumer must not look like the end of the broker.
		stomp.ConnOpt.HeartBeat(0, 0),
		// Contexts bound the calls. A time-out of the library leaves its loop
		// waiting for one who does not listen any more, so those that must be
		// are longer than ours.
		stomp.ConnOpt.MsgSendTimeout(0),
		stomp.ConnOpt.RcvReceiptTimeout(receiptTimeout),
		stomp.ConnOpt.DisconnectReceiptTimeout(closeGrace + endGrace),
		stomp.ConnOpt.ReadChannelCapacity(sendAhead),
		stomp.ConnOpt.WriteChannelCapacity(sendAhead + roomForClose),
		stomp.ConnOpt.Logger(silent{}),
	}
	if coalesced {
		options = append(options, stomp.ConnOpt.ReadBufferSize(64<<10))
	}
	stop := context.AfterFunc(ctx, sock.abort)
	conn, err := stomp.Connect(sock, options...)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		err = sock.because(err)
		sock.abort()
		// The writing goroutine is waited for.
		_ = sock.Close()
		return nil, fmt.Errorf("activemq %s: opening the connection: %w", addr, errors.Join(ctx.Err(), err))
	}
	return &link{addr: addr, sock: sock, conn: conn}, nil
}

// silent drops the library's log: what it says comes as errors too.
type silent struct{}

func (silent) Debugf(string, ...any)   {}
func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}
func (silent) Errorf(string, ...any)   {}
func (silent) Debug(string)            {}
func (silent) Info(string)             {}
func (silent) Warning(string)          {}
func (silent) Error(string)            {}

// room waits until a frame can be handed to the library without blocking
// there. Only one goroutine may send.
func (l *link) room(ctx context.Context) error {
	if err := l.sock.because(nil); err != nil {
		return err
	}
	if l.conn.Stats().CurrentWriteChanSize < sendAhead {
		return nil
	}
	// Half of it, so as not to be woken for every frame.
	for l.conn.Stats().CurrentWriteChanSize > sendAhead/2 {
		select {
		case <-l.sock.wrote:
		case <-l.sock.ended:
			return l.sock.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// await runs a call of the library that waits for the broker. It returns with
// the connection's end too: a call that reaches the library when its loop has
// ended is never answered there, and ends with receiptTimeout only.
func (l *link) await(call func() error) error {
	if err := l.sock.because(nil); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return l.sock.because(err)
	case <-l.sock.ended:
	}
	// An answer may have come before.
	select {
	case err := <-done:
		return l.sock.because(err)
	case <-time.After(endGrace):
		return l.sock.err
	}
}

// subscribe subscribes to a destination. A link has one subscription.
func (l *link) subscribe(destination string, ack stomp.AckMode, headers ...func(*frame.Frame) error) (*stomp.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, errClosed
	}
	sub, err := l.conn.Subscribe(destination, ack, headers...)
	if err != nil {
		return nil, l.sock.because(err)
	}
	l.sub = sub
	return sub, nil
}

// next waits for a message of the subscription.
func (l *link) next(ctx context.Context, sub *stomp.Subscription) (*stomp.Message, error) {
	ended, late := l.sock.ended, (<-chan time.Time)(nil)
	for {
		select {
		case m, ok := <-sub.C:
			if !ok {
				return nil, l.sock.because(errClosed)
			}
			if m.Err != nil {
				return nil, l.sock.because(m.Err)
			}
			return m, nil
		case <-ended:
			// The library has some messages still, and then closes the channel,
			// unless it ended before it had seen the subscription.
			ended, late = nil, time.After(endGrace)
		case <-late:
			return nil, l.sock.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// close ends the connection within closeGrace and some time for the socket,
// whether or not the broker answers.
func (l *link) close(ctx context.Context) (err error) {
	l.once.Do(func() { err = l.disconnect(ctx) })
	return err
}

func (l *link) disconnect(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	l.mu.Lock()
	l.closing = true
	var messages chan *stomp.Message
	if l.sub != nil {
		messages = l.sub.C
	}
	l.mu.Unlock()

	var done chan error
	if l.sock.because(nil) == nil { // else the library is ending already
		disconnected := make(chan error, 1)
		go func() { disconnected <- l.conn.Disconnect() }()
		done = disconnected
	}
	giveUp, late := ctx.Done(), (<-chan time.Time)(nil)
	// The messages must be drained, or the library's goroutines hold each other.
	for done != nil || messages != nil {
		select {
		case _, ok := <-messages:
			if !ok {
				messages = nil
			}
		case <-done:
			// That the connection had ended before was reported then.
			done = nil
			late = time.After(endGrace)
		case <-giveUp:
			giveUp = nil
			if done != nil {
				err = fmt.Errorf("activemq %s: the broker did not answer to DISCONNECT within %v; the connection was given up", l.addr, closeGrace)
			}
			l.sock.abort()
			late = time.After(endGrace)
		case <-late:
			done, messages = nil, nil
		}
	}
	if closeErr := l.sock.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("activemq %s: %w", l.addr, closeErr))
	}
	return err
}
