package coord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Numbers of ZooKeeper's protocol.
const (
	sizeSize       = 4
	requestHeader  = 4 + 4     // xid, kind
	responseHeader = 4 + 8 + 4 // xid, zxid, error code
	zxidAt         = sizeSize + 4
	codeAt         = zxidAt + 8
	statSize       = 6*8 + 5*4 // of the state of a node, which follows value or children
	// A connect request is version, last zxid seen, time-out, session id, password.
	askedIDAt = sizeSize + 4 + 8 + 4
	// Its answer is version, time-out, session id, password and, since 3.5,
	// whether the server is read-only.
	shakeMin = 4 + 4 + 8 + 4
	shakeMax = 256

	kindGet        = 4
	kindChildren   = 12
	kindSetWatches = 101
	kindClose      = -11

	// maxFrameBytes bounds an answer. A server does not bound the list of a
	// node's children.
	maxFrameBytes = 16 << 20
)

// errNotZooKeeper is the error of a peer that answers with what no server sends.
var errNotZooKeeper = errors.New("not a ZooKeeper server")

// link is one connection of a session. It stands between the library and the
// network, as the library tells neither the negotiated time-out nor when a proof
// was sent, and trusts every length that it reads:
//
//   - The handshake must be over within a time, where the library waits for ten
//     times the session's time-out, and must name the session that was asked for.
//   - Every frame is checked before the library allocates for it.
//   - The transactions of the answers are kept here and hidden from the library.
//     It would have the watches that it sets again after a reconnect tell of
//     changes since the last one that it has seen when it comes to it, which may
//     be that of an answer to a request that was quicker: changes before it
//     would be missed. (It also reads and writes it without a lock.)
//
// The library reads in one goroutine, writes in another, each frame with one
// Write, and first of all does a handshake in a third.
type link struct {
	net.Conn
	session  *Session
	patience time.Duration // of the handshake
	seen     int64         // last transaction of the connections before
	admitted int64         // what the server is told of it

	asked  int64         // session id in the connect request
	sent   time.Duration // when that was sent, as of elapsed
	shaken bool          // read and written by the handshake, read by the reader later

	head []byte // what is read of the present frame and not handed on
	rest int    // bytes of it that are still to be read
	buf  [shakeMax + sizeSize]byte

	mu    sync.Mutex
	kinds map[int32]int32 // by xid, of the requests whose answers are looked at

	closeXid      atomic.Int32
	answered      atomic.Bool // something but the handshake
	closeAnswered atomic.Bool
}

// SetReadDeadline leaves the deadline of the handshake alone.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.shaken {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	switch {
	case !l.shaken:
		return l.writeConnect(p)
	case len(p) < sizeSize+requestHeader:
		return l.Conn.Write(p)
	}
	xid := int32(binary.BigEndian.Uint32(p[sizeSize:]))
	switch kind := int32(binary.BigEndian.Uint32(p[sizeSize+4:])); kind {
	case kindGet, kindChildren:
		l.expect(xid, kind)
	case kindClose:
		l.closeXid.Store(xid)
	case kindSetWatches:
		l.expect(xid, kind)
		if len(p) >= sizeSize+requestHeader+8 {
			p = withTransaction(p, sizeSize+requestHeader, l.seen)
		}
	}
	return l.Conn.Write(p)
}

// expect has the answer to a request looked at.
func (l *link) expect(xid, kind int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds[xid] = kind
}

// withTransaction returns a copy of p with a transaction at a place: a writer
// must leave p itself alone.
func withTransaction(p []byte, at int, zxid int64) []byte {
	p = append([]byte(nil), p...)
	binary.BigEndian.PutUint64(p[at:], uint64(zxid))
	return p
}

// writeConnect writes the connect request.
func (l *link) writeConnect(p []byte) (int, error) {
	if len(p) < askedIDAt+8 {
		return 0, fmt.Errorf("connect request of %d bytes", len(p))
	}
	l.asked = int64(binary.BigEndian.Uint64(p[askedIDAt:]))
	p = withTransaction(p, zxidAt, l.admitted)
	if err := l.Conn.SetWriteDeadline(time.Now().Add(l.patience)); err != nil {
		return 0, err
	}
	l.sent = elapsed()
	return l.Conn.Write(p)
}

// Read implements net.Conn. No Read returns bytes of two frames.
func (l *link) Read(p []byte) (int, error) {
	if len(l.head) == 0 && l.rest == 0 {
		if err := l.begin(); err != nil {
			l.session.client.tried(fmt.Errorf("%s: %w", l.RemoteAddr(), err))
			return 0, err
		}
	}
	if len(l.head) > 0 {
		n := copy(p, l.head)
		l.head = l.head[n:]
		return n, nil
	}
	n, err := l.Conn.Read(p[:min(len(p), l.rest)])
	l.rest -= n
	return n, err
}

