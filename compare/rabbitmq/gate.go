package rabbitmq

import (
	"encoding/binary"
	"net"
	"sync"
)

// maxAhead is how many messages may have been read from the socket without
// having been handled.
const maxAhead = 4096

// gate is a connection that stops reading while too many messages wait to be
// handled.
//
// With automatic acknowledgement the server sends as fast as TCP takes it, and
// the library keeps what it has read in a list without a bound. The gate
// counts the messages that pass, by the content headers among the frames, and
// so leaves the rest of a backlog to TCP's own window.
type gate struct {
	net.Conn
	limit int64

	mu     sync.Mutex
	moved  sync.Cond
	ahead  int64 // messages read and not handled
	opened bool  // for good

	// Of the reading goroutine: where in the stream of frames it is.
	header [frameHeaderBytes]byte
	have   int   // bytes of header
	skip   int64 // bytes of the frame that are still to come
}

// A frame is type (1 byte), channel (2), size (4), size bytes, and an end
// mark (1).
const (
	frameHeaderBytes = 7
	frameEndBytes    = 1
	contentHeader    = 2 // the type of the one frame that each message has once
)

func newGate(c net.Conn, limit int64) *gate {
	g := &gate{Conn: c, limit: limit}
	g.moved.L = &g.mu
	return g
}

// Read waits until fewer than limit messages wait to be handled.
func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	for g.ahead >= g.limit && !g.opened {
		g.moved.Wait()
	}
	g.mu.Unlock()
	n, err := g.Conn.Read(p)
	if messages := g.count(p[:n]); messages > 0 {
		g.mu.Lock()
		g.ahead += messages
		g.mu.Unlock()
	}
	return n, err
}

// count returns how many messages begin in p.
func (g *gate) count(p []byte) (messages int64) {
	for len(p) > 0 {
		if g.skip > 0 {
			n := min(g.skip, int64(len(p)))
			g.skip -= n
			p = p[n:]
			continue
		}
		n := copy(g.header[g.have:], p)
		g.have += n
		p = p[n:]
		if g.have == frameHeaderBytes {
			if g.header[0] == contentHeader {
				messages++
			}
			g.skip = int64(binary.BigEndian.Uint32(g.header[3:])) + frameEndBytes
			g.have = 0
		}
	}
	return messages
}

// handled tells that n messages have been handled.
func (g *gate) handled(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead -= int64(n)
	g.moved.Broadcast()
}

// open lets everything through from now on.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	g.moved.Broadcast()
}
