package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Client is a sequence of sessions: when one has expired the next is made. Its
// methods may be called by several goroutines at the same time.
//
// A request of a client is carried out in the session that is live, and waits
// for one while there is none. One that was lost with its session is sent again
// in the next only if it cannot have been carried out; see [ErrInDoubt].
type Client struct {
	requests
	cfg    Config
	addrs  []string // in an order of this client
	dialer net.Dialer
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	log    *slog.Logger

	mu      sync.Mutex
	closed  bool
	session *Session      // the one that is live, or being made
	live    *Session      // it again, once it is there
	changed chan struct{} // closed, and made anew, with each change of closed and live
	lastErr error         // why the last attempt to connect failed; nil after one that did not
	unended []error       // of the sessions that could not be ended at the server
	// nextServer is the first that the next session tries.
	nextServer int

	// goroutines are all that the client has started, but for those of calls
	// that somebody waits for.
	goroutines sync.WaitGroup
	closing    sync.Once
	closeErr   error

	sessions, connects, sent, proofs, ended, expiries atomic.Int64
}

// Stats counts what a client has done since Connect.
type Stats struct {
	Sessions int64 // sessions that were made
	Connects int64 // connections over which a session was made or taken up again
	Requests int64 // requests that were sent, those that prove the lease among them
	Proofs   int64 // of them, those that prove the lease
	Ended    int64 // of the requests, those that are not under way any more
	Expiries int64 // sessions that have expired
}

// Connect makes a client and its first session, within ConnectTimeout, and the
// path that takes the place of the root, unless LeaveRoot is set. Without an answer
// it fails with [ErrUnavailable].
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	cfg, addrs, chroot, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	c := newClient(cfg, addrs, chroot)
	if err := c.start(ctx); err != nil {
		// Close has nothing to add: what failed is told.
		_ = c.Close()
		return nil, fmt.Errorf("ZooKeeper at %s: %w", cfg.Servers, err)
	}
	return c, nil
}

func newClient(cfg Config, addrs []string, chroot string) *Client {
	c := &Client{cfg: cfg, addrs: addrs, log: cfg.Logger, changed: make(chan struct{})}
	// Clients spread over the members.
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	c.requests = requests{chroot: chroot, timeout: cfg.RequestTimeout, run: c.runLive}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start waits for the first session and makes the chroot.
func (c *Client) start(ctx context.Context) error {
	ctx, cancel := bound(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	c.spawn(c.keepSession)
	if _, err := c.Session(ctx); err != nil {
		return err
	}
	if c.chroot == "" || c.cfg.LeaveRoot {
		return nil
	}
	if err := c.ensure(ctx, c.chroot); err != nil {
		return fmt.Errorf("make the root %s: %w", c.chroot, err)
	}
	return nil
}

// Session returns the live session, and waits for one while there is none.
// Live is a session until it is known to be gone, connected or not.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	return c.sessionAfter(ctx, nil)
}

// sessionAfter returns a session that is live and not the given one.
func (c *Client) sessionAfter(ctx context.Context, last *Session) (*Session, error) {
	for {
		c.mu.Lock()
		s, changed, closed := c.live, c.changed, c.closed
		c.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		if s != nil && s != last && s.ctx.Err() == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, waitError(ctx, "no session", c.lastTried())
		}
	}
}

// runLive runs f in the live session, and again in the next when the session
// had expired before the request was carried out.
func (c *Client) runLive(ctx context.Context, f func(ctx context.Context, s *Session) error) error {
	ctx, cancel := bound(ctx, c.timeout)
	defer cancel()
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		err = f(ctx, s)
		if !errors.Is(err, ErrExpired) || errors.Is(err, ErrInDoubt) || ctx.Err() != nil {
			return err
		}
	}
}

// OnSession calls f with the live session and with each later one, one after
// the other, from a goroutine of its own. f should give up when s.Context()
// ends; while it runs, newer sessions wait, and of those that have ended in the
// meantime it is told nothing. After remove, which waits for nothing, f is not
// called any more.
func (c *Client) OnSession(f func(s *Session)) (remove func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.spawn(func() {
		defer cancel()
		var last *Session
		for {
			s, err := c.sessionAfter(ctx, last)
			if err != nil {
				return
			}
			f(s)
			last = s
		}
	})
	return cancel
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	ended := c.ended.Load() // first, so that it is never more than have been sent
	return Stats{
		Ended:    ended,
		Sessions: c.sessions.Load(),
		Connects: c.connects.Load(),
		Requests: c.sent.Load(),
		Proofs:   c.proofs.Load(),
		Expiries: c.expiries.Load(),
	}
}

// spawn runs f in a goroutine that Close waits for. It reports whether it does:
// a closed client starts nothing.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.goroutines.Go(f)
	return true
}

// broadcast tells those who wait for a session. c.mu is held.
func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Close ends the session at the server, with its ephemeral nodes and watches,
// and all goroutines, within 5 s. Requests that are under way fail with
// [ErrClosed]. The error says what could not be done: a session that the server
// did not end lives there until its time-out, and a function of the caller that
// is still running is not waited for any longer. Later calls return the same.
func (c *Client) Close() error {
	c.closing.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

// closeTimeout bounds Close: the library takes up to 3 s.
const closeTimeout = 5 * time.Second

func (c *Client) close() error {
	c.mu.Lock()
	c.closed = true
	c.cancel()
	if c.session != nil {
		c.session.end(ErrClosed)
	}
	c.broadcast()
	c.mu.Unlock()

	done := make(chan struct{})
	go func() {
		c.goroutines.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return fmt.Errorf("close the connection to ZooKeeper: after %v a function given to OnSession, to a watch or to an ephemeral node is still running", closeTimeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unended) > 0 {
		return fmt.Errorf("close the connection to ZooKeeper: %w", errors.Join(c.unended...))
	}
	return nil
}

// tried keeps why an attempt to connect failed, for those who wait.
func (c *Client) tried(err error) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
}

// lastTried returns why the last attempt to connect failed.
func (c *Client) lastTried() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}
