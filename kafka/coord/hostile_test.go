package coord_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/coord"
)

// TestNotZooKeeper: who answers the handshake with what no server sends is named
// as such, nothing is allocated for what it claims, and Connect returns in time.
func TestNotZooKeeper(t *testing.T) {
	huge := shakeFrame(1, time.Second)
	binary.BigEndian.PutUint32(huge, 1<<31-1)
	password := shakeFrame(1, time.Second)
	binary.BigEndian.PutUint32(password[20:], 1<<30)
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"http":               {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "not a ZooKeeper server"},
		"large":              {huge, "not a ZooKeeper server"},
		"empty":              {make([]byte, 4), "not a ZooKeeper server"},
		"password":           {password, "not a ZooKeeper server"},
		"no session":         {shakeFrame(0, time.Second), "not a ZooKeeper server"},
		"no time-out":        {shakeFrame(1, 0), "not a ZooKeeper server"},
		"negative time-out":  {shakeFrame(1, -time.Second), "not a ZooKeeper server"},
		"half an answer":     {shakeFrame(1, time.Second)[:10], "answer to the handshake"},
		"silence":            {nil, "no answer to the handshake"},
		"part of the length": {[]byte{0, 0}, "no answer to the handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(f *fakeServer) {
				f.shake = func(int64, int) ([]byte, bool) { return c.frame, true }
			})
			began := time.Now()
			_, err := coord.Connect(testContext(t), coord.Config{Servers: f.addr, SessionTimeout: 300 * time.Millisecond, ConnectTimeout: 1200 * time.Millisecond})
			wantErr(t, "connect", err, coord.ErrUnavailable)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// TestSilentServer: a server that accepts and does not answer the handshake is
// left after a part of the session's time-out; the library alone would wait for
// several times it.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fakeServer) {
		f.shake = func(asked int64, connection int) ([]byte, bool) {
			if connection == 1 {
				return nil, true
			}
			return shakeFrame(1, f.timeout), true
		}
	})
	began := time.Now()
	c := connect(t, f.config())
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("connected after %v", d)
	}
	if st := c.Stats(); st.Connects != 1 || st.Sessions != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestOtherSession: a session is taken up again as the one that it was.
func TestOtherSession(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fakeServer) {
		f.shake = func(asked int64, connection int) ([]byte, bool) {
			switch connection {
			case 1:
				return shakeFrame(7, f.timeout), true
			case 2:
				return shakeFrame(8, f.timeout), true
			}
			return shakeFrame(asked, f.timeout), true
		}
	})
	c := connect(t, f.config())
	s := session(t, c)
	f.hangUp()
	eventually(t, "third connection", func() bool { return c.Stats().Connects == 2 })
	if s.ID() != 7 || s.Context().Err() != nil || session(t, c) != s {
		t.Errorf("session %d, %v", s.ID(), s.Context().Err())
	}
	if _, n := f.seen(kindPing); n != 3 {
		t.Errorf("%d connections", n)
	}
}

// TestHostileAnswers: lengths that cannot be true end the connection, not the
// process, and the session goes on.
func TestHostileAnswers(t *testing.T) {
	negative, large := make([]byte, 4), make([]byte, 4)
	binary.BigEndian.PutUint32(negative, 1<<32-1)
	binary.BigEndian.PutUint32(large, 1<<31-1)
	for name, c := range map[string]struct {
		kind int32
		body []byte
		ask  func(c *coord.Client) error
	}{
		"names":    {kindChildren, large, askChildren},
		"negative": {kindChildren, negative, askChildren},
		"value":    {kindGet, large, askGet},
		"frame":    {kindGet, make([]byte, 17<<20), askGet},
		"cut off":  {kindGet, []byte{0}, askGet},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(f *fakeServer) {
				f.answer = func(r fakeRequest) (int32, []byte, bool) {
					switch {
					case r.kind == c.kind && r.connection == 1:
						return 0, c.body, true
					case r.kind == kindChildren:
						return 0, append(make([]byte, 4), stat(0, 0)...), true
					case r.kind == kindGet:
						return 0, append(str(""), stat(0, 0)...), true
					}
					return 0, nil, true
				}
			})
			client := connect(t, f.config())
			s := session(t, client)
			if err := c.ask(client); err != nil {
				t.Errorf("over the next connection: %v", err)
			}
			if session(t, client) != s {
				t.Error("the session is another")
			}
		})
	}
}

func askChildren(c *coord.Client) error {
	_, _, err := c.Children(context.Background(), "/a")
	return err
}

func askGet(c *coord.Client) error {
	_, _, err := c.Get(context.Background(), "/a")
	return err
}
