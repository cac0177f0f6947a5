package coord_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/coord"
)

// Kinds of request.
const (
	kindCreate     = 1
	kindExists     = 3
	kindGet        = 4
	kindSet        = 5
	kindSync       = 9
	kindPing       = 11
	kindChildren   = 12
	kindSetWatches = 101
	kindClose      = -11
)

// fakeServer speaks ZooKeeper's protocol as far as a test needs, and misbehaves
// as it is told. It has no nodes: every request is answered with the next
// transaction and what answer says. Its fields but those under mu are set before
// it starts.
type fakeServer struct {
	t       *testing.T
	addr    string
	timeout time.Duration // of every session
	wg      sync.WaitGroup

	// shake, if set, makes the whole frame that answers a connect request, nil for
	// silence; ok false hangs up.
	shake func(asked int64, connection int) (frame []byte, ok bool)
	// behind, if set and true, makes it a server that has lost all: it hangs up on
	// who has seen a transaction, and knows no session.
	behind *atomic.Bool
	// answer, if set, returns error code and body for a request; ok false is
	// silence.
	answer func(r fakeRequest) (code int32, body []byte, ok bool)

	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	accepted int
	sessions int64
	zxid     int64
	requests []fakeRequest
}

type fakeRequest struct {
	connection int // from 1
	kind       int32
	body       []byte
	at         time.Time
}

func newFake(t *testing.T, configure func(f *fakeServer)) *fakeServer {
	t.Helper()
	f := &fakeServer{t: t, conns: map[net.Conn]bool{}, timeout: time.Second}
	if configure != nil {
		configure(f)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.accepted++
			n := f.accepted
			f.conns[nc] = true
			if f.closed {
				nc.Close()
			}
			f.mu.Unlock()
			f.wg.Go(func() {
				f.serve(nc, n)
				nc.Close()
				f.mu.Lock()
				delete(f.conns, nc)
				f.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		l.Close()
		f.hangUp()
		f.wg.Wait()
	})
	return f
}

// hangUp closes all connections.
func (f *fakeServer) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.conns {
		nc.Close()
	}
}

// connected returns how many connections are open.
func (f *fakeServer) connected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// seen returns the requests of a kind, and how many connections were accepted.
func (f *fakeServer) seen(kind int32) (requests []fakeRequest, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if r.kind == kind {
			requests = append(requests, r)
		}
	}
	return requests, f.accepted
}

func (f *fakeServer) serve(nc net.Conn, connection int) {
	hello := readFrame(nc)
	if len(hello) < 28 {
		return
	}
	asked := int64(binary.BigEndian.Uint64(hello[16:]))
	if f.behind != nil && f.behind.Load() && asked != 0 {
		if binary.BigEndian.Uint64(hello[4:]) == 0 {
			_, _ = nc.Write(shakeFrame(0, 0))
		}
		return
	}
	frame, ok := f.handshake(asked, connection)
	if !ok {
		return
	}
	if _, err := nc.Write(frame); err != nil {
		return
	}
	for {
		in := readFrame(nc)
		if len(in) < 8 {
			return
		}
		xid := binary.BigEndian.Uint32(in)
		r := fakeRequest{connection: connection, kind: int32(binary.BigEndian.Uint32(in[4:])), body: in[8:], at: time.Now()}
		f.mu.Lock()
		f.requests = append(f.requests, r)
		f.zxid++
		zxid := f.zxid
		f.mu.Unlock()
		code, body, ok := int32(0), []byte(nil), true
		if f.answer != nil {
			code, body, ok = f.answer(r)
		}
		if !ok {
			continue
		}
		out := binary.BigEndian.AppendUint32(make([]byte, 4), xid)
		out = binary.BigEndian.AppendUint64(out, uint64(zxid))
		out = binary.BigEndian.AppendUint32(out, uint32(code))
		out = append(out, body...)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := nc.Write(out); err != nil || r.kind == kindClose {
			return
		}
	}
}

// handshake returns the answer to a connect request: a new session, or the one
// that was asked for.
func (f *fakeServer) handshake(asked int64, connection int) (frame []byte, ok bool) {
	if f.shake != nil {
		return f.shake(asked, connection)
	}
	if asked == 0 {
		f.mu.Lock()
		f.sessions++
		asked = f.sessions
		f.mu.Unlock()
	}
	return shakeFrame(asked, f.timeout), true
}

// shakeFrame encodes the answer to a connect request.
func shakeFrame(session int64, timeout time.Duration) []byte {
	out := binary.BigEndian.AppendUint32(nil, 4+4+8+4+16+1)
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(timeout/time.Millisecond))
	out = binary.BigEndian.AppendUint64(out, uint64(session))
	out = binary.BigEndian.AppendUint32(out, 16)
	return append(out, make([]byte, 17)...)
}

func readFrame(r io.Reader) []byte {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:])&0xffffff)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil
	}
	return frame
}

// str encodes a string or a value.
func str(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

// stat encodes the state of a node.
func stat(version int32, owner int64) []byte {
	out := make([]byte, 32, 68)
	out = binary.BigEndian.AppendUint32(out, uint32(version))
	out = append(out, make([]byte, 8)...)
	out = binary.BigEndian.AppendUint64(out, uint64(owner))
	return append(out, make([]byte, 16)...)
}

// config returns that of a client of the fake server.
func (f *fakeServer) config() coord.Config {
	return coord.Config{Servers: f.addr, SessionTimeout: f.timeout, ConnectTimeout: 10 * time.Second}
}
