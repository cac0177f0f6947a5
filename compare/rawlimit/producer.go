package rawlimit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"kafkalab/harness/workload"
)

// sendBuffers of sendBytes each go round between Send and the goroutine that
// writes: one is filled, one written, one waits.
const sendBuffers = 3

// sequence sees to it that what the server makes again is what was sent: the
// workload's messages of one run, in order, all of one size.
type sequence struct {
	payloadBytes int // 0: none yet
	next         workload.Header
}

// check looks at the next payload. strict says that the server makes the
// messages itself.
func (s *sequence) check(payload []byte, strict bool) error {
	h, ok := workload.Peek(payload)
	if !ok {
		return fmt.Errorf("physical limit: a payload of %d bytes, at least %d are wanted", len(payload), workload.MinPayloadBytes)
	}
	if s.payloadBytes == 0 {
		s.payloadBytes, s.next = len(payload), h
	}
	if len(payload) != s.payloadBytes {
		return fmt.Errorf("physical limit: a payload of %d bytes after those of %d: all must be of one size", len(payload), s.payloadBytes)
	}
	if strict && h != s.next {
		return fmt.Errorf("physical limit: message %d of run %d where message %d of run %d should follow: the server can make only the workload's own sequence",
			h.Sequence, h.RunID, s.next.Sequence, s.next.RunID)
	}
	s.next.Sequence++
	return nil
}

// open opens the connection for messages that begin with the payload, which was
// checked. Where it cannot, nothing was sent.
func (s *sequence) open(ctx context.Context, c *client, queue string, payload []byte) (*conn, error) {
	first, _ := workload.Peek(payload)
	cn, err := c.open(ctx, request{Op: opProduce, Queue: queue, PayloadBytes: len(payload), RunID: first.RunID, First: first.Sequence})
	if err != nil {
		*s = sequence{}
	}
	return cn, err
}

// streamProducer is the client half of the paths tcp and file: entries, in
// large writes.
type streamProducer struct {
	client *client
	queue  string
	conn   *conn // nil before the first Send
	sent   sequence
	buf    []byte // being filled; nil: take one from free

	free, full chan []byte
	handed     atomic.Int64 // messages that Send took
	written    atomic.Int64 // messages that the socket took
	failed     chan struct{}
	err        error // set before failed is closed
	failOnce   sync.Once
	running    sync.WaitGroup
}

func newStreamProducer(c *client, queue string) *streamProducer {
	p := &streamProducer{client: c, queue: queue, failed: make(chan struct{}),
		free: make(chan []byte, sendBuffers), full: make(chan []byte, sendBuffers)}
	for range sendBuffers {
		p.free <- nil
	}
	return p
}

