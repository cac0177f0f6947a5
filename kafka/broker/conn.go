package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// sendAt is how many bytes of gathered answers are sent without waiting for
// the end of the buffered requests.
const sendAt = 12 << 10

// fewGathered is how many bytes of gathered answers a connection has room for
// by itself. Most need no more: the header of a fetch, an acknowledgement.
const fewGathered = 256

// conn is one connection. Its fields belong to the goroutine of serve, but for
// those that say otherwise.
type conn struct {
	srv    *Server
	log    *slog.Logger
	peer   string
	addr   netip.Addr      // of the peer, as connections are counted by
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	in  reader
	out sender // see sender: handed to the answerer while answers are pending

	holder  holder // of the server's memory; see there
	evicted atomic.Bool

	// gathered are answers that are not sent yet. It is empty while answers
	// are pending, since those come first.
	gathered []byte
	few      []byte // where they are gathered, while they are few
	many     buffer // and where when they are more

	group group
	// ordered is the log that sets with wire.AcksOrdered go to, nil before the first.
	// orderEnds says that one of them was not appended: so no other one is.
	ordered   *storage.Log
	orderEnds bool

	// counts are the requests of this buffer by type, so that a shared counter
	// is not moved for each small one.
	counts [requestTypes]int
	// began is when this buffer was read, and deferred how many of its
	// AckedProduce requests the answerer has to answer, and to time.
	began    time.Time
	deferred int

	// The answerer, started with the first answer that must wait.
	answers chan pendingAnswer
	pending atomic.Int32  // answers handed over and not sent
	idle    chan struct{} // a token when pending became 0
	tasks   sync.WaitGroup

	// Scratch space. Between two buffers of requests it holds nothing, see forget.
	produces []wire.Produce
	fetches  []wire.Fetch
	parts    []part
	// postponed is the entry that the next answer to several begins with.
	postponed int
	parked    []byte // body of a WaitFetch that waits
	watch     watch
}

func (s *Server) newConn(tcp *net.TCPConn) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	peer := tcp.RemoteAddr().String()
	c := &conn{
		srv:  s,
		log:  s.log.With("peer", peer),
		peer: peer,
		in: reader{
			tcp: tcp, raw: raw, memory: s.memory,
			maxRequest:  s.cfg.MaxRequestBytes,
			readTimeout: s.cfg.ReadTimeout,
			idleTimeout: s.cfg.IdleTimeout,
			stopping:    &s.stopping,
			drainBy:     s.drainBy,
		},
		out:  sender{tcp: tcp, raw: raw, timeout: s.cfg.WriteTimeout},
		idle: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.holder.done, c.holder.ready = c.ctx.Done(), make(chan struct{}, 1)
	c.holder.progress, c.holder.evict = c.progress, c.evict
	c.in.holder, c.out.holder = &c.holder, &c.holder
	c.few = make([]byte, 0, fewGathered)
	c.gathered = c.few
	c.in.init()
	c.out.init()
	return c, nil
}

// close ends the connection from any goroutine.
func (c *conn) close() {
	c.cancel()
	c.in.tcp.Close() // its error says only that it is closed already
}

// run serves the connection until it ends, and leaves nothing behind.
func (c *conn) run() {
	err := c.serve()
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, errStopping) || errors.Is(err, errNoMemory) {
		// Answers to what was asked before the end are still due. A peer that
		// is gone makes their sending fail, which ends the wait.
		c.finishAnswers()
	}
	c.in.release()
	if c.brokenOff(err) {
		c.in.linger(c.srv.lingerBy())
	}
	c.close()
	c.tasks.Wait()
	c.srv.ended(c, err)
}

// brokenOff reports whether this side ends the connection while its peer may be
// sending.
func (c *conn) brokenOff(err error) bool {
	var refused *refusedError
	return c.ctx.Err() == nil && (c.in.cutShort || errors.As(err, &refused))
}

// serve handles requests until the peer closes, which is io.EOF, or something
// else ends the connection.
func (c *conn) serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.broken(p)
		}
	}()
	for {
		if err := c.in.fill(); err != nil {
			if errors.Is(err, io.EOF) && c.in.w > 0 {
				return fmt.Errorf("closed after %d bytes of a request: %w", c.in.w, err)
			}
			return err
		}
		if err := c.handleBuffered(); err != nil {
			return err
		}
	}
}

// broken reports a panic that was met for this connection, and returns the error that
// ends it.
func (c *conn) broken(p any) error {
	c.srv.metrics.panics.Inc()
	c.log.Error("broken invariant: connection closed", "panic", p, "stack", string(debug.Stack()))
	return errPanicked
}

// handleBuffered handles every complete request in the buffer. Whatever ends
// it, what came before has been appended, and its answers sent.
func (c *conn) handleBuffered() error {
	c.began = time.Now()
	err := c.handleFrames()
	for t, n := range c.counts {
		if n > 0 {
			c.srv.metrics.requests[t].Add(float64(n))
		}
	}
	if e := c.flushGroup(); err == nil {
		err = e
	}
	if e := c.sendGathered(); err == nil {
		err = e
	}
	c.releaseGathered()
	c.timeRequests()
	if err != nil {
		c.finishAnswers()
	}
	c.produces, c.fetches, c.parts = forget(c.produces), forget(c.fetches), forget(c.parts)
	return err
}

