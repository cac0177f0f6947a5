package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
)

// Ephemeral is an ephemeral node that is made again in each new session: see
// [Client.Ephemeral]. Its methods may be called by several goroutines at the
// same time.
type Ephemeral struct {
	client *Client
	path   string
	data   func() []byte

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	made    *Session // in which the node was seen last, or nil
	err     error    // why the last attempt failed
	changed chan struct{}
}

// Ephemeral keeps an ephemeral node: it is made in the live session, in each
// later one, and again when somebody deletes it. data is asked for its value
// each time; a node of the session itself is taken for it, whatever its value.
// A goroutine of its own does that until Close.
//
// While another node is in the way, it waits until that vanishes. This may be
// the node of an earlier session of this very client: ZooKeeper deletes it, and
// nothing is gained by deleting it here, while between a look and a deletion at
// its version another client could have made one with the same version.
func (c *Client) Ephemeral(path string, data func() []byte) *Ephemeral {
	e := &Ephemeral{client: c, path: path, data: data, done: make(chan struct{}), changed: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(c.ctx)
	if err := checkPath(path); err != nil {
		e.err = err
		e.cancel()
		close(e.done)
		return e
	}
	if !c.spawn(e.run) {
		e.cancel()
		close(e.done)
	}
	return e
}

// Wait waits until the node is there in the live session. When ctx ends before,
// the error says what was in the way, a *[ConflictError] if it was another node.
func (e *Ephemeral) Wait(ctx context.Context) error {
	for {
		e.mu.Lock()
		made, err, changed := e.made, e.err, e.changed
		e.mu.Unlock()
		if made != nil && made.ctx.Err() == nil && e.ctx.Err() == nil {
			return nil
		}
		select {
		case <-changed:
		case <-e.done:
			if !errors.Is(err, ErrArgument) {
				err = ErrClosed
			}
			return fmt.Errorf("ephemeral %s: %w", e.path, err)
		case <-ctx.Done():
			waited := waitError(ctx, "not made", e.client.lastTried())
			if err != nil {
				waited = fmt.Errorf("%w: %w", waited, err)
			}
			return fmt.Errorf("ephemeral %s: %w", e.path, waited)
		}
	}
}

// Close deletes the node, if it is the session's, and makes it no more. It
// returns after RequestTimeout or twice it at most, and after data. When the
// session is over nothing is left to delete.
func (e *Ephemeral) Close() error {
	e.cancel()
	<-e.done
	e.mu.Lock()
	s := e.made
	e.made = nil
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	err := e.delete(s)
	if err == nil || errors.Is(err, ErrNoNode) || s.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("ephemeral %s: close: %w", e.path, err)
}

// delete deletes the node in the session that has made it.
func (e *Ephemeral) delete(s *Session) error {
	ctx, cancel := bound(context.Background(), 2*e.client.timeout)
	defer cancel()
	full := s.full(e.path)
	n, err := s.exists(ctx, full)
	for err == nil && n.exists && n.stat.EphemeralOwner == s.ID() {
		if err = s.deleteNode(ctx, full, n.stat.Version); err == nil || !errors.Is(err, ErrInDoubt) && !errors.Is(err, ErrBadVersion) {
			return err
		}
		n, err = s.exists(ctx, full)
	}
	return err
}

// set keeps what has become of the node.
func (e *Ephemeral) set(made *Session, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made, e.err = made, err
	close(e.changed)
	e.changed = make(chan struct{})
}

// run makes the node whenever it is missing, until Close.
func (e *Ephemeral) run() {
	defer close(e.done)
	defer e.cancel()
	var pause backoff
	for {
		s, err := e.client.Session(e.ctx)
		if err != nil {
			return
		}
		fired, err := e.keep(s)
		switch {
		case e.ctx.Err() != nil:
			return
		case errors.Is(err, ErrExpired):
			continue // Session waits for the next
		case err != nil:
			e.set(nil, err)
			e.client.log.Warn("cannot make an ephemeral node", "path", e.path, "error", err)
		}
		if fired == nil {
			pause.wait(e.ctx, maxBackoff)
			continue
		}
		pause.reset()
		select {
		case <-fired:
		case <-s.ctx.Done():
		case <-e.ctx.Done():
			return
		}
	}
}

// keep makes the node if it is missing. It returns where a change of the node
// is heard of, with a *[ConflictError] if it is another's.
func (e *Ephemeral) keep(s *Session) (fired <-chan zk.Event, err error) {
	full := s.full(e.path)
	v, err := s.viewData(e.ctx, full)
	if err != nil {
		return nil, err
	}
	if !v.exists {
		if _, err := s.CreateEphemeral(e.ctx, e.path, e.data()); err != nil {
			return nil, err
		}
		if v, err = s.viewData(e.ctx, full); err != nil {
			return nil, err
		}
	}
	switch {
	case !v.exists:
		return nil, ErrNoNode // deleted at once
	case v.stat.EphemeralOwner != s.ID():
		return v.fired, &ConflictError{Path: e.path, Data: v.data, Stat: v.stat}
	}
	e.set(s, nil)
	return v.fired, nil
}