func (p *streamProducer) Send(ctx context.Context, payload []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := p.sent.check(payload, p.client.path == PathTCP); err != nil {
		return err
	}
	if p.conn == nil {
		if err := p.start(ctx, payload); err != nil {
			return err
		}
	}
	if p.buf == nil {
		select {
		case p.buf = <-p.free:
		case <-p.failed:
			return p.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if p.buf == nil {
			p.buf = make([]byte, 0, sendBytes+entryHeaderBytes+len(payload))
		}
	}
	p.buf = appendEntry(p.buf, payload)
	p.handed.Add(1)
	if len(p.buf) >= sendBytes {
		p.hand()
	}
	return nil
}

// hand gives the buffer to the writing goroutine. full has room for all.
func (p *streamProducer) hand() {
	p.full <- p.buf
	p.buf = nil
}

func (p *streamProducer) start(ctx context.Context, payload []byte) error {
	cn, err := p.sent.open(ctx, p.client, p.queue, payload)
	if err != nil {
		return err
	}
	// Under the client's lock, so that its Close waits for the goroutines or
	// they are not started.
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	if p.client.closed {
		return errClosed
	}
	p.conn = cn
	p.running.Go(func() { p.write(cn, int64(entryHeaderBytes+len(payload))) })
	p.running.Go(func() { p.listen(cn) })
	return nil
}

// write writes what is full until it fails.
func (p *streamProducer) write(cn *conn, entryBytes int64) {
	var bytes int64
	for {
		select {
		case buf := <-p.full:
			n, err := cn.Write(buf)
			bytes += int64(n)
			p.written.Store(bytes / entryBytes)
			if err != nil {
				p.fail(err)
				return
			}
			p.free <- buf[:0]
		case <-p.failed:
			return
		}
	}
}

// listen waits for what the server never says while all is well.
func (p *streamProducer) listen(cn *conn) {
	var a answer
	err := readLine(cn.in, &a)
	if err == nil {
		err = a.err()
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	p.fail(err)
	cn.Close() // ends a write
}

// fail keeps the first reason why nothing more is sent.
func (p *streamProducer) fail(err error) {
	p.failOnce.Do(func() {
		p.err = fmt.Errorf("physical limit: producing to queue %q: %w", p.queue, err)
		close(p.failed)
	})
}

// Flush waits until every buffer has been written.
func (p *streamProducer) Flush(ctx context.Context) error {
	if len(p.buf) > 0 {
		p.hand()
	}
	var back [][]byte
	var err error
	for len(back) < sendBuffers && err == nil {
		select {
		case b := <-p.free:
			back = append(back, b)
		case <-p.failed:
			err = p.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	for _, b := range back {
		p.free <- b
	}
	select {
	case <-p.failed: // even when the socket took everything
		err = p.err
	default:
	}
	if err != nil {
		return errors.Join(err, p.unsent())
	}
	return nil
}

// unsent names the messages that have not left this process.
func (p *streamProducer) unsent() error {
	if n := p.handed.Load() - p.written.Load(); n > 0 {
		return fmt.Errorf("physical limit: %d messages to queue %q were not sent", n, p.queue)
	}
	return nil
}

// close is called when the client is marked closed and its connections are.
// Send may still be running.
func (p *streamProducer) close() error {
	p.fail(errClosed)
	p.running.Wait()
	return p.unsent()
}

// strictProducer is what producers have in common whose messages the server
// makes itself, or again, and which write in Send.
type strictProducer struct {
	client *client
	queue  string
	conn   *conn // nil before the first Send
	sent   sequence
	err    error // sticky: what was written may be cut off
}

// begin looks at the next payload, and opens the connection with the first.
func (p *strictProducer) begin(ctx context.Context, payload []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.err != nil {
		return p.err
	}
	if err := p.sent.check(payload, true); err != nil {
		return err
	}
	if p.conn == nil {
		cn, err := p.sent.open(ctx, p.client, p.queue, payload)
		if err != nil {
			return err
		}
		p.conn = cn
	}
	return nil
}

// grantProducer is the client half of the path disk: it only counts, and lets
// the server write as many messages.
type grantProducer struct {
	strictProducer
	pending  uint32   // messages counted, not granted yet
	awaiting []uint32 // grants that are unanswered, oldest first

	handed  atomic.Int64 // messages that Send took
	written atomic.Int64 // messages that the server has written
}

func (p *grantProducer) Send(ctx context.Context, payload []byte) error {
	if err := p.begin(ctx, payload); err != nil {
		return err
	}
	p.handed.Add(1)
	p.pending++
	if int(p.pending) < grantMessages(len(payload)) {
		return nil
	}
	return p.grant(ctx, maxGrants-1)
}

// grant grants what is pending and waits until at most left grants are
// unanswered.
func (p *grantProducer) grant(ctx context.Context, left int) error {
	if p.err != nil || p.conn == nil {
		return p.err
	}
	stop := interrupt(ctx, p.conn.SetDeadline)
	err := p.exchange(left)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.err = fmt.Errorf("physical limit: producing to queue %q: %w", p.queue, err)
	}
	return p.err
}

func (p *grantProducer) exchange(left int) error {
	var b [grantBytes]byte
	if p.pending > 0 {
		binary.BigEndian.PutUint32(b[:], p.pending)
		if _, err := p.conn.Write(b[:]); err != nil {
			return err
		}
		p.awaiting = append(p.awaiting, p.pending)
		p.pending = 0
	}
	for len(p.awaiting) > left {
		if _, err := io.ReadFull(p.conn.in, b[:]); err != nil {
			return err
		}
		// A line of JSON, which begins with a brace, is the server's reason why
		// it writes no more.
		if n := binary.BigEndian.Uint32(b[:]); n != p.awaiting[0] {
			rest, _ := p.conn.in.ReadString('\n')
			return fmt.Errorf("the server answered %q to a grant of %d messages", string(b[:])+rest, p.awaiting[0])
		}
		p.written.Add(int64(p.awaiting[0]))
		p.awaiting = p.awaiting[:copy(p.awaiting, p.awaiting[1:])]
	}
	return nil
}

// Flush waits until the server has written everything.
func (p *grantProducer) Flush(ctx context.Context) error {
	if err := p.grant(ctx, 0); err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

func (p *grantProducer) close() error {
	if n := p.handed.Load() - p.written.Load(); n > 0 {
		return fmt.Errorf("physical limit: %d messages to queue %q were not written", n, p.queue)
	}
	return nil
}