// timeRequests takes the time of the requests of a buffer that has been handled.
func (c *conn) timeRequests() {
	took := time.Since(c.began)
	for t, n := range c.counts {
		if n == 0 {
			continue
		}
		c.counts[t] = 0
		if wire.Type(t) == wire.TypeAckedProduce {
			n -= c.deferred
		}
		if n > 0 {
			c.srv.metrics.latencies[t].observe(took, n)
		}
	}
	c.deferred = 0
}

// maxScratch is how many entries of scratch space a connection keeps.
const maxScratch = 256

// forget empties scratch space for the next buffer of requests. What it held
// points into the last one, which would stay in memory, however large, while the
// connection is idle.
func forget[T any](scratch []T) []T {
	if cap(scratch) > maxScratch {
		return nil
	}
	clear(scratch[:cap(scratch)])
	return scratch[:0]
}

func (c *conn) handleFrames() error {
	for {
		t, body, pos, err := c.in.next()
		if err != nil {
			return c.badFrame(err)
		}
		if body == nil {
			return nil
		}
		if err := c.handle(t, body, pos); err != nil {
			return err
		}
	}
}

// badFrame counts what is no request of the protocol and returns the error
// that closes the connection.
func (c *conn) badFrame(err error) error {
	c.srv.metrics.badFrames.Inc()
	return &refusedError{err: err}
}

// errPanicked ends a connection whose handling met a broken invariant.
var errPanicked = errors.New("panic")

// refusedError closes the connection because of what the peer sent.
type refusedError struct {
	err   error
	where []any // what of topic, partition and offset is known, for the log
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// requestTypes is one more than the largest request type.
const requestTypes = int(wire.TypeDeleteTopic) + 1

func known(t wire.Type) bool { return handler(t) != nil }

// handler returns the method that handles the body of a request of a type, which
// begins at position pos of the read buffer; nil if the type is not known. A
// variable could not name methods that look at the requests behind their own.
func handler(t wire.Type) func(c *conn, body []byte, pos int) error {
	switch t {
	case wire.TypeProduce:
		return (*conn).produce
	case wire.TypeFetch:
		return (*conn).fetch
	case wire.TypeMultiFetch:
		return (*conn).multiFetch
	case wire.TypeMultiProduce:
		return (*conn).multiProduce
	case wire.TypeOffsets:
		return (*conn).offsets
	case wire.TypeAckedProduce:
		return (*conn).ackedProduce
	case wire.TypeWaitFetch:
		return (*conn).waitFetch
	case wire.TypeTopics:
		return (*conn).topics
	case wire.TypeCreateTopic:
		return (*conn).createTopic
	case wire.TypeDeleteTopic:
		return (*conn).deleteTopic
	}
	return nil
}

func (c *conn) handle(t wire.Type, body []byte, pos int) error {
	c.counts[t]++
	switch t {
	case wire.TypeProduce, wire.TypeMultiProduce, wire.TypeAckedProduce:
	default:
		// The answer must see what was produced before, and come after the
		// answers to it.
		if err := c.flushGroup(); err != nil {
			return err
		}
		if err := c.finishAnswers(); err != nil {
			return err
		}
	}
	return handler(t)(c, body, pos)
}

// answer gathers an answer. Answers that are pending must have been finished.
func (c *conn) answer(code wire.Code, payload []byte) error {
	c.gathered = wire.AppendResponseHeader(c.room(wire.ResponseHeaderSize+len(payload)), code, len(payload))
	c.gathered = append(c.gathered, payload...)
	if len(c.gathered) >= sendAt {
		return c.sendGathered()
	}
	return nil
}

// sendGathered sends the gathered answers.
func (c *conn) sendGathered() error {
	if len(c.gathered) == 0 {
		return nil
	}
	if err := c.ctx.Err(); err != nil {
		return err // finishAnswers may have left the sender to the answerer
	}
	err := c.out.send(c.gathered, false)
	c.resetGathered()
	return err
}

// resetGathered makes room for the next answers, when these have been sent.
func (c *conn) resetGathered() {
	switch {
	case c.many.home == noHome:
		c.gathered = c.few
	case cap(c.gathered) > 2*smallestBuffer: // after one very long answer
		c.gathered = c.many.b[:0]
	default:
		c.gathered = c.gathered[:0]
	}
}

// room returns the gathered answers, to which about n bytes are to be appended.
func (c *conn) room(n int) []byte {
	if len(c.gathered)+n > cap(c.gathered) && c.many.home == noHome {
		c.many = c.srv.memory.take(&c.holder, 0, 0)
		c.gathered = append(c.many.b[:0], c.gathered...)
	}
	return c.gathered
}

// releaseGathered leaves a connection that has nothing to send with room for few
// answers.
func (c *conn) releaseGathered() {
	c.gathered = c.few
	c.srv.memory.give(&c.holder, &c.many)
}

// place names a partition for the log, in words of a peer: not more of them than
// a topic can have.
func place(topic []byte, partition int32) []any {
	return []any{"topic", string(topic[:min(len(topic), message.MaxTopicLength)]), "partition", partition}
}

// storageFailed reports a failure of storage that a client did not cause, with
// what more is known for the log.
func (c *conn) storageFailed(what string, topic []byte, partition int32, err error, more ...any) {
	if errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrClosed) || errors.Is(err, storage.ErrNoSuchTopic) {
		return // the broker stops, the connection ends, or the topic was deleted meanwhile
	}
	c.srv.metrics.storageErrors.Inc()
	c.srv.failureLog.log(c.log, slog.LevelError, what+" failed", append(append(place(topic, partition), more...), "error", err)...)
}
