package producer

import (
	"math/rand/v2"
	"time"
)

// serveUntil returns when a connection that is made now has served long enough. The
// first one ends at a moment of chance within its time, as in 0.7.
func (p *Producer) serveUntil() time.Time {
	d := p.cfg.ReconnectInterval
	if d <= 0 {
		return time.Time{}
	}
	if p.stats.Connects == 0 {
		d = rand.N(d) + 1
	}
	return time.Now().Add(d)
}

// renew gives the connection up if it has served long enough and nothing on it is
// in doubt; if something is, it is to be left: nothing more is written to it but
// the barrier that settles the matter. mu is held, and writing is not another's.
func (p *Producer) renew() {
	l := p.link
	if l == nil {
		return
	}
	l.leaving = l.leaving || p.cfg.ReconnectRequests > 0 && l.requests >= int64(p.cfg.ReconnectRequests) ||
		!l.until.IsZero() && !time.Now().Before(l.until)
	if !l.leaving || l.inDoubt() {
		return
	}
	p.link = nil
	if err := l.conn.Close(); err != nil {
		p.cfg.Logger.Debug("close of a connection that has served", "broker", l.conn.Addr(), "error", err)
	}
}

// inDoubt reports whether the end of the connection would leave it unknown what has
// become of messages.
func (l *link) inDoubt() bool {
	return l.barrier || l.unconfirmed.messages > 0 || len(l.inflight) > 0
}
