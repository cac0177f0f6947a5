package coord

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// started is where monotonic times of this package count from.
var started = time.Now()

// elapsed returns the monotonic time.
func elapsed() time.Duration { return time.Since(started) }

// lease is how long a session may be relied on.
type lease struct {
	until atomic.Int64 // the end, as of elapsed, in nanoseconds

	mu    sync.Mutex
	over  bool
	sent  time.Duration // of the last proof, as of elapsed
	holds int
	wake  chan struct{} // has room for one; told when holds goes up
}

// Valid reports whether the session may be relied on: less than one negotiated
// time-out has passed, by the monotonic clock, since the sending of the last
// proof that the server has answered. It turns false by the clock alone, and for
// good when the session is known to be gone. It costs one look at the clock, no
// lock and no memory.
//
// Proofs are the handshakes with which the session is made and taken up again
// and, while somebody keeps the lease, a sync every third of the time-out. See
// the package comment for what follows from them.
func (s *Session) Valid() bool { return int64(elapsed()) < s.lease.until.Load() }

// ValidUntil returns when the lease ends or has ended, with a monotonic reading:
// compare it with time.Now. Of a session that is gone it is in the past.
func (s *Session) ValidUntil() time.Time {
	return started.Add(time.Duration(s.lease.until.Load()))
}

// KeepLease has the session proved every third of its time-out, the first time
// at once if the last proof is older, until stop. Several may keep it; idle
// clients, which nobody asks for their lease, cause nothing but pings.
func (s *Session) KeepLease() (stop func()) {
	s.lease.hold(1)
	var once sync.Once
	return func() { once.Do(func() { s.lease.hold(-1) }) }
}

func (l *lease) hold(n int) {
	l.mu.Lock()
	l.holds += n
	l.mu.Unlock()
	if n > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// prove makes the lease last for timeout from when an answered proof was sent.
func (l *lease) prove(sent, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || sent < l.sent {
		return
	}
	l.sent = sent
	l.until.Store(int64(sent + timeout))
}

// end ends the lease for good.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.until.Store(min(l.until.Load(), int64(elapsed())))
}

// next returns how long it is until a proof is due, if one is.
func (l *lease) next(timeout time.Duration) (wait time.Duration, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + timeout/3 - elapsed(), l.holds > 0
}

// proveLease sends proofs as long as the session lives.
func (s *Session) proveLease() {
	for s.ctx.Err() == nil {
		timeout := s.Timeout()
		wait, held := s.lease.next(timeout)
		switch {
		case !held:
			select {
			case <-s.lease.wake:
			case <-s.ctx.Done():
			}
		case wait > 0:
			sleep(s.ctx, wait)
		default:
			if err := s.prove(timeout); err != nil {
				sleep(s.ctx, max(timeout/20, minBackoff))
			}
		}
	}
}

// prove sends one proof. Its time is that before it is given to the library, so
// that it cannot be later than the sending. A proof whose answer comes too late
// for the lease that it would give is worth nothing, so it is not waited for.
func (s *Session) prove(timeout time.Duration) error {
	ctx, cancel := bound(s.ctx, timeout)
	defer cancel()
	sent, err := request(ctx, s, proof, func(c *zk.Conn) (time.Duration, error) {
		sent := elapsed()
		s.client.proofs.Add(1)
		_, err := c.Sync("/")
		return sent, err
	})
	if err == nil {
		s.lease.prove(sent, timeout)
	}
	return err
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
