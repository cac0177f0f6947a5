package rawlimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// follow makes a consumer's connection one to which all that comes is written
// at once, by the goroutine that has received it, if it has got everything up
// to here. A connection that follows belongs to that goroutine until unfollow.
func (q *queue) follow(at int64, c net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes != at {
		return false
	}
	q.followers = append(slices.Clone(q.followers), c) // append hands the old ones out
	return true
}

// unfollow ends it. The connection may be in use for one more write.
func (q *queue) unfollow(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.followers = slices.DeleteFunc(slices.Clone(q.followers), func(f net.Conn) bool { return f == c })
}

// forward takes what one read has returned. With path ping it is written to
// everybody who follows, before the next read: a consumer that does not read so
// holds the producer up; one that has gone is left out.
func (s *server) forward(q *queue, b []byte) error {
	followers, err := q.append(b)
	s.note(q)
	for _, f := range followers {
		if _, err := f.Write(b); err != nil {
			q.unfollow(f)
			f.Close()
		}
	}
	return err
}

// sendAll sends the queue from its beginning, and what comes later as it comes.
// With path ping a consumer that has caught up follows.
func (s *server) sendAll(ctx context.Context, q *queue, c net.Conn, send func(from, end int64) error) error {
	for at := int64(0); ; {
		if s.cfg.Path == PathPing && q.follow(at, c) {
			<-ctx.Done()
			q.unfollow(c)
			return nil
		}
		end, err := q.wait(ctx, at)
		if err == nil {
			err = send(at, end)
		}
		if err != nil {
			return err
		}
		at = end
	}
}

// pingProducer is the client half of path ping: each message is a write of its
// own, in Send.
type pingProducer struct {
	strictProducer
	entry []byte

	ctx context.Context // whose end lets a write fail
	let func()          // ends that; nil: there is none

	handed  atomic.Int64 // messages that Send took
	written atomic.Int64 // messages that the socket took
}

func (p *pingProducer) Send(ctx context.Context, payload []byte) error {
	if err := p.begin(ctx, payload); err != nil {
		return err
	}
	if p.ctx != ctx {
		if err := p.heed(ctx); err != nil {
			return err
		}
	}
	p.entry = appendEntry(p.entry[:0], payload)
	p.handed.Add(1)
	if _, err := p.conn.Write(p.entry); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		p.err = fmt.Errorf("physical limit: producing to queue %q: %w", p.queue, err)
		return p.err
	}
	p.written.Add(1)
	return nil
}

// heed lets writes fail when ctx ends. It is asked for once for all messages
// that are sent with the same context.
func (p *pingProducer) heed(ctx context.Context) error {
	if p.let != nil {
		p.let()
	}
	// A context that ended between two writes has left its deadline behind.
	if err := p.conn.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("physical limit: %w", err)
	}
	set := make(chan struct{})
	stop := interrupt(ctx, func(t time.Time) error {
		defer close(set)
		return p.conn.SetWriteDeadline(t)
	})
	p.ctx, p.let = ctx, func() {
		if !stop() {
			<-set // else it might come after the next one
		}
	}
	return nil
}

// Flush has nothing to wait for: what Send took has left this process.
func (p *pingProducer) Flush(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), p.unsent())
	}
	if p.err != nil {
		return errors.Join(p.err, p.unsent())
	}
	return nil
}

func (p *pingProducer) unsent() error {
	if n := p.handed.Load() - p.written.Load(); n > 0 {
		return fmt.Errorf("physical limit: %d messages to queue %q were not sent", n, p.queue)
	}
	return nil
}

// close is called when the connections are closed, which ends a Send.
func (p *pingProducer) close() error { return p.unsent() }
