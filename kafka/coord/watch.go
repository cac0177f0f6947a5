package coord

import (
	"context"
	"errors"
	"fmt"
)

// Watch follows a node: see [Client.WatchChildren] and [Client.WatchData]. Its
// methods may be called by several goroutines at the same time.
type Watch struct {
	client *Client
	path   string
	look   func(s *Session, ctx context.Context, full string) (view, error)
	tell   func(n node)

	ctx    context.Context
	cancel context.CancelFunc
	ready  chan struct{} // closed when the first state has been told
	done   chan struct{} // closed when the goroutine has ended
	err    error         // why nothing is watched at all
}

// WatchChildren calls f with the children of a node, sorted, and whether the
// node exists: first with the present state and then after each change. The node
// may be missing, vanish and come again.
//
// f is called from one goroutine, never concurrently with itself. Changes that
// come close together are told once, as the state after them. No change is
// missed for good: not over lost connections and expired sessions, nor while f
// runs. f is called also when a child was deleted and made again, and then with
// the same children as before. When ZooKeeper cannot be reached f is called only
// once it is back.
func (c *Client) WatchChildren(path string, f func(children []string, exists bool)) *Watch {
	return c.watch(path, (*Session).viewChildren, func(n node) { f(n.children, n.exists) })
}

// WatchData is WatchChildren for a node's value.
func (c *Client) WatchData(path string, f func(data []byte, exists bool)) *Watch {
	return c.watch(path, (*Session).viewData, func(n node) { f(n.data, n.exists) })
}

func (c *Client) watch(path string, look func(s *Session, ctx context.Context, full string) (view, error), tell func(n node)) *Watch {
	w := &Watch{client: c, path: path, look: look, tell: tell, ready: make(chan struct{}), done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	if err := checkPath(path); err != nil {
		w.err = fmt.Errorf("watch %s: %w", path, err)
		c.log.Error("nothing is watched", "error", w.err)
		w.cancel()
		close(w.done)
		return w
	}
	if !c.spawn(w.run) {
		w.cancel()
		close(w.done)
	}
	return w
}

// Ready waits until the first state has been told. It fails with [ErrClosed]
// when watch or client were closed, and with [ErrArgument] for a bad path.
func (w *Watch) Ready(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	default:
	}
	select {
	case <-w.ready:
		return nil
	case <-w.done:
		if w.err != nil {
			return w.err
		}
		return fmt.Errorf("watch %s: %w", w.path, ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("watch %s: %w", w.path, waitError(ctx, "no first state", w.client.lastTried()))
	}
}

// Close ends the watch. When it returns the function of the watch is not running
// and is not called any more: so it must not be called from there, nor while
// holding what that function may wait for. At the server the last one-shot watch
// stays until it fires or the session ends; a watch of the same node that is
// opened later takes it over.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// run looks, tells and waits, until the watch is closed.
func (w *Watch) run() {
	defer close(w.done)
	defer w.cancel()
	var pause backoff
	var told *node
	changed := false // a watch has fired since the last state was told
	for {
		s, err := w.client.Session(w.ctx)
		if err != nil {
			return
		}
		v, err := w.look(s, w.ctx, w.client.full(w.path))
		switch {
		case w.ctx.Err() != nil:
			return
		case errors.Is(err, ErrExpired):
			continue // Session waits for the next
		case err != nil:
			w.client.log.Warn("cannot watch", "path", w.path, "error", err)
			pause.wait(w.ctx, maxBackoff)
			continue
		}
		pause.reset()
		if told == nil || changed || differs(*told, v.node) {
			w.tell(v.node)
			if told == nil {
				close(w.ready)
			}
			told = &v.node
		}
		changed = false
		select {
		case <-v.fired:
			changed = s.ctx.Err() == nil
		case <-s.ctx.Done():
		case <-w.ctx.Done():
			return
		}
	}
}

// differs compares the states of a node at two times by what ZooKeeper counts,
// so that what was changed and changed back is a change.
func differs(a, b node) bool {
	return a.exists != b.exists || a.stat.Czxid != b.stat.Czxid || a.stat.Mzxid != b.stat.Mzxid || a.stat.Pzxid != b.stat.Pzxid || a.stat.Cversion != b.stat.Cversion
}
