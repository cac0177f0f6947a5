package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// link is one connection and what is in doubt about it. All fields but conn
// are guarded by the producer's mu.
type link struct {
	conn *client.Conn
	err  error // why its reader has ended, or nil

	// Without acks: what was written and not confirmed, and the barrier on its
	// way with what its answer will confirm.
	unconfirmed count
	barrier     bool
	round       int64
	covers      count
	lastBarrier time.Time

	inflight []request // with acks: requests that wait for their answers, in order

	requests int64     // written to it
	until    time.Time // when it has served long enough; zero: never
	leaving  bool      // it has: nothing more is written to it but a barrier
}

// reconnect is how a producer goes about connecting again. Guarded by mu.
type reconnect struct {
	backoff   time.Duration
	nextDial  time.Time
	downSince time.Time // the first of the attempts that have failed without a break; zero if none has
	dialErr   error     // of the last of them
}

// Bounds of the time between two attempts to connect.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// delayDial puts the next attempt to connect off.
func (r *reconnect) delayDial() {
	r.backoff = min(max(2*r.backoff, minBackoff), maxBackoff)
	r.nextDial = time.Now().Add(r.backoff)
}

// connect returns the connection, and makes one if there is none. mu is held,
// and released while connecting, so the caller must have set writing.
func (p *Producer) connect(ctx context.Context) (*link, error) {
	if p.link != nil {
		return p.link, nil
	}
	wait := time.Until(p.nextDial)
	p.dialing = true
	p.mu.Unlock()
	conn, err := p.dial(ctx, wait)
	p.mu.Lock()
	p.dialing = false
	if err != nil {
		p.cannotReach(ctx)
		if ctx.Err() == nil {
			if p.dialErr = err; p.downSince.IsZero() {
				p.downSince = time.Now()
			}
			p.delayDial()
			p.broadcast()
		}
		return nil, err
	}
	l := &link{conn: conn, lastBarrier: time.Now(), until: p.serveUntil()}
	p.link = l
	if p.owner != nil {
		p.owner.setDown(false)
	}
	p.downSince, p.dialErr = time.Time{}, nil
	p.stats.Connects++
	p.readers.Go(func() { p.read(l) })
	p.cfg.Logger.Info("connected", "broker", conn.Addr())
	return l, nil
}

// unreachable tells a caller who waits for a broker when that has become
// pointless: ctx, if it has a deadline, and DialTimeout otherwise. mu is held.
func (p *Producer) unreachable(ctx context.Context) error {
	if _, ok := ctx.Deadline(); ok || p.downSince.IsZero() || time.Since(p.downSince) < p.cfg.DialTimeout {
		return nil
	}
	return p.dialErr
}

// await waits for a change on behalf of a caller who needs a broker. mu is held.
func (p *Producer) await(ctx context.Context) error {
	if err := p.unreachable(ctx); err != nil {
		return err
	}
	err := p.wait(ctx)
	if err != nil && p.dialErr != nil {
		return fmt.Errorf("%w: %w", err, p.dialErr)
	}
	return err
}

// awaitLink makes a connection for a caller who is to write. mu is held.
func (p *Producer) awaitLink(r *room) error {
	for p.link == nil {
		p.writing = true
		_, err := p.connect(r.ctx)
		p.writing = false
		p.broadcast()
		if err == nil {
			return nil
		}
		if cause := p.cannotWait(r); cause != nil {
			return cause
		}
		if r.ctx.Err() != nil {
			return err
		}
		if err := p.unreachable(r.ctx); err != nil {
			return err
		}
	}
	return nil
}

// cannotReach tells the cluster that an attempt to connect has failed, also when
// it was the caller's time that ran out: only messages that can go elsewhere are
// kept from a broker that is down, and it is tried again at once. mu is held.
func (p *Producer) cannotReach(ctx context.Context) {
	if p.owner == nil || p.closing || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p.owner.setDown(true)
	p.signal()
}

