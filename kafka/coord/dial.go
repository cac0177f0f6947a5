package coord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// Bounds of the time between two attempts to connect.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// backoff is a pause that doubles, up to a bound.
type backoff struct{ next time.Duration }

// wait waits for the present pause, with jitter, or the end of ctx.
func (b *backoff) wait(ctx context.Context, most time.Duration) {
	b.next = min(max(2*b.next, minBackoff), max(most, minBackoff))
	sleep(ctx, b.next/2+rand.N(b.next/2+1))
}

// reset makes the next pause a short one.
func (b *backoff) reset() { b.next = 0 }

// ring hands out the servers in turn: the library's own looks names up once and
// for all, and waits for a whole second after each round.
type ring struct {
	session *Session
	addrs   []string
	next    int
}

// Init implements zk.HostProvider.
func (r *ring) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (r *ring) Len() int { return len(r.addrs) }

// Connected implements zk.HostProvider.
func (r *ring) Connected() {}

// Next implements zk.HostProvider. The library looks whether it was closed only
// when it hears that all servers have been tried.
func (r *ring) Next() (server string, retryStart bool) {
	server = r.addrs[r.next]
	r.next = (r.next + 1) % len(r.addrs)
	return server, r.session.dials.Err() != nil
}

// dialing is how a session goes about connecting. The library dials in one
// goroutine only.
type dialing struct {
	failed int // attempts in a row over which nothing was answered
	pause  backoff
	hungUp bool // the last attempt came as far as the handshake
}

// dial is the library's dialler. It makes each pause between two attempts and,
// once the session has expired, no connection: so nothing that is left in the
// library's queue can be carried out in a session that the library would make
// by itself.
func (s *Session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	d := &s.dialing
	s.learn(d)
	if rounds := d.failed / len(s.ring.addrs); rounds > 0 && d.failed%len(s.ring.addrs) == 0 {
		d.pause.wait(s.dials, min(maxBackoff, s.asked()/6))
	}
	ctx, cancel := context.WithTimeout(s.dials, s.patience(d))
	defer cancel()
	d.failed++
	conn, err := s.client.dialer.DialContext(ctx, network, addr)
	if err != nil {
		if s.dials.Err() == nil {
			s.client.tried(s.client.unreached(addr, err))
		}
		return nil, err
	}
	seen := s.zxid.Load()
	l := &link{Conn: conn, session: s, patience: s.patience(d), seen: seen, admitted: seen, kinds: make(map[int32]int32)}
	if d.hungUp && s.longAway() {
		// A server that is behind of what was seen hangs up. If it has lost its data
		// it always will be, and never say that the session is gone.
		l.admitted = 0
	}
	if err := s.adopt(l); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

// unreached words why a server was not reached. Its address is told where there are
// several: else whoever is told has named it.
func (c *Client) unreached(addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	if len(c.addrs) > 1 {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return err
}

// learn looks how the last connection has ended, once for each.
func (s *Session) learn(d *dialing) {
	s.mu.Lock()
	last := s.link
	s.link = nil
	s.mu.Unlock()
	if last == nil {
		d.hungUp = false
		return
	}
	// Whoever the library has left it to, it is not used any more.
	_ = last.Close()
	if last.answered.Load() {
		d.failed = 0
		d.pause.reset()
	}
	d.hungUp = !last.shaken
}

// asked returns the time-out that the session has, or has asked for.
func (s *Session) asked() time.Duration {
	if d := s.Timeout(); d > 0 {
		return d
	}
	return s.client.cfg.SessionTimeout
}

// minPatience is the least that a server has time for a connection and its
// handshake.
const minPatience = 250 * time.Millisecond

// patience returns how long an attempt may take: all servers can be tried within
// the session's time-out, until that has been in vain. It begins with an eighth of
// it, as a server that is just starting takes connections and never answers them.
func (s *Session) patience(d *dialing) time.Duration {
	most := max(s.asked(), minPatience)
	n := len(s.ring.addrs)
	share := max(min(most/8, most*2/3/time.Duration(n)), minPatience)
	return min(share<<min(d.failed/n, 10), most)
}

// longAway reports whether the session has not been proved for so long that, for
// any server, it should be gone.
func (s *Session) longAway() bool {
	return s.ID() != 0 && time.Since(s.ValidUntil()) > s.asked()
}

// adopt makes l the session's connection, if it still wants one.
func (s *Session) adopt(l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dials.Err() != nil {
		return fmt.Errorf("session is over: %w", s.gone())
	}
	s.link = l
	return nil
}

// hangUp closes the connection: whatever waits for an answer is told, and the
// library makes a new one.
func (s *Session) hangUp() {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		// It is to be gone, and is not used after this.
		_ = l.Close()
	}
}
