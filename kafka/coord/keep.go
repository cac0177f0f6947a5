package coord

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"
)

// keepSession makes one session after the other until the client is closed.
func (c *Client) keepSession() {
	var pause backoff
	for {
		s := c.newSession()
		if s == nil {
			return
		}
		if err := s.open(); err != nil {
			// The library refuses nothing that Check lets pass.
			c.log.Error("no session can be made", "error", err)
			c.tried(err)
			s.end(err)
		}
		c.await(s)
		c.goroutines.Go(s.close) // keepSession itself is one of them, so Close has not waited for all
		if s.id.Load() != 0 && time.Since(s.began) > s.Timeout() {
			pause.reset()
			continue
		}
		pause.wait(c.ctx, min(maxBackoff, s.asked()/20))
	}
}

// newSession returns the session that is to be made, or nil if the client was
// closed.
func (c *Client) newSession() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	s := &Session{
		client:      c,
		began:       time.Now(),
		established: make(chan struct{}),
		up:          make(chan struct{}),
		arms:        make(map[arm]<-chan zk.Event),
	}
	s.requests = requests{chroot: c.chroot, timeout: c.cfg.RequestTimeout, run: s.runHere}
	s.lease.wake = make(chan struct{}, 1)
	s.ring = ring{session: s, addrs: c.addrs, next: c.nextServer}
	c.nextServer = (c.nextServer + 1) % len(c.addrs)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.dials, s.stopDialing = context.WithCancel(context.Background())
	c.session = s
	return s
}

// runHere runs f in this session alone.
func (s *Session) runHere(ctx context.Context, f func(ctx context.Context, s *Session) error) error {
	return f(ctx, s)
}

// open has the library connect.
func (s *Session) open() error {
	conn, events, err := zk.Connect(s.ring.addrs, s.client.cfg.SessionTimeout,
		zk.WithHostProvider(&s.ring),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.event),
		zk.WithLogger(libraryLog{s.client.log}),
		zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxFrameBytes),
		zk.WithMaxConnBufferSize(2*maxRequestBytes),
	)
	s.conn, s.events = conn, events
	return err
}

// await makes s the live session once it is there, and returns when it is gone.
func (c *Client) await(s *Session) {
	select {
	case <-s.established:
	case <-s.ctx.Done():
		return
	}
	c.sessions.Add(1)
	c.log.Info("session made", "session", fmt.Sprintf("%#x", s.ID()), "timeout", s.Timeout())
	c.goroutines.Go(s.proveLease)
	c.publish(s)
	<-s.ctx.Done()
	if s.gone() == ErrExpired {
		c.expiries.Add(1)
	}
	c.publish(nil)
	c.log.Info("session over", "session", fmt.Sprintf("%#x", s.ID()), "cause", s.gone())
}

// publish makes s the live session, or none with nil.
func (c *Client) publish(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = s
	c.broadcast()
}

// event is told by the library, from goroutines of its own, what becomes of the
// connection. Events of nodes come by the channels of their watches.
func (s *Session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.setUp(true)
	case zk.StateDisconnected, zk.StateExpired:
		s.setUp(false)
	}
}

// setUp says whether requests can be sent.
func (s *Session) setUp(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up == s.isUp {
		return
	}
	s.isUp = up
	if !up {
		s.up, s.down = make(chan struct{}), time.Now()
		return
	}
	close(s.up)
	s.client.connects.Add(1)
	s.client.tried(nil)
	select {
	case <-s.established:
	default:
		close(s.established)
	}
}

// endTimeout is how long the server has to end a session.
const endTimeout = time.Second

// close ends a session at the server, unless it is gone there, and all that the
// library has for it. It takes 4 s at the very most: endTimeout for a connection,
// and as long as the library may wait until its queue has room and the server
// answers.
func (s *Session) close() {
	defer s.stopDialing()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	if s.conn == nil {
		return
	}
	if s.ID() != 0 {
		// A connection that has just been lost is made again for that.
		s.awaitEndOfBreak()
	}
	s.stopDialing()
	gone := s.expired.Load() || s.ID() == 0
	if gone {
		s.hangUp()
	}
	done := make(chan struct{})
	go func() {
		s.conn.Close()
		close(done)
	}()
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	// The library stops only when its connection does.
	s.hangUp()
	<-done
	for range s.events {
	}
	s.calls.Wait()
	if !gone && !s.endedAtServer() {
		s.client.notEnded(s)
	}
}

// awaitEndOfBreak waits, for endTimeout at most, while there is no connection and
// there may be one.
func (s *Session) awaitEndOfBreak() {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-up:
	case <-s.dials.Done():
	case <-timer.C:
	}
}

// endedAtServer reports whether the server has ended the session by request.
func (s *Session) endedAtServer() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil && s.link.closeAnswered.Load()
}

// notEnded keeps for Close that a session lives on.
func (c *Client) notEnded(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unended = append(c.unended, fmt.Errorf("session %#x could not be ended at the server: it and its ephemeral nodes last until %v after its last request", s.ID(), s.Timeout()))
}

// libraryLog takes what the library has to say, which repeats what is logged
// here or is returned as errors.
type libraryLog struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l libraryLog) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("zookeeper library", "message", fmt.Sprintf(format, args...))
	}
}
