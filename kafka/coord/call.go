package coord

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// openACL lets everybody do everything, as Kafka 0.7 has it.
var openACL = zk.WorldACL(zk.PermAll)

// effect says what may be done about a lost answer.
type effect int

const (
	read   effect = iota // the request is sent again
	change               // the error is ErrInDoubt
	proof                // the error is ErrUnavailable
)

// errTimeout is the cause of a context that bound has ended.
var errTimeout = errors.New("time-out")

// bound returns a context that ends after d at the latest.
func bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// waitError returns the error of a wait that has ended with ctx: ErrUnavailable
// if time has run out, and the error of the caller's context if it was that.
func waitError(ctx context.Context, missing string, lastErr error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == errTimeout:
		cause = fmt.Errorf("%w: %s in time", ErrUnavailable, missing)
	case errors.Is(cause, context.DeadlineExceeded):
		cause = fmt.Errorf("%w: %w: %s in time", ErrUnavailable, cause, missing)
	default:
		cause = fmt.Errorf("%w: %s", cause, missing)
	}
	if lastErr != nil {
		// Not wrapped: it may be a time-out of its own.
		return fmt.Errorf("%w: last attempt to connect: %v", cause, lastErr)
	}
	return cause
}

// answer is what the library returned.
type answer[T any] struct {
	value T
	err   error
}

// request runs one call of the library while the session lives, bounded by ctx
// and RequestTimeout.
//
// The library offers no way to take a request back. The call is therefore left
// to a goroutine, which ends when the answer comes or the connection is lost;
// hangUp sees to the second after RequestTimeout. To keep those goroutines few,
// nothing is given to the library while there is no connection.
func request[T any](ctx context.Context, s *Session, e effect, call func(c *zk.Conn) (T, error)) (T, error) {
	var zero T
	ctx, cancel := bound(ctx, s.requests.timeout)
	defer cancel()
	for {
		if err := s.awaitLink(ctx); err != nil {
			return zero, err
		}
		ch := make(chan answer[T], 1)
		if !s.start(func() {
			v, err := call(s.conn)
			ch <- answer[T]{v, err}
		}) {
			return zero, s.gone()
		}
		var a answer[T]
		select {
		case a = <-ch:
		case <-s.ctx.Done():
			// What has been answered counts.
			select {
			case a = <-ch:
			default:
				return zero, inDoubt(e, s.gone())
			}
		case <-ctx.Done():
			return zero, inDoubt(e, waitError(ctx, "no answer", nil))
		}
		err, again := s.judge(a.err, e)
		if !again {
			return a.value, err
		}
	}
}

// start runs a call of the library in a goroutine and bounds it. It reports
// whether it does: after the session's end nothing is begun.
func (s *Session) start(call func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.ctx.Err() != nil {
		return false
	}
	s.client.sent.Add(1)
	s.calls.Go(func() {
		defer s.client.ended.Add(1)
		hung := time.AfterFunc(s.requests.timeout, s.hangUp)
		defer hung.Stop()
		call()
	})
	return true
}

// judge makes of the library's error one of this package. again says that the
// request should be sent again.
func (s *Session) judge(err error, e effect) (_ error, again bool) {
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, zk.ErrNoServer):
		// Was never sent.
		return nil, true
	case errors.Is(err, zk.ErrSessionMoved):
		// The server has left the request alone, as it came over a connection that
		// the session has been taken away from.
		s.hangUp()
		return nil, e != proof
	case lost(err):
		if gone := s.gone(); gone != nil {
			return inDoubt(e, gone), false
		}
		if e == read {
			return nil, true
		}
		return inDoubt(e, fmt.Errorf("%w: connection lost before the answer", ErrUnavailable)), false
	}
	err = refusal(err)
	if err == ErrExpired {
		s.end(ErrExpired)
	}
	return err, false
}

// lost reports whether an error means that the connection was lost before the
// answer. The one that was being written as it broke has the network's own.
func lost(err error) bool {
	var broken net.Error
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) || errors.As(err, &broken)
}

// inDoubt adds to the error of a change that its answer is missing.
func inDoubt(e effect, err error) error {
	if e == change {
		return fmt.Errorf("%w: %w", err, ErrInDoubt)
	}
	return err
}

// awaitLink waits until requests can be sent.
func (s *Session) awaitLink(ctx context.Context) error {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if gone := s.gone(); gone != nil {
		return gone
	}
	if ctx.Err() != nil {
		return waitError(ctx, "not sent", nil)
	}
	select {
	case <-s.ctx.Done():
		return s.gone()
	case <-up:
		return nil
	case <-ctx.Done():
		return waitError(ctx, "no connection", s.client.lastTried())
	}
}

func (s *Session) get(ctx context.Context, full string) (node, error) {
	return request(ctx, s, read, func(c *zk.Conn) (node, error) {
		data, st, err := c.Get(full)
		if err != nil {
			return node{}, err
		}
		return node{data: data, stat: Stat(*st), exists: true}, nil
	})
}

func (s *Session) exists(ctx context.Context, full string) (node, error) {
	return request(ctx, s, read, func(c *zk.Conn) (node, error) {
		ok, st, err := c.Exists(full)
		if err != nil || !ok {
			return node{}, err
		}
		return node{stat: Stat(*st), exists: true}, nil
	})
}

func (s *Session) children(ctx context.Context, full string) (node, error) {
	return request(ctx, s, read, func(c *zk.Conn) (node, error) {
		names, st, err := c.Children(full)
		if err != nil {
			return node{}, err
		}
		return sortedNode(names, st), nil
	})
}

func (s *Session) set(ctx context.Context, full string, data []byte, version int32) (Stat, error) {
	return request(ctx, s, change, func(c *zk.Conn) (Stat, error) {
		st, err := c.Set(full, data, version)
		if err != nil {
			return Stat{}, err
		}
		return Stat(*st), nil
	})
}

// createNode makes a node. Those above it must be there.
func (s *Session) createNode(ctx context.Context, full string, data []byte, flags int32) error {
	_, err := request(ctx, s, change, func(c *zk.Conn) (string, error) {
		return c.Create(full, data, flags, openACL)
	})
	return err
}

func (s *Session) deleteNode(ctx context.Context, full string, version int32) error {
	_, err := request(ctx, s, change, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.Delete(full, version)
	})
	return err
}

// createEphemeral makes an ephemeral node, those above it if need be, and asks
// again when the answer is lost.
func (s *Session) createEphemeral(ctx context.Context, path string, data []byte) (Stat, error) {
	full := s.full(path)
	for round := 0; ; round++ {
		err := withParents(ctx, full, s.createParents, func() error {
			return s.createNode(ctx, full, data, zk.FlagEphemeral)
		})
		if errors.Is(err, ErrInDoubt) && s.ctx.Err() == nil && ctx.Err() == nil && round < maxRounds {
			continue
		}
		if err != nil && !errors.Is(err, ErrExists) {
			return Stat{}, err
		}
		found, err := s.get(ctx, full)
		switch {
		case errors.Is(err, ErrNoNode) && round < maxRounds:
			// What was in the way has vanished, or somebody has deleted ours.
		case err != nil:
			return Stat{}, err
		case found.stat.EphemeralOwner == s.ID() && string(found.data) == string(data):
			return found.stat, nil
		default:
			return Stat{}, &ConflictError{Path: path, Data: found.data, Stat: found.stat}
		}
	}
}
