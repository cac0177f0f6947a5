package zkserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// patience bounds every wait of a test.
const patience = 20 * time.Second

// start starts a server that ends with the test. Nil values of cfg are those of
// a server in memory on a free port.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := startServer(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func startServer(t testing.TB, cfg Config) (*Server, error) {
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { stop(t, s) })
	return s, nil
}

func stop(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	failed := s.Err()
	if err := s.Close(ctx); err != nil && failed == nil {
		t.Errorf("close: %v", err)
	}
}

// client speaks the protocol by hand.
type client struct {
	t        testing.TB
	conn     net.Conn
	id       int64
	timeout  time.Duration
	password []byte
	xid      int32
	events   []event // that came before the last answer
}

// reply is an answer.
type reply struct {
	xid  int32
	zxid int64
	code code
	body []byte
}

// open begins a session of ten seconds.
func open(t testing.TB, s *Server) *client {
	t.Helper()
	return join(t, s, &client{timeout: 10 * time.Second})
}

// join makes a connection for the session of another client.
func join(t testing.TB, s *Server, from *client) *client {
	t.Helper()
	c, err := tryJoin(t, s, from)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryJoin is join for when the connection may be dropped at once.
func tryJoin(t testing.TB, s *Server, from *client) (*client, error) {
	c := &client{t: t}
	var err error
	if c.conn, err = net.Dial("tcp", s.Addr().String()); err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.conn.Close() })
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	b := appendInt64(appendInt32(make([]byte, 4), int32(0)), 0)
	b = appendInt32(b, int32(from.timeout.Milliseconds()))
	b = appendBool(appendBuffer(appendInt64(b, from.id), from.password), false)
	if _, err := c.conn.Write(endFrame(b)); err != nil {
		return nil, err
	}
	frame, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	d := decoder{b: frame}
	d.int32()
	c.timeout, c.id, c.password = time.Duration(d.int32())*time.Millisecond, d.int64(), d.buffer()
	if d.bool(); d.err != nil || len(c.password) != passwordBytes {
		return nil, fmt.Errorf("answer to the handshake: %x", frame)
	}
	return c, nil
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(op opcode, body []byte) {
	c.t.Helper()
	c.xid++
	b := appendInt32(appendInt32(make([]byte, 4), c.xid), op)
	c.write(endFrame(append(b, body...)))
}

func (c *client) readFrame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, b)
	return b, err
}

// read reads an answer or an event.
func (c *client) read() (reply, error) {
	b, err := c.readFrame()
	if err != nil {
		return reply{}, err
	}
	d := decoder{b: b}
	r := reply{xid: d.int32(), zxid: d.int64(), code: code(d.int32())}
	r.body = d.b
	return r, d.err
}

// receive reads up to the next answer, and keeps the events before it.
func (c *client) receive() reply {
	c.t.Helper()
	c.events = nil
	for {
		r, err := c.read()
		if err != nil {
			c.t.Fatal(err)
		}
		if r.xid != xidEvent {
			return r
		}
		c.events = append(c.events, decodeEvent(r.body))
	}
}

func decodeEvent(b []byte) event {
	d := decoder{b: b}
	kind := eventType(d.int32())
	d.int32()
	return event{kind, d.string()}
}

func (c *client) call(op opcode, body []byte) reply {
	c.t.Helper()
	c.send(op, body)
	r := c.receive()
	want := c.xid
	if op == opPing {
		want = xidPing
	}
	if r.xid != want {
		c.t.Fatalf("%v: answer to %d, not to %d", op, r.xid, want)
	}
	return r
}

// must is a call that succeeds.
func (c *client) must(op opcode, body []byte) reply {
	c.t.Helper()
	return c.fails(codeOK, op, body)
}

// fails is a call that is answered with an error.
func (c *client) fails(want code, op opcode, body []byte) reply {
	c.t.Helper()
	r := c.call(op, body)
	if r.code != want {
		c.t.Fatalf("%v: code %d, want %d", op, r.code, want)
	}
	return r
}

// ended waits until the server has closed the connection.
func (c *client) ended() {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				c.t.Fatal("the connection is open")
			}
			return
		}
	}
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	switch r := c.call(opExists, pathWatch(path, false)); r.code {
	case codeOK:
		return true
	case codeNoNode:
		return false
	default:
		c.t.Fatalf("exists %q: code %d", path, r.code)
		return false
	}
}

// Bodies of requests.

func createBody(path, data string, mode createMode) []byte {
	return appendInt32(appendACLs(appendBuffer(appendString(nil, path), []byte(data)), openACL), mode)
}

func setBody(path, data string, version int32) []byte {
	return appendInt32(appendBuffer(appendString(nil, path), []byte(data)), version)
}

func pathVersion(path string, version int32) []byte {
	return appendInt32(appendString(nil, path), version)
}

func pathWatch(path string, watch bool) []byte { return appendBool(appendString(nil, path), watch) }

// multiOp is an operation of a multi.
type multiOp struct {
	op   opcode
	body []byte
}

func multiBody(ops ...multiOp) []byte {
	var b []byte
	for _, o := range ops {
		b = append(appendMultiHeader(b, o.op, false, -1), o.body...)
	}
	return appendMultiHeader(b, opError, true, -1)
}

// eventually waits until what it asks for holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

func number(i int) string { return fmt.Sprintf("/n%04d", i) }
