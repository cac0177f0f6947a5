package zktest

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Runner{M: m}) }

// eventually waits until what it asks for holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// broken says whether a connection has ended for a reader.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// open makes a session of a long time-out that ends with the test.
func open(t *testing.T, addr string) *Conn {
	t.Helper()
	c, err := Open(addr, Session{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if c.Session.ID == 0 {
		t.Fatal("no session")
	}
	return c
}

func call(t *testing.T, c *Conn, op Op, body Fields) Answer {
	t.Helper()
	a, err := c.Call(op, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const ephemeral = 1

func create(t *testing.T, c *Conn, path, data string, flags int32) {
	t.Helper()
	if a := call(t, c, OpCreate, Fields{}.String(path).Buffer([]byte(data)).OpenACL().Int(flags)); a.Code != 0 {
		t.Fatalf("create %s: code %d", path, a.Code)
	}
}

func exists(t *testing.T, c *Conn, path string) bool {
	t.Helper()
	a := call(t, c, OpExists, Fields{}.String(path).Bool(false))
	if a.Code != 0 && a.Code != -101 {
		t.Fatalf("exists %s: code %d", path, a.Code)
	}
	return a.Code == 0
}

func get(t *testing.T, c *Conn, path string) string {
	t.Helper()
	a := call(t, c, OpGetData, Fields{}.String(path).Bool(false))
	if a.Code != 0 {
		t.Fatalf("get %s: code %d", path, a.Code)
	}
	return NewReader(a.Body).String()
}