// dial waits, then tries all brokers in random order. It ends with Close, too.
func (p *Producer) dial(ctx context.Context, wait time.Duration) (*client.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var errs []error
	for _, i := range rand.Perm(len(p.cfg.Brokers)) {
		conn, err := client.Dial(ctx, p.cfg.Brokers[i], client.Config{DialTimeout: p.cfg.DialTimeout, RequestTimeout: p.cfg.RequestTimeout})
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no broker can be reached: %w", errors.Join(errs...))
}

// answers lists the answers that what is about to be written will get.
func (l *link) answers(p *Producer, out buffer, barrier bool) []client.Answer {
	if barrier {
		return []client.Answer{{MaxPayload: client.OffsetsMaxPayload(1)}}
	}
	if len(out.requests) == 0 {
		return nil
	}
	answers := make([]client.Answer, len(out.requests))
	for i := range answers {
		answers[i] = client.Answer{MaxPayload: client.AckedProduceMaxPayload, Wait: p.cfg.AckTimeout}
	}
	return answers
}

// startBarrier notes what the answer to a barrier will confirm.
func (l *link) startBarrier(round int64, written count) {
	l.barrier, l.round, l.lastBarrier = true, round, time.Now()
	l.covers = l.unconfirmed
	l.covers.add(written)
}

// read receives the answers of one connection until that is closed. It notices
// as well that a broker has hung up while nothing is being sent.
func (p *Producer) read(l *link) {
	var buf []byte
	for {
		code, payload, err := l.conn.Receive(context.Background(), buf[:0])
		buf = payload
		p.mu.Lock()
		if err != nil {
			l.err = err
			if !p.writing {
				p.broke(l, err)
				p.settleRounds()
				p.broadcast()
			} // else the writer sees l.err, or its write fails
			p.mu.Unlock()
			return
		}
		more := p.answered(l, code, payload)
		p.mu.Unlock()
		if !more {
			return
		}
	}
}

// answered takes in an answer, and reports whether more are wanted: a connection
// that was given up while this one was received has been settled, and what it
// would have confirmed is counted as lost. mu is held.
func (p *Producer) answered(l *link, code wire.Code, payload []byte) (more bool) {
	if p.link != l {
		return false
	}
	p.backoff = 0
	if p.cfg.Acks == AcksNone {
		l.unconfirmed.sub(l.covers)
		p.stats.Delivered += l.covers.messages
		p.confirmed = max(p.confirmed, l.round)
		l.barrier = false
		if !p.writing {
			p.settleRounds()
		}
		if p.hasWork(time.Now()) {
			p.signal()
		}
	} else {
		p.acknowledge(l, code, payload)
		if l.leaving && p.hasWork(time.Now()) {
			p.signal()
		}
	}
	p.broadcast()
	return true
}

// acknowledge resolves the oldest request that waits for an answer.
func (p *Producer) acknowledge(l *link, code wire.Code, payload []byte) {
	r := l.inflight[0]
	l.inflight = append(l.inflight[:0], l.inflight[1:]...)
	err := code.Err()
	if err == nil {
		_, err = wire.ParseAckedRange(payload)
	}
	if err == nil {
		p.stats.Delivered += r.messages
	}
	if code == wire.CodeWrongPartition && p.owner != nil {
		p.owner.cluster.lookSoon()
	}
	p.resolve(r, code == wire.CodeTimedOut, err)
	p.roomMade()
}

// resolve ends a request that was to be answered.
func (p *Producer) resolve(r request, unconfirmed bool, err error) {
	p.resolved++
	switch {
	case r.result != nil:
		if err != nil {
			p.stats.Failed += r.messages
		}
		r.result <- err
	case err != nil:
		p.lose(r.count, unconfirmed, err)
	}
}

// broke gives a connection up and counts what it leaves in doubt. mu is held.
func (p *Producer) broke(l *link, err error) {
	if p.link != l {
		return
	}
	p.link = nil
	if err == nil {
		err = l.err
	}
	if closeErr := l.conn.Close(); closeErr != nil {
		p.cfg.Logger.Debug("close of a broken connection", "broker", l.conn.Addr(), "error", closeErr)
	}
	doubt := l.unconfirmed
	if p.cfg.Acks == AcksNone {
		p.lose(doubt, true, err)
	}
	for _, r := range l.inflight {
		doubt.add(r.count)
		p.resolve(r, true, fmt.Errorf("no acknowledgement, so it may or may not be in the log: %w", err))
	}
	l.unconfirmed, l.inflight, l.barrier = count{}, nil, false
	// A broker that hangs up again and again, because of what it is sent, must
	// not be called in a loop; an answer ends the delay.
	p.delayDial()
	p.roomMade()
	level := slog.LevelWarn
	if p.closing && doubt.messages == 0 {
		level = slog.LevelDebug // all went well
	}
	p.cfg.Logger.Log(context.Background(), level, "connection ended", "broker", l.conn.Addr(), "error", err, "unconfirmed", doubt.messages)
}
