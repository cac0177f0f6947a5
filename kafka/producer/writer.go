package producer

import (
	"context"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// confirmInterval is how often an unacknowledged producer asks whether what it
// has written was read: it bounds what a broken connection leaves in doubt.
const confirmInterval = time.Second

// run is the writer goroutine: it writes what has gathered as soon as the last
// write has returned, closes batches that are due, and sends barriers.
func (p *Producer) run() {
	defer close(p.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.ctx.Err() == nil {
		now := time.Now()
		due := p.closeDue(now)
		if !p.writing && p.hasWork(now) {
			if _, err := p.drain(p.ctx, true); err != nil && p.ctx.Err() == nil {
				p.cfg.Logger.Warn("sending failed", "error", err)
			}
			continue
		}
		if l := p.link; l != nil && l.unconfirmed.messages > 0 && !l.barrier {
			if t := l.lastBarrier.Add(confirmInterval); due.IsZero() || t.Before(due) {
				due = t
			}
		}
		var expired <-chan time.Time
		if !due.IsZero() {
			timer.Reset(time.Until(due))
			expired = timer.C
		}
		p.idle = true
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-expired:
		case <-p.ctx.Done():
		}
		p.mu.Lock()
		p.idle = false
	}
}

// hasWork reports whether there is something to write.
func (p *Producer) hasWork(now time.Time) bool {
	if p.wantsBarrier(now) {
		return true
	}
	if l := p.link; l != nil && l.leaving && l.inDoubt() {
		return false // the rest is for the next connection
	}
	return len(p.fill.b) > 0 || p.probes()
}

// probes reports whether it is time to find out if the broker is back. A cluster
// sends nothing, but for what has a key, to a broker that is down.
func (p *Producer) probes() bool {
	return p.owner != nil && p.link == nil && !p.closing && p.owner.down.Load()
}

// wantsBarrier reports whether a barrier is to be sent behind what is written
// next.
func (p *Producer) wantsBarrier(now time.Time) bool {
	l := p.link
	if p.cfg.Acks != AcksNone || l == nil || l.barrier || l.unconfirmed.messages+p.fill.count.messages == 0 {
		return false
	}
	if l.leaving {
		return l.unconfirmed.messages > 0
	}
	return p.wanted > p.confirmed || now.Sub(l.lastBarrier) >= confirmInterval
}

// drain writes what has gathered over the connection, which it makes if need
// be. mu is held, writing is not set. Of what could not be written, requests
// that were not begun stay for the next connection if retain is set; the
// others are lost and reported. Without retain the error is the report, and refused
// the number of messages that a broker cannot have.
func (p *Producer) drain(ctx context.Context, retain bool) (refused int, err error) {
	p.writing = true
	defer func() {
		p.writing = false
		p.settleRounds()
		if p.hasWork(time.Now()) {
			p.signal()
		}
		p.broadcast()
	}()
	if retain { // else it was done before the request was encoded, which must not be left to a new connection
		p.renew()
	}
	l, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	barrier := p.wantsBarrier(time.Now())
	out, round := p.spare, p.wanted
	if p.spare = (buffer{}); !l.leaving {
		out, p.fill = p.fill, out
	} else if len(p.fill.b) > 0 {
		round = p.confirmed // it does not reach to the end of what was taken
	}
	l.requests += int64(out.frames)
	if p.cfg.Acks == AcksNone {
		p.flying = out.count
	}
	l.inflight = append(l.inflight, out.requests...)
	p.closeFull()
	p.broadcast() // there is room again
	data := len(out.b)
	answers := l.answers(p, out, barrier)
	if barrier {
		out.b = wire.AppendOffsets(out.b, p.topic, 0, wire.TimeLatest, 1)
		l.startBarrier(round, out.count)
	}
	p.mu.Unlock()
	n, writes, err := p.write(ctx, l, out.b, answers)
	p.mu.Lock()
	p.flying = count{}
	p.stats.Writes += int64(writes)
	if err == nil {
		p.written(l, out.count)
	} else {
		refused = p.writeFailed(l, &out, data, n, retain, err)
	}
	if err != nil || l.err != nil {
		p.broke(l, err)
	}
	out.reset(p.cfg.MaxBufferBytes)
	p.spare = out
	if !retain && n >= data {
		return 0, nil // only the barrier behind it failed; what that means has been noted
	}
	return refused, err
}

// write writes requests, with one system call or with one for each.
func (p *Producer) write(ctx context.Context, l *link, b []byte, answers []client.Answer) (n, writes int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if !p.cfg.NoCoalesce {
		n, err = l.conn.Send(ctx, b, answers...)
		return n, 1, err
	}
	for n < len(b) && err == nil {
		// With acks each request has an answer; without, only a barrier has,
		// and it comes last.
		end, mine := n+frameSize(b[n:]), answers
		switch {
		case p.cfg.Acks != AcksNone:
			mine, answers = answers[:1], answers[1:]
		case end < len(b):
			mine = nil
		}
		var m int
		m, err = l.conn.Send(ctx, b[n:end], mine...)
		n += m
		writes++
	}
	return n, writes, err
}

// written notes what a barrier is to confirm. With acks each request is in
// inflight instead, and there are no barriers.
func (p *Producer) written(l *link, c count) {
	if p.cfg.Acks == AcksNone {
		l.unconfirmed.add(c)
	}
}

// writeFailed sorts the requests of a failed write, of whose first data bytes
// n were written: complete ones may have arrived, the one that was cut has not
// (a broker reads whole requests), the rest can still be sent. The one that was cut
// is lost, too: it may be what the broker has hung up on, and would be again.
// Without retain it returns how many messages have not arrived.
func (p *Producer) writeFailed(l *link, out *buffer, data, n int, retain bool, err error) (refused int) {
	frames, end, cutEnd := wholeFrames(out.b[:data], min(n, data))
	if !retain {
		cutEnd = data
	}
	p.written(l, countFrames(out.b[:end]))
	gone := frames
	if cutEnd > end {
		gone++
	}
	rest := buffer{b: out.b[cutEnd:data], count: countFrames(out.b[cutEnd:data]), frames: out.frames - gone, keys: skipKeys(out.keys, gone)}
	lost := countFrames(out.b[end:cutEnd])
	if p.cfg.Acks != AcksNone {
		// The last of inflight are out's, in the same order; but the first of
		// out's are gone from it if they were answered while it was written.
		mine := l.inflight[max(len(l.inflight)-len(out.requests), 0):]
		sent := frames - (len(out.requests) - len(mine))
		var cut []request
		switch {
		case sent < 0:
			// Answers to what was never written: the peer is no broker, and
			// nobody knows which of the rest they were for.
			sent, cut, rest, lost = 0, mine, buffer{}, count{}
			for _, r := range cut {
				lost.add(r.count)
			}
		case !retain:
			cut = mine[sent:]
		case cutEnd > end:
			cut = mine[sent : sent+1]
		}
		p.resolved += int64(len(cut))
		rest.requests = append(rest.requests, mine[sent+len(cut):]...)
		l.inflight = l.inflight[:len(l.inflight)-len(mine)+sent]
	}
	if !retain {
		p.untake(lost)
		return int(lost.messages)
	}
	p.lose(lost, false, err)
	if len(rest.b) > 0 {
		old := out.b
		out.b = p.fill.prepend(rest, old)
	}
	if p.retired {
		p.left = append(p.left, p.takeBack(everything)...)
	}
	return 0
}

// untake corrects the counts for messages that Send refuses after all.
func (p *Producer) untake(c count) {
	p.stats.Sent -= c.messages
	p.stats.Bytes -= c.bytes
}

// settleRounds confirms all rounds of Flush when nothing is left that could be
// confirmed: after a broken connection whose losses have been noted.
func (p *Producer) settleRounds() {
	if len(p.fill.b) == 0 && (p.link == nil || p.link.unconfirmed.messages == 0) {
		p.confirmed = p.wanted
	}
}

// settleIfIdle is settleRounds for one who is not the writer.
func (p *Producer) settleIfIdle() {
	if !p.writing || p.dialing {
		p.settleRounds()
	}
}