// begin reads the next frame as far as it is to be looked at.
func (l *link) begin() error {
	if !l.shaken {
		return l.shake()
	}
	if _, err := io.ReadFull(l.Conn, l.buf[:sizeSize]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(l.buf[:])
	if size < responseHeader || size > maxFrameBytes {
		return fmt.Errorf("%w: frame of %d bytes", errNotZooKeeper, size)
	}
	first := min(int(size), responseHeader+4)
	head := l.buf[:sizeSize+first]
	if _, err := io.ReadFull(l.Conn, head[sizeSize:]); err != nil {
		return noEOF(err)
	}
	l.head, l.rest = head, int(size)-first
	return l.look(head)
}

// look takes from an answer's header what the session must know.
func (l *link) look(head []byte) error {
	xid := int32(binary.BigEndian.Uint32(head[sizeSize:]))
	if zxid := int64(binary.BigEndian.Uint64(head[zxidAt:])); xid >= 0 && zxid > 0 {
		l.session.zxid.Store(zxid)
		binary.BigEndian.PutUint64(head[zxidAt:], 0)
	}
	l.answered.Store(true)
	if xid > 0 && xid == l.closeXid.Load() {
		l.closeAnswered.Store(true)
	}
	l.mu.Lock()
	kind := l.kinds[xid]
	delete(l.kinds, xid)
	l.mu.Unlock()
	code := int32(binary.BigEndian.Uint32(head[codeAt:]))
	switch {
	case kind == kindSetWatches && code != 0:
		// The library would go on without them.
		l.answered.Store(false)
		return fmt.Errorf("watches are not set again: error code %d", code)
	case kind == 0 || kind == kindSetWatches || code != 0:
		return nil
	}
	return l.checkCount(head, kind)
}

// checkCount checks the count that an answer begins with: bytes of a value, or
// names.
func (l *link) checkCount(head []byte, kind int32) error {
	room := l.rest - statSize
	if room < 0 {
		return fmt.Errorf("%w: answer without the state of the node", errNotZooKeeper)
	}
	count := int32(binary.BigEndian.Uint32(head[sizeSize+responseHeader:]))
	least, most := int32(-1), int32(room) // a missing value has -1
	if kind == kindChildren {
		least, most = 0, int32(room)/4 // each name has its length before it
	}
	if count < least || count > most {
		return fmt.Errorf("%w: count of %d in an answer with %d bytes", errNotZooKeeper, count, l.rest)
	}
	return nil
}

// shake reads and checks the answer to the connect request.
func (l *link) shake() error {
	if err := l.Conn.SetReadDeadline(time.Now().Add(l.patience)); err != nil {
		return err
	}
	if _, err := io.ReadFull(l.Conn, l.buf[:sizeSize]); err != nil {
		return fmt.Errorf("no answer to the handshake: %w", noEOF(err))
	}
	size := binary.BigEndian.Uint32(l.buf[:])
	if size < shakeMin || size > shakeMax {
		return fmt.Errorf("%w: handshake of %d bytes", errNotZooKeeper, size)
	}
	frame := l.buf[:sizeSize+size]
	if _, err := io.ReadFull(l.Conn, frame[sizeSize:]); err != nil {
		return fmt.Errorf("answer to the handshake: %w", noEOF(err))
	}
	body := frame[sizeSize:]
	timeout := time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond
	id := int64(binary.BigEndian.Uint64(body[8:]))
	password := int(int32(binary.BigEndian.Uint32(body[16:])))
	if password < 0 || password > len(body)-shakeMin {
		return fmt.Errorf("%w: password of %d bytes in a handshake of %d", errNotZooKeeper, password, size)
	}
	if err := l.session.agree(l.asked, id, timeout, l.sent); err != nil {
		return err
	}
	l.head, l.shaken = frame, true
	return errors.Join(l.Conn.SetReadDeadline(time.Time{}), l.Conn.SetWriteDeadline(time.Time{}))
}

// agree takes what the server has said in the handshake: to the wish for a new
// session (asked 0) a new one, to the wish for the session of before that one,
// or 0 if it is gone.
func (s *Session) agree(asked, id int64, timeout, sent time.Duration) error {
	switch {
	case asked != 0 && id == 0:
		s.end(ErrExpired)
		return nil
	case id == 0 || asked != 0 && id != asked:
		return fmt.Errorf("%w: session %#x where %#x was asked for", errNotZooKeeper, id, asked)
	case timeout < MinSessionTimeout:
		return fmt.Errorf("%w: session with a time-out of %v", errNotZooKeeper, timeout)
	}
	s.id.Store(id)
	s.negotiated.Store(int64(timeout))
	s.lease.prove(sent, timeout)
	return nil
}

// noEOF makes of an end of the stream one that was not expected.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
