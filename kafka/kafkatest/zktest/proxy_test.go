package zktest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest"
)

// echo is a server that sends back what it gets, and ends when its client does.
func echo(t *testing.T) string {
	return kafkatest.Peer(t, func(c net.Conn) {
		_, _ = io.Copy(c, c) // a test breaks it
	})
}

func echoProxy(t *testing.T) *Proxy {
	t.Helper()
	p, err := newProxy(echo(t), newLedger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := io.WriteString(c, what); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, what string) {
	t.Helper()
	b := make([]byte, len(what))
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil || string(b) != what {
		t.Fatalf("heard %q, %v; want %q", b, err, what)
	}
}

// silent says that nothing comes for a while, and no end either.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v", n, err)
	}
}

func heardEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !broken(err) {
		t.Fatalf("read %d bytes, %v; want the end", n, err)
	}
}

func TestProxyCut(t *testing.T) {
	p := echoProxy(t)
	c := dial(t, p.Addr())
	say(t, c, "hello")
	hear(t, c, "hello")
	for range 3 {
		if err := p.Cut(); err != nil {
			t.Fatal(err)
		}
		heardEnd(t, c)
		if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial while it is cut: %v", err)
		}
		if err := p.Mend(); err != nil {
			t.Fatal(err)
		}
		c = dial(t, p.Addr())
		say(t, c, "again")
		hear(t, c, "again")
	}
}

func TestProxyDropsConnections(t *testing.T) {
	p := echoProxy(t)
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	say(t, a, "a")
	hear(t, a, "a")
	say(t, b, "b")
	hear(t, b, "b")
	p.DropConnections()
	heardEnd(t, a)
	heardEnd(t, b)
	c := dial(t, p.Addr())
	say(t, c, "c")
	hear(t, c, "c")
}

func TestProxyFreeze(t *testing.T) {
	p := echoProxy(t)
	old := dial(t, p.Addr())
	say(t, old, "1")
	hear(t, old, "1")
	p.Freeze()
	say(t, old, "2")
	silent(t, old)
	fresh := dial(t, p.Addr())
	say(t, fresh, "3")
	silent(t, fresh)
	if err := p.Mend(); err != nil {
		t.Fatal(err)
	}
	hear(t, old, "2")
	hear(t, fresh, "3")
}

// What is frozen is lost when its connection breaks.
func TestProxyFreezeAnswersAndDrop(t *testing.T) {
	p := echoProxy(t)
	c := dial(t, p.Addr())
	p.FreezeAnswers()
	say(t, c, "request")
	silent(t, c)
	p.DropConnections()
	if err := p.Mend(); err != nil {
		t.Fatal(err)
	}
	heardEnd(t, c)
}

func TestProxyDelay(t *testing.T) {
	p := echoProxy(t)
	c := dial(t, p.Addr())
	const d = 30 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	say(t, c, "late")
	hear(t, c, "late")
	if took := time.Since(start); took < 2*d {
		t.Errorf("there and back in %v, with %v each way", took, d)
	}
	if err := p.Mend(); err != nil {
		t.Fatal(err)
	}
	say(t, c, "soon")
	hear(t, c, "soon")
}

// The end of one direction passes, and the other goes on.
func TestProxyHalfClose(t *testing.T) {
	p := echoProxy(t)
	c := dial(t, p.Addr())
	say(t, c, "last words")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hear(t, c, "last words")
	heardEnd(t, c)
	eventually(t, "the proxy forgets the connection", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.links) == 0
	})
}

// A proxy ends also while connections hang in it, and more than once.
func TestProxyCloseWhileFrozen(t *testing.T) {
	p := echoProxy(t)
	a := dial(t, p.Addr())
	say(t, a, "1")
	hear(t, a, "1")
	p.Freeze()
	say(t, a, "2")
	b := dial(t, p.Addr())
	say(t, b, "3")
	eventually(t, "both are in the proxy", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.links) == 2
	})
	for range 2 {
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
	}
	heardEnd(t, a)
	heardEnd(t, b)
}

// A connection to a server that is not there ends.
func TestProxyOfNobody(t *testing.T) {
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProxy(addr, newLedger())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		heardEnd(t, c)
		c.Close()
	} else if !broken(err) {
		t.Error(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
}
