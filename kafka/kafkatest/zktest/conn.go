package zktest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// patience bounds each step with a server: a handshake, a request, an answer.
const patience = 10 * time.Second

// maxAnswerBytes bounds an answer that is read.
const maxAnswerBytes = 64 << 20

// Session is what a client and a server agree on in the handshake.
type Session struct {
	ID       int64
	Password []byte // 16 bytes
	Timeout  time.Duration
}

// Answer is a packet of a server.
type Answer struct {
	Xid  int32
	Zxid int64
	Code int32  // 0, or the error
	Body []byte // empty beside an error
}

// Event is what the packet of a watch tells.
type Event struct {
	Type, State int32
	Path        string
}

// Event reads an answer whose Xid is XidEvent.
func (a Answer) Event() Event {
	r := NewReader(a.Body)
	return Event{r.Int(), r.Int(), r.String()}
}

// Conn is a connection that sends what it is told to, right or wrong. It sends
// no pings. One goroutine may use it.
type Conn struct {
	net.Conn
	Session Session
	// Events holds the events that came while Call waited for its answer.
	Events []Event

	xid int32
}

// Dial makes a connection without a handshake.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: nc}, nil
}

// Open makes a connection with a session: a new one that asks for the time-out of
// s, or s itself if it has an ID. A server that does not know the session, or
// the password for it, answers with the ID 0: that is what Conn.Session then has.
func Open(addr string, s Session) (*Conn, error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	if err := c.Handshake(0, s); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// handshakeRequest returns a client's first packet. lastZxid is the last change
// that the client has seen.
func handshakeRequest(lastZxid int64, s Session) Fields {
	password := s.Password
	if password == nil {
		password = make([]byte, 16)
	}
	return Fields{}.Int(0).Long(lastZxid).Int(int32(s.Timeout.Milliseconds())).Long(s.ID).Buffer(password).Bool(false)
}

// Handshake sends a client's first packet and takes what the server answers into
// Session.
func (c *Conn) Handshake(lastZxid int64, s Session) error {
	if err := c.SendFrame(handshakeRequest(lastZxid, s)); err != nil {
		return err
	}
	return c.readHandshake()
}

func (c *Conn) readHandshake() error {
	b, err := c.ReadFrame()
	if err != nil {
		return err
	}
	s, err := parseHandshake(b)
	if err != nil {
		return err
	}
	c.Session = s
	return nil
}

// parseHandshake reads a server's first packet.
func parseHandshake(b []byte) (Session, error) {
	r := NewReader(b)
	r.Int() // version of the protocol
	timeout := time.Duration(r.Int()) * time.Millisecond
	s := Session{Timeout: timeout, ID: r.Long(), Password: append([]byte(nil), r.Buffer()...)}
	if r.Err() != nil {
		return Session{}, fmt.Errorf("answer to the handshake: %w", r.Err())
	}
	return s, nil
}

// SendFrame sends bytes behind their length.
func (c *Conn) SendFrame(b []byte) error { return c.SendRaw(append(Fields{}.Int(int32(len(b))), b...)) }

// SendRaw sends bytes as they are.
func (c *Conn) SendRaw(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// ReadFrame reads one packet. io.EOF says that the server has hung up between
// packets.
func (c *Conn) ReadFrame() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxAnswerBytes {
		return nil, fmt.Errorf("the server sends a packet of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.Conn, b)
	return b, err
}

// Send sends a request and waits for nothing.
func (c *Conn) Send(xid int32, op Op, body Fields) error {
	return c.SendFrame(append(Fields{}.Int(xid).Int(int32(op)), body...))
}

// Read reads the next packet, whatever it is.
func (c *Conn) Read() (Answer, error) {
	b, err := c.ReadFrame()
	if err != nil {
		return Answer{}, err
	}
	r := NewReader(b)
	a := Answer{Xid: r.Int(), Zxid: r.Long(), Code: r.Int()}
	a.Body = r.Rest()
	return a, r.Err()
}

// Call sends a request and reads up to its answer. Events before it go to Events;
// answers to pings are passed over.
func (c *Conn) Call(op Op, body Fields) (Answer, error) {
	c.xid++
	if err := c.Send(c.xid, op, body); err != nil {
		return Answer{}, err
	}
	for {
		a, err := c.Read()
		switch {
		case err != nil:
			return Answer{}, fmt.Errorf("%v: %w", op, err)
		case a.Xid == c.xid:
			return a, nil
		case a.Xid == XidEvent:
			c.Events = append(c.Events, a.Event())
		case a.Xid != XidPing:
			return a, fmt.Errorf("%v: answer %d while waiting for %d", op, a.Xid, c.xid)
		}
	}
}

// FourLetters sends one of the words that a server answers without a session,
// such as "ruok" and "srvr".
func FourLetters(addr, word string) (string, error) { return fourLetters(addr, word, patience) }

func fourLetters(addr, word string, limit time.Duration) (string, error) {
	c, err := Dial(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SendRaw([]byte(word)); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c.Conn, 1<<20))
	return string(answer), err
}

// mode returns what a server says it is: "standalone", "leader", "follower", or
// nothing while it does not serve.
func mode(addr string) string {
	// A real node that is just starting may forget who asks.
	answer, err := fourLetters(addr, "srvr", 500*time.Millisecond)
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(answer, "\nMode: ")
	if !ok {
		return ""
	}
	m, _, _ := strings.Cut(rest, "\n")
	return m
}
