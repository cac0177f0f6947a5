package activemq_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"kafkalab/compare/activemq"
	"kafkalab/harness/driver"
)

// fakeBroker accepts two connections. The first is the one of questions, and is
// told of no queue; the second is given to serve after its CONNECT.
func fakeBroker(t *testing.T, serve func(c net.Conn, r *frame.Reader, w *frame.Writer)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, w := frame.NewReader(c), frame.NewWriter(c)
			if _, err := r.Read(); err != nil {
				t.Error(err)
			}
			if err := w.Write(frame.New(frame.CONNECTED, frame.Version, "1.2", frame.HeartBeat, "0,0")); err != nil {
				t.Error(err)
			}
			serve := serve
			if i == 0 {
				serve = func(_ net.Conn, r *frame.Reader, w *frame.Writer) { answerNothing(r, w) }
			}
			wg.Go(func() {
				serve(c, r, w)
				c.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// answerNothing gives receipts, and to each question the empty answer.
func answerNothing(r *frame.Reader, w *frame.Writer) {
	subscription := ""
	for {
		f, err := r.Read()
		if err != nil {
			return
		}
		if f == nil {
			continue
		}
		if f.Command == frame.SUBSCRIBE {
			subscription = f.Header.Get(frame.Id)
		}
		if id := f.Header.Get("correlation-id"); id != "" {
			answer := frame.New(frame.MESSAGE, frame.Subscription, subscription, frame.MessageId, "1", frame.Destination, "/topic/x", "correlation-id", id)
			answer.Body = []byte("{}")
			err = w.Write(answer)
		}
		if receipt := f.Header.Get(frame.Receipt); err == nil && receipt != "" {
			err = w.Write(frame.New(frame.RECEIPT, frame.ReceiptId, receipt))
		}
		if err != nil {
			return
		}
	}
}

// readFrames reads n frames and answers those that ask for a receipt.
func readFrames(r *frame.Reader, w *frame.Writer, n int) {
	for range n {
		f, err := r.Read()
		if err != nil {
			return
		}
		if f != nil && f.Header.Get(frame.Receipt) != "" {
			if err := w.Write(frame.New(frame.RECEIPT, frame.ReceiptId, f.Header.Get(frame.Receipt))); err != nil {
				return
			}
		}
	}
}

// waitStill waits until a count has not moved in many looks at it.
func waitStill(n *atomic.Int64) {
	last, same := n.Load(), 0
	for same < 40 {
		time.Sleep(5 * time.Millisecond)
		if now := n.Load(); now != last {
			last, same = now, 0
			continue
		}
		same++
	}
}

// TestB25BrokerEndsConnection: a broker that ends the connection in the middle of
// sending is reported at once, with what it said, and nothing hangs: neither Send,
// which the library blocks while its queue is full, nor Close (fault B25).
func TestB25BrokerEndsConnection(t *testing.T) {
	var sent atomic.Int64 // what Send has taken in the running case
	for _, test := range []struct {
		name  string
		want  string
		serve func(c net.Conn, r *frame.Reader, w *frame.Writer)
	}{
		{"closes", "", func(c net.Conn, r *frame.Reader, w *frame.Writer) {
			readFrames(r, w, 2000)
		}},
		{"closes in good order", "the broker closed the connection", func(c net.Conn, r *frame.Reader, w *frame.Writer) {
			readFrames(r, w, 2000)
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, c)
		}},
		{"reports an error", "no space in the store", func(c net.Conn, r *frame.Reader, w *frame.Writer) {
			readFrames(r, w, 2000)
			if err := w.Write(frame.New(frame.RECEIPT, frame.ReceiptId, "none")); err != nil {
				t.Error(err)
			}
			if err := w.Write(frame.New(frame.ERROR, frame.Message, "no space in the store")); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, c)
		}},
		{"stops reading, then closes", "", func(c net.Conn, r *frame.Reader, w *frame.Writer) {
			readFrames(r, w, 10)
			waitStill(&sent) // until all buffers are full
		}},
	} {
		for _, o := range []driver.Options{{}, {"socket": "plain"}, {"receipt": "every"}, {"receipt": "bulk", "window": "100000"}} {
			t.Run(test.name+"/"+o["socket"]+o["receipt"], func(t *testing.T) {
				addr := fakeBroker(t, test.serve)
				c, err := activemq.New().Connect(t.Context(), driver.Target{Addr: addr}, o)
				if err != nil {
					t.Fatal(err)
				}
				p, err := c.Producer(t.Context(), "q")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				sent.Store(0)
				for err = nil; err == nil; sent.Add(1) {
					err = p.Send(ctx, make([]byte, 1000))
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Send goes on until its deadline: %v", err)
				}
				if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "not confirmed") {
					t.Errorf("Send: %v", err)
				}
				if err := p.Flush(ctx); err == nil {
					t.Error("Flush after the end succeeds")
				}
				closed := make(chan error, 1)
				go func() { closed <- c.Close(t.Context()) }()
				select {
				case err := <-closed: // may add what was not written
					t.Logf("Close: %v", err)
				case <-time.After(30 * time.Second):
					t.Fatal("Close hangs")
				}
			})
		}
	}
}

// A broker that gives a receipt twice cannot be believed: what it has promised
// stays, and sending ends.
func TestReceiptTwice(t *testing.T) {
	addr := fakeBroker(t, func(_ net.Conn, r *frame.Reader, w *frame.Writer) {
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			if f == nil || f.Header.Get(frame.Receipt) == "" {
				continue
			}
			for range 2 {
				if err := w.Write(frame.New(frame.RECEIPT, frame.ReceiptId, f.Header.Get(frame.Receipt))); err != nil {
					return
				}
			}
		}
	})
	c, err := activemq.New().Connect(t.Context(), driver.Target{Addr: addr}, driver.Options{"receipt": "bulk", "window": "40"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err == nil {
		err = p.Send(ctx, make([]byte, 100))
	}
	if !strings.Contains(err.Error(), `RECEIPT "10" where a receipt for more than 10 messages was due`) {
		t.Errorf("Send: %v", err)
	}
	if n := p.(driver.Promiser).Promised(); n != 10 {
		t.Errorf("%d messages are promised, wanted 10", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Logf("Close: %v", err) // may add what was not written
	}
}
