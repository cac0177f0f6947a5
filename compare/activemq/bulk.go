package activemq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"kafkalab/compare/internal/interrupt"
)

// bulkProducer sends with receipts that come later, up to a window: what
// ActiveMQ's own client does with asynchronous sends in a producer window. The
// library lets a connection have one receipt outstanding, so that this one has
// its own framing. It asks for a receipt with every few messages: the broker
// handles the frames of a connection in their order.
type bulkProducer struct {
	c           *client
	queue       string
	destination string
	sock        *socket
	watch       *interrupt.Watch

	// Of Send and Flush:
	frame []byte // the one that is being made
	sent  int64
	asked int64 // of them, covered by a receipt that was asked for

	promised atomic.Int64  // covered by a receipt that has come
	moved    chan struct{} // promised has grown since the last look
	bye      chan struct{} // closed with the receipt of the DISCONNECT
	reader   sync.WaitGroup
	once     sync.Once
}

// goodbye is the receipt of a DISCONNECT; the others are numbers of messages.
const goodbye = "bye"

// bulk opens a connection with its own framing.
func (c *client) bulk(ctx context.Context, queue, destination string) (*bulkProducer, error) {
	sock, err := dialSocket(ctx, c.addr, c.opt.coalesced, true)
	if err != nil {
		return nil, fmt.Errorf("activemq: %w", err)
	}
	p := &bulkProducer{
		c: c, queue: queue, destination: destination, sock: sock, watch: interrupt.NewWatch(callGrace, sock.abort),
		moved: make(chan struct{}, 1), bye: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, sock.abort)
	in, err := p.connect()
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil {
		p.reader.Go(func() { p.read(in) })
		if err = c.keep(p, p.watch); err == nil {
			return p, nil
		}
	}
	err = sock.because(err)
	sock.abort()
	// The writing goroutine is waited for.
	_ = sock.Close()
	p.reader.Wait()
	p.watch.Close()
	return nil, fmt.Errorf("activemq %s: opening the connection: %w", c.addr, errors.Join(ctx.Err(), err))
}

func (p *bulkProducer) connect() (*frame.Reader, error) {
	if _, err := p.sock.Write([]byte("CONNECT\naccept-version:1.2\nhost:b\nheart-beat:0,0\n\n\x00")); err != nil {
		return nil, err
	}
	in := frame.NewReader(bufio.NewReader(p.sock))
	f, err := in.Read()
	for ; err == nil && f == nil; f, err = in.Read() { // a line end between frames
	}
	if err == nil && f.Command != frame.CONNECTED {
		err = fmt.Errorf("%s in answer to CONNECT", f.Command)
	}
	return in, err
}

// read takes receipts until the connection ends.
func (p *bulkProducer) read(in *frame.Reader) {
	for {
		f, err := in.Read()
		if err != nil {
			p.sock.end(err) // if Read of the socket has not done so
			return
		}
		if f == nil {
			continue
		}
		id := f.Header.Get(frame.ReceiptId)
		if f.Command == frame.RECEIPT && id == goodbye {
			close(p.bye)
			return
		}
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			continue // no answer to anything that was asked
		}
		if f.Command != frame.RECEIPT || n <= p.promised.Load() {
			p.sock.end(fmt.Errorf("the broker sent %s %q where a receipt for more than %d messages was due", f.Command, id, p.promised.Load()))
			_ = p.sock.raw.Close()
			return
		}
		p.promised.Store(n)
		select {
		case p.moved <- struct{}{}:
		default:
		}
	}
}

// Send sends one message, and waits while as many as the window has are
// without a receipt.
func (p *bulkProducer) Send(ctx context.Context, payload []byte) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "sending", err)
	}
	defer p.watch.End()
	if err := p.reserve(ctx, int64(p.c.opt.window)-1); err != nil {
		return p.fail(ctx, "sending", err)
	}
	p.sent++
	receipt := p.sent-p.asked >= int64(p.c.opt.receiptEvery)
	p.write(p.destination, "persistent:true\n", receipt, payload)
	// A socket swallows what is written after its end.
	if err := p.sock.because(nil); err != nil {
		return p.fail(ctx, "sending", err)
	}
	return nil
}

// write sends a frame, with a receipt that covers all that was sent so far or
// without one.
func (p *bulkProducer) write(destination, header string, receipt bool, body []byte) {
	b := append(p.frame[:0], "SEND\ndestination:"...)
	b = append(append(b, destination...), '\n')
	b = append(b, header...)
	if receipt {
		p.asked = p.sent
		b = append(strconv.AppendInt(append(b, "receipt:"...), p.sent, 10), '\n')
	}
	b = append(strconv.AppendInt(append(b, "content-length:"...), int64(len(body)), 10), "\n\n"...)
	p.frame = append(append(b, body...), 0)
	_, _ = p.sock.Write(p.frame) // never fails
}

// reserve waits until at most most messages are without a receipt.
func (p *bulkProducer) reserve(ctx context.Context, most int64) error {
	for p.sent-p.promised.Load() > most {
		select {
		case <-p.moved:
		case <-p.sock.ended:
			return p.sock.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.sock.because(nil)
}

// Flush returns when there is a receipt for all messages, or for a frame that
// was sent after them.
func (p *bulkProducer) Flush(ctx context.Context) error {
	if err := p.watch.Begin(ctx); err != nil {
		return p.fail(ctx, "flushing", err)
	}
	defer p.watch.End()
	if p.asked < p.sent {
		p.write(barrier, "", true, nil)
	}
	if err := p.reserve(ctx, 0); err != nil {
		return p.fail(ctx, "waiting for receipts", err)
	}
	return nil
}

// Promised returns how many messages, from the first on, a receipt has come
// for. It may be called at any time.
func (p *bulkProducer) Promised() int64 { return p.promised.Load() }

func (p *bulkProducer) fail(ctx context.Context, what string, err error) error {
	err = p.sock.because(err)
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = errors.Join(ctxErr, err)
	}
	return fmt.Errorf("activemq %s: queue %s: %s: %w (%d messages handed over, %d of them not confirmed)",
		p.c.addr, p.queue, what, err, p.sent, p.sent-p.promised.Load())
}

// close ends the connection within closeGrace and the time that the socket
// needs, whether or not the broker answers.
func (p *bulkProducer) close(ctx context.Context) (err error) {
	p.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, closeGrace)
		defer cancel()
		stop := context.AfterFunc(ctx, p.sock.abort)
		if p.sock.because(nil) == nil {
			_, _ = p.sock.Write([]byte("DISCONNECT\nreceipt:" + goodbye + "\n\n\x00")) // never fails
			select {
			case <-p.bye:
			case <-p.sock.ended:
				if ctx.Err() != nil {
					err = fmt.Errorf("activemq %s: the broker did not answer to DISCONNECT within %v; the connection was given up", p.c.addr, closeGrace)
				}
			}
		}
		stop()
		if closeErr := p.sock.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("activemq %s: %w", p.c.addr, closeErr))
		}
		done := make(chan struct{})
		go func() { defer close(done); p.reader.Wait() }()
		select {
		case <-done:
		case <-time.After(endGrace):
			p.sock.abort()
			<-done
		}
	})
	return err
}
