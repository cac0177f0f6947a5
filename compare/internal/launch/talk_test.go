package launch

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// answer serves one connection: it reads a line, or a whole request of HTTP, and
// says what it is to say, without closing.
func answer(t *testing.T, say string, stay bool) (port int, heard <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n')
		for next := line; err == nil && strings.HasPrefix(line, "GET") && next != "\r\n"; {
			next, err = in.ReadString('\n')
		}
		if err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte(say)); err != nil {
			t.Error(err)
		}
		if stay {
			_, _ = c.Read(make([]byte, 1)) // until the peer has gone
		}
		got <- strings.TrimSpace(line)
	}()
	return l.Addr().(*net.TCPAddr).Port, got
}

func TestGet(t *testing.T) {
	h := openHost(t)
	for _, c := range []struct{ say, body, fault string }{
		{"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nline\nline*\n", "line\nline*\n", ""},
		{"HTTP/1.0 404 Not Found\r\n\r\nno", "", "404"},
		{"what\r\n", "", "/config"},
	} {
		port, heard := answer(t, c.say, false)
		body, err := Get(deadline(t, 30*time.Second), h, "127.0.0.1", port, "/config")
		if c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%q: %q, %v", c.say, body, err)
		}
		if c.fault == "" && (err != nil || string(body) != c.body) {
			t.Errorf("%q: %q, %v", c.say, body, err)
		}
		if got := <-heard; got != "GET /config HTTP/1.0" {
			t.Errorf("the server was asked %q", got)
		}
	}
}

func TestLines(t *testing.T) {
	h := openHost(t)
	port, heard := answer(t, "INFO {1}\r\nMSG x\r\n{\"a\": \"*\"}\r\nMSG y\r\n{2}\r\nmore\r\n", true)
	out, err := Lines(deadline(t, 30*time.Second), h, port, `SUB %% \r\n`, "{", 2)
	if want := "INFO {1}\r\nMSG x\r\n{\"a\": \"*\"}\r\nMSG y\r\n{2}\r\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v", out, err)
	}
	if got := <-heard; got != "SUB %" {
		t.Errorf("the server was sent %q", got)
	}
	port, _ = answer(t, "one\n", false)
	if out, err := Lines(deadline(t, 30*time.Second), h, port, `x\n`, "{", 1); err == nil || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("%q, %v", out, err)
	}
}
