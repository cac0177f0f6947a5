package coord

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// arm names a one-shot watch of a session: armed at the server until it fires.
// ZooKeeper has no way to take one back that the library knows, so all that
// watch the same share it: else each watch that is closed and opened again, and
// each that reads again after an error, would leave one behind.
type arm struct {
	kind armKind
	full string
}

type armKind int

const (
	armData     armKind = iota // value or deletion of a node
	armChildren                // its children, or its deletion
	armMissing                 // its creation
)

// view is what a watch has seen, and where it hears that this has changed.
type view struct {
	node
	fired <-chan zk.Event // receives or is closed when it fires, or the session ends
}

// armed returns the channel of a watch that is armed and has not fired. A read
// that follows is covered by it: what changes after the read fires it.
func (s *Session) armed(a arm) <-chan zk.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, ok := s.arms[a]
	if !ok {
		return nil
	}
	select {
	case <-ch:
		delete(s.arms, a)
		return nil
	default:
		return ch
	}
}

// setArmed keeps the channel of a watch for those who come later.
func (s *Session) setArmed(a arm, ch <-chan zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arms[a] = ch
}

// viewData reads a node's value, or that it is missing, and watches it.
func (s *Session) viewData(ctx context.Context, full string) (view, error) {
	return s.view(ctx, full, func(c *zk.Conn) (view, error) {
		a := arm{armData, full}
		ch := s.armed(a)
		var data []byte
		var st *zk.Stat
		var err error
		if ch != nil {
			data, st, err = c.Get(full)
		} else if data, st, ch, err = c.GetW(full); err == nil {
			s.setArmed(a, ch)
		}
		if err != nil {
			return view{}, err
		}
		return view{node{data: data, stat: Stat(*st), exists: true}, ch}, nil
	})
}

// viewChildren reads the names of a node's children, or that it is missing, and
// watches them.
func (s *Session) viewChildren(ctx context.Context, full string) (view, error) {
	return s.view(ctx, full, func(c *zk.Conn) (view, error) {
		a := arm{armChildren, full}
		ch := s.armed(a)
		var names []string
		var st *zk.Stat
		var err error
		if ch != nil {
			names, st, err = c.Children(full)
		} else if names, st, ch, err = c.ChildrenW(full); err == nil {
			s.setArmed(a, ch)
		}
		if err != nil {
			return view{}, err
		}
		return view{sortedNode(names, st), ch}, nil
	})
}

// view calls look, and watches for the node's creation if it is missing. A node
// that has come into being in between is looked at again.
func (s *Session) view(ctx context.Context, full string, look func(c *zk.Conn) (view, error)) (view, error) {
	for {
		v, err := request(ctx, s, read, look)
		if !errors.Is(err, ErrNoNode) {
			return v, err
		}
		v, err = request(ctx, s, read, func(c *zk.Conn) (view, error) { return s.viewMissing(c, full) })
		if err != nil || !v.exists {
			return v, err
		}
	}
}

// viewMissing watches for a node's creation.
func (s *Session) viewMissing(c *zk.Conn, full string) (view, error) {
	a := arm{armMissing, full}
	ch := s.armed(a)
	var exists bool
	var err error
	if ch != nil {
		exists, _, err = c.Exists(full)
	} else if exists, _, ch, err = c.ExistsW(full); err == nil {
		if exists { // the library has armed the other kind
			a.kind = armData
		}
		s.setArmed(a, ch)
	}
	if err != nil {
		return view{}, err
	}
	return view{node{exists: exists}, ch}, nil
}
