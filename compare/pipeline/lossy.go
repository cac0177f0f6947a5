package pipeline

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// lossy stands between a front end and the balancer and passes on what it is
// given, until it is told to leave one message set out: the next Produce request
// of the topic never gets to a broker. The front end has marked its messages as
// made and counted them, awaits no answer and notices nothing: they are lost as in
// a switch that drops them.
type lossy struct {
	listener net.Listener
	to       string
	armed    atomic.Bool
	dropped  atomic.Int64 // messages
	fail     func(error)  // told what went wrong with a connection

	ctx      context.Context // ends with close
	end      context.CancelFunc
	mu       sync.Mutex
	open     map[net.Conn]bool
	handlers sync.WaitGroup
}

// maxFrame bounds a request that is passed on: no broker takes a larger one.
const maxFrame = 128 << 20

// startLossy listens on this host for connections to an address.
func startLossy(to string, fail func(error)) (*lossy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &lossy{listener: listener, to: to, fail: fail, open: map[net.Conn]bool{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.handlers.Go(l.accept)
	return l, nil
}

func (l *lossy) addr() string { return l.listener.Addr().String() }

func (l *lossy) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return // it was closed
		}
		if !l.keep(c) {
			return
		}
		l.handlers.Go(func() {
			defer l.drop(c)
			if err := l.serve(c); err != nil && l.ctx.Err() == nil {
				l.fail(fmt.Errorf("between a front end and the balancer: %w", err))
			}
		})
	}
}

// keep notes a connection that close is to end; false when that has been called.
func (l *lossy) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		_ = c.Close() // nothing was sent on it
		return false
	}
	l.open[c] = true
	return true
}

func (l *lossy) drop(c net.Conn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	_ = c.Close() // what it has carried was passed on
}

// serve passes on both ways until one end hangs up.
func (l *lossy) serve(c net.Conn) error {
	var d net.Dialer
	s, err := d.DialContext(l.ctx, "tcp", l.to)
	if err != nil {
		return nil // the front end sees that it is hung up on, and connects again
	}
	if !l.keep(s) {
		return nil
	}
	defer l.drop(s)
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(c, s)              // who hangs up first ends it
		_ = c.(*net.TCPConn).CloseWrite() // as above
	}()
	err = l.requests(c, s)
	_ = s.(*net.TCPConn).CloseWrite() // as above
	<-back
	return err
}

// requests passes on the front end's requests, each as a whole.
func (l *lossy) requests(from io.Reader, to io.Writer) error {
	in := bufio.NewReaderSize(from, 64<<10)
	out := bufio.NewWriterSize(to, 64<<10)
	var frame []byte
	for {
		var size [wire.SizeSize]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil // the front end has hung up
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return fmt.Errorf("a request of %d bytes: at most %d are passed on", n, maxFrame)
		}
		if int(n) > cap(frame) {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(in, frame); err != nil {
			return nil // as above
		}
		if l.leaveOut(frame) {
			continue
		}
		if _, err := out.Write(size[:]); err != nil {
			return nil // the balancer has hung up: the front end will see it
		}
		_, err := out.Write(frame)
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return nil // as above
		}
	}
}

// leaveOut says whether a request is the one to be left out, and counts its
// messages.
func (l *lossy) leaveOut(frame []byte) bool {
	if !l.armed.Load() {
		return false
	}
	t, body, err := wire.SplitRequest(frame)
	if err != nil || t != wire.TypeProduce {
		return false
	}
	p, err := wire.ParseProduce(body)
	if err != nil || string(p.Topic) != topic || !l.armed.CompareAndSwap(true, false) {
		return false
	}
	messages := int64(0)
	it := message.Set(p.Set).Iterate(0)
	for it.Next() {
		messages++
	}
	if err := it.Err(); err != nil {
		l.fail(fmt.Errorf("the message set to be left out: %w", err))
	}
	l.dropped.Add(messages)
	return true
}

// close ends all connections and waits for what serves them.
func (l *lossy) close() error {
	l.mu.Lock()
	l.end()
	errs := []error{l.listener.Close()}
	for c := range l.open {
		_ = c.Close() // nothing is to come on it any more
	}
	l.mu.Unlock()
	l.handlers.Wait()
	return errors.Join(errs...)
}
