package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"kafkalab/kafka/wire"
)

// Answer describes an answer that [Conn.Receive] has to expect.
type Answer struct {
	// MaxPayload bounds its payload in bytes, inclusive;
	// [Config.MaxResponseBytes] does as well.
	MaxPayload int
	// Wait is how long the broker may hold it back on purpose. The request
	// time-out is added. Only time spent in Receive counts.
	Wait time.Duration
}

// Send writes encoded requests with one write and notes the answers that they
// will get, in order. It returns how many bytes were written; if that is not
// all, the connection has ended.
func (c *Conn) Send(ctx context.Context, frames []byte, answers ...Answer) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := c.expect(answers); err != nil {
		return 0, err
	}
	if err := c.nc.SetWriteDeadline(deadline(ctx, c.cfg.RequestTimeout)); err != nil {
		return 0, c.end(err)
	}
	stop := onCancel(ctx, c.cancelWrite)
	n, err := c.nc.Write(frames)
	stop()
	if err == nil {
		return n, nil
	}
	// A context that ended in the middle of a frame leaves the peer waiting
	// for the rest of it, so this is the end of the connection in any case.
	if cause := ctxErr(ctx); cause != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = cause
	}
	return n, c.end(fmt.Errorf("write of %d bytes stopped after %d: %w", len(frames), n, err))
}

// expect queues answers, and starts the clock of a receiver that has been
// waiting without one.
func (c *Conn) expect(answers []Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.answers = append(c.answers, answers...)
	if c.idle && len(answers) > 0 {
		c.idle = false
		if !c.cancelled {
			// A failure here means a closed connection, which the write and
			// the read report.
			c.clock = time.Now()
			_ = c.nc.SetReadDeadline(c.clock.Add(answers[0].Wait + c.cfg.RequestTimeout))
		}
	}
	return nil
}

// receiver is how far the answer at the front of the queue has been read.
type receiver struct {
	head  [wire.ResponseHeaderSize]byte
	have  int // bytes of head
	code  wire.Code
	total int           // bytes of the payload, once head is complete
	got   int           // of them
	wait  time.Duration // spent on it so far
}

// Receive reads the next answer, appends its payload to dst and returns its
// error code and the longer slice. It also may be called while no answer is
// awaited: then it waits for one to be sent for, or for the connection to end.
//
// When ctx ends first, Receive returns its error, and the connection goes on:
// a further call with the dst that was returned continues where this one
// stopped. Any other error is the connection's end.
func (c *Conn) Receive(ctx context.Context, dst []byte) (wire.Code, []byte, error) {
	if err := ctx.Err(); err != nil {
		return 0, dst, err
	}
	if err := c.startClock(ctx); err != nil {
		return 0, dst, err
	}
	stop := onCancel(ctx, c.cancelRead)
	dst, err := c.readAnswer(dst)
	stop()
	c.mu.Lock()
	if !c.clock.IsZero() {
		c.recv.wait += time.Since(c.clock)
	}
	c.idle, c.cancelled, c.clock = false, false, time.Time{}
	c.mu.Unlock()
	if err == nil {
		code := c.recv.code
		c.recv = receiver{}
		return code, dst, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if cause := ctxErr(ctx); cause != nil {
			return 0, dst, cause
		}
		err = fmt.Errorf("%w within %v: it is overloaded, or not a broker", ErrNoAnswer, c.recv.wait.Round(time.Millisecond))
	}
	return 0, dst, c.end(err)
}

// startClock sets the deadline of a receive, from what its context and the
// answer at the front of the queue allow.
func (c *Conn) startClock(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	var limit time.Time // none
	if c.idle = len(c.answers) == 0 && c.recv.have == 0; !c.idle {
		wait := c.cfg.RequestTimeout - c.recv.wait
		if len(c.answers) > 0 {
			wait += c.answers[0].Wait
		}
		c.clock = time.Now()
		limit = c.clock.Add(wait)
	}
	if t, ok := ctx.Deadline(); ok && (limit.IsZero() || t.Before(limit)) {
		limit = t
	}
	return c.nc.SetReadDeadline(limit)
}

// readStep bounds how far memory is allotted ahead of what has arrived, so
// that a peer must send what it claims before it costs us anything.
const readStep = 1 << 20

// Waited returns how long the last Receive has waited for the first byte of its
// answer: next to nothing if that had arrived before. It is for the receiving
// goroutine.
func (c *Conn) Waited() time.Duration { return c.waited }

// readAnswer goes on reading the answer at the front of the queue.
func (c *Conn) readAnswer(dst []byte) ([]byte, error) {
	r, began := &c.recv, time.Now()
	c.waited = 0
	for r.have < len(r.head) {
		n, err := c.nc.Read(r.head[r.have:])
		if r.have == 0 {
			c.waited = time.Since(began)
		}
		r.have += n
		if err != nil {
			return dst, c.readError(err)
		}
		if r.have < len(r.head) {
			continue
		}
		if err := c.begin(); err != nil {
			return dst, err
		}
	}
	for r.got < r.total {
		step := min(r.total-r.got, max(readStep, r.got))
		if cap(dst)-len(dst) < step {
			dst = slices.Grow(dst, step)
		}
		room := dst[len(dst):min(cap(dst), len(dst)+r.total-r.got)]
		n, err := c.nc.Read(room)
		r.got += n
		dst = dst[:len(dst)+n]
		if err != nil && r.got < r.total {
			return dst, c.readError(err)
		}
	}
	c.mu.Lock()
	c.answers = slices.Delete(c.answers, 0, 1)
	c.mu.Unlock()
	return dst, nil
}

// begin checks a complete header against the answer that is awaited.
func (c *Conn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.recv
	if len(c.answers) == 0 {
		return fmt.Errorf("%w: it sent %q, and nothing was asked", ErrNotBroker, r.head[:])
	}
	limit := min(c.answers[0].MaxPayload, c.cfg.MaxResponseBytes)
	code, total, err := wire.ParseResponseHeader(r.head[:], limit)
	if err != nil {
		return fmt.Errorf("%w: its answer begins with %q: %w", ErrNotBroker, r.head[:], err)
	}
	r.code, r.total = code, total
	return nil
}

// readError says what an error of reading means at this point of an answer.
func (c *Conn) readError(err error) error {
	r := &c.recv
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, syscall.ECONNRESET) && r.have == len(r.head):
		return fmt.Errorf("%w: it stopped or cannot go on (then the broker's log says why): %w", ErrCutOff, err)
	case errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("read of an answer: %w: it stopped or refused a request (then the broker's log says why), or is not a broker", err)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read of an answer: %w", err)
	case r.have == 0:
		return fmt.Errorf("%w without an answer: it refused the request or does not know it (then the broker's log says why), or is not a broker", ErrPeerClosed)
	case r.have < len(r.head):
		return fmt.Errorf("%w: it sent %q and closed", ErrNotBroker, r.head[:r.have])
	}
	size := binary.BigEndian.Uint32(r.head[:])
	return fmt.Errorf("%w, after %d of its %d bytes: it stopped or cannot go on (then the broker's log says why), or is not a broker", ErrCutOff, r.got+wire.CodeSize, size)
}
