package coalesce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gated is a connection whose writes wait for permission, and are counted.
type gated struct {
	net.Conn
	allow  chan struct{}
	mu     sync.Mutex
	writes [][]byte
	err    error
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.allow
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	g.writes = append(g.writes, bytes.Clone(p))
	return len(p), nil
}

// newGated returns a connection over a pipe that nobody reads.
func newGated(t *testing.T) *gated {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return &gated{Conn: a, allow: make(chan struct{}, 100)}
}

func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { server.Close() })
	return client, server
}

// deadline returns a context that ends before the test does.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// What gathers while a write is under way goes out with one write.
func TestGathers(t *testing.T) {
	g := newGated(t)
	c := New(g)
	if _, err := c.Write([]byte("first ")); err != nil {
		t.Fatal(err)
	}
	// The writing goroutine has taken it when nothing is pending any more.
	for c.mu.Lock(); len(c.pending) > 0; c.mu.Lock() {
		c.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	c.mu.Unlock()
	for _, s := range []string{"a", "b", "c"} {
		if n, err := c.Write([]byte(s)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if taken, unwritten := c.Unwritten(); taken != 9 || unwritten != 9 {
		t.Errorf("taken %d, unwritten %d, wanted 9 and 9", taken, unwritten)
	}
	g.allow <- struct{}{}
	g.allow <- struct{}{}
	if err := c.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if taken, unwritten := c.Unwritten(); taken != 9 || unwritten != 0 {
		t.Errorf("taken %d, unwritten %d, wanted 9 and 0", taken, unwritten)
	}
	if len(g.writes) != 2 || string(g.writes[0]) != "first " || string(g.writes[1]) != "abc" {
		t.Errorf("writes %q", g.writes)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// All bytes arrive, in order, from writers of all sizes, and Close flushes.
func TestOrder(t *testing.T) {
	client, server := tcpPair(t)
	c := New(client)
	got := make(chan []byte, 1)
	go func() {
		b, err := io.ReadAll(server)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	var want bytes.Buffer
	for i := range 3000 {
		p := bytes.Repeat([]byte{byte(i)}, i%700)
		if i == 1500 {
			p = bytes.Repeat([]byte("large"), BufferBytes) // more than fits
		}
		want.Write(p)
		if n, err := c.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, want.Bytes()) {
		t.Errorf("%d bytes arrived, wanted %d", len(b), want.Len())
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// The buffer is bounded: a writer waits while the socket takes nothing, Flush
// ends with its context, and Abort ends both.
func TestFull(t *testing.T) {
	g := newGated(t)
	c := New(g)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, 3*BufferBytes))
		wrote <- err
	}()
	for taken := int64(0); taken < 2*BufferBytes; taken, _ = c.Unwritten() {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	flushed := make(chan error, 1)
	go func() { flushed <- c.Flush(ctx) }()
	cancel()
	if err := <-flushed; !errors.Is(err, context.Canceled) {
		t.Errorf("Flush: %v", err)
	}
	if taken, unwritten := c.Unwritten(); taken != 2*BufferBytes || unwritten != taken {
		t.Errorf("taken %d, unwritten %d, wanted both buffers and no more", taken, unwritten)
	}
	select {
	case err := <-wrote:
		t.Errorf("Write returned: %v", err)
	default:
	}
	c.Abort()
	if err := <-wrote; !errors.Is(err, ErrAborted) {
		t.Errorf("Write after Abort: %v", err)
	}
	if err := c.Flush(deadline(t)); !errors.Is(err, ErrAborted) {
		t.Errorf("Flush after Abort: %v", err)
	}
	close(g.allow) // the write that was under way ends
	if err := c.Close(); err != nil {
		t.Errorf("Close after Abort: %v", err)
	}
}

// The first error of the socket stays, and Close says what was lost.
func TestStickyError(t *testing.T) {
	g := newGated(t)
	broken := errors.New("broken")
	g.err = broken
	c := New(g)
	if _, err := c.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	close(g.allow)
	if err := c.Flush(deadline(t)); !errors.Is(err, broken) {
		t.Errorf("Flush: %v", err)
	}
	for range 2 {
		if _, err := c.Write([]byte("x")); !errors.Is(err, broken) {
			t.Errorf("Write: %v", err)
		}
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, broken) {
		t.Errorf("Read: %v", err)
	}
	for range 2 {
		if err := c.Close(); !errors.Is(err, broken) || err.Error() != "4 bytes were not written: broken" {
			t.Errorf("Close: %v", err)
		}
	}
}

// Close is bounded when the peer does not read.
func TestCloseBounded(t *testing.T) {
	client, server := tcpPair(t)
	c := New(client)
	if err := server.(*net.TCPConn).SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = c.Write(make([]byte, 64<<20)) // until Close
	}()
	for taken := int64(0); taken < BufferBytes; taken, _ = c.Unwritten() {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case <-closed: // with or without loss, as the system's own buffers had room
	case <-time.After(30 * time.Second):
		t.Fatal("Close does not return")
	}
}

// Reads and deadlines pass through.
func TestRead(t *testing.T) {
	client, server := tcpPair(t)
	c := New(client)
	defer c.Close()
	if _, err := server.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatal(string(b), err)
	}
	if err := c.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := c.Read(b); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("Read after its deadline: %v", err)
	}
}
