package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// Stat is what ZooKeeper keeps about a node.
type Stat struct {
	Czxid          int64 // transaction that made the node
	Mzxid          int64 // last transaction that set its value
	Ctime          int64 // of Czxid, milliseconds since the epoch by the server's clock
	Mtime          int64 // of Mzxid, likewise
	Version        int32 // how often the value was set since the node was made
	Cversion       int32 // how often a child was made or deleted
	Aversion       int32 // how often the access control list was set
	EphemeralOwner int64 // session of an ephemeral node, 0 of a persistent one
	DataLength     int32 // bytes of the value
	NumChildren    int32
	Pzxid          int64 // last transaction that made or deleted a child
}

// requests are what a [Client] and a [Session] can be asked for.
type requests struct {
	chroot  string
	timeout time.Duration // of one request
	// run calls f with the session that a request is for, and again with a later
	// one if that is allowed and f's was over before anything was done.
	run func(ctx context.Context, f func(ctx context.Context, s *Session) error) error
}

// full returns the path as the server knows it.
func (r *requests) full(path string) string {
	if path == "/" && r.chroot != "" {
		return r.chroot
	}
	return r.chroot + path
}

// node is a node as a read finds it.
type node struct {
	data     []byte
	children []string
	stat     Stat
	exists   bool
}

// Get returns the value of a node, nil if it has none.
func (r *requests) Get(ctx context.Context, path string) (data []byte, st Stat, err error) {
	n, err := r.read(ctx, "get", path, (*Session).get)
	return n.data, n.stat, err
}

// Exists says whether there is a node.
func (r *requests) Exists(ctx context.Context, path string) (Stat, bool, error) {
	n, err := r.read(ctx, "exists", path, (*Session).exists)
	return n.stat, n.exists, err
}

// Children returns the names of the nodes below a node, sorted as strings.
func (r *requests) Children(ctx context.Context, path string) ([]string, Stat, error) {
	n, err := r.read(ctx, "children of", path, (*Session).children)
	return n.children, n.stat, err
}

// read runs one of the reads, which may be repeated at will.
func (r *requests) read(ctx context.Context, what, path string, get func(s *Session, ctx context.Context, full string) (node, error)) (n node, err error) {
	if err = checkPath(path); err == nil {
		err = r.run(ctx, func(ctx context.Context, s *Session) (err error) {
			n, err = get(s, ctx, r.full(path))
			return err
		})
	}
	if err != nil {
		return node{}, fmt.Errorf("%s %s: %w", what, path, err)
	}
	return n, nil
}

// Set gives a node a value if its version is the given one, or -1.
func (r *requests) Set(ctx context.Context, path string, data []byte, version int32) (st Stat, err error) {
	if err = checkRequest(path, data); err == nil {
		err = r.run(ctx, func(ctx context.Context, s *Session) (err error) {
			st, err = s.set(ctx, r.full(path), data, version)
			return err
		})
	}
	if err != nil {
		return Stat{}, fmt.Errorf("set %s: %w", path, err)
	}
	return st, nil
}

// Create makes a persistent node and, where they are missing, those above it,
// which have no value. data nil is no value.
func (r *requests) Create(ctx context.Context, path string, data []byte) error {
	err := checkRequest(path, data)
	if err == nil {
		err = r.create(ctx, r.full(path), data)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func (r *requests) create(ctx context.Context, full string, data []byte) error {
	return withParents(ctx, full, r.createParents, func() error {
		return r.run(ctx, func(ctx context.Context, s *Session) error {
			return s.createNode(ctx, full, data, zk.FlagPersistent)
		})
	})
}

// Put gives a node a value, and makes it, persistent, if it is missing. A lost
// answer is asked for again, so the node's version may grow by more than one.
// Context and RequestTimeout bound the whole.
func (r *requests) Put(ctx context.Context, path string, data []byte) error {
	err := checkRequest(path, data)
	if err == nil {
		err = r.put(ctx, path, data)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", path, err)
	}
	return nil
}

func (r *requests) put(ctx context.Context, path string, data []byte) error {
	full := r.full(path)
	ctx, cancel := bound(ctx, r.timeout)
	defer cancel()
	for {
		err := r.run(ctx, func(ctx context.Context, s *Session) error {
			_, err := s.set(ctx, full, data, -1)
			return err
		})
		if errors.Is(err, ErrNoNode) {
			err = r.create(ctx, full, data)
		}
		// Made or deleted by somebody in between, or without an answer.
		again := errors.Is(err, ErrExists) || errors.Is(err, ErrNoNode) || errors.Is(err, ErrInDoubt)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// Delete deletes a node without children if its version is the given one, or -1.
func (r *requests) Delete(ctx context.Context, path string, version int32) error {
	err := checkPath(path)
	if err == nil {
		err = r.run(ctx, func(ctx context.Context, s *Session) error {
			return s.deleteNode(ctx, r.full(path), version)
		})
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// DeleteTree deletes a node and all below it, one by one, those that come into
// being meanwhile too. That a node is missing is fine. The root stays.
func (r *requests) DeleteTree(ctx context.Context, path string) error {
	err := checkPath(path)
	if err == nil {
		err = r.deleteTree(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("delete all of %s: %w", path, err)
	}
	return nil
}

func (r *requests) deleteTree(ctx context.Context, path string) error {
	for {
		names, _, err := r.Children(ctx, path)
		if errors.Is(err, ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := r.deleteTree(ctx, join(path, name)); err != nil {
				return err
			}
		}
		if path == "/" {
			return nil
		}
		err = r.Delete(ctx, path, -1)
		switch {
		case err == nil || errors.Is(err, ErrNoNode):
			return nil
		case ctx.Err() != nil:
			return err
		case !errors.Is(err, ErrNotEmpty) && !errors.Is(err, ErrInDoubt):
			return err
		}
	}
}

// join returns the path of a child.
func join(path, name string) string {
	if path == "/" {
		return path + name
	}
	return path + "/" + name
}

// createParents makes the nodes above one, where they are missing.
func (r *requests) createParents(ctx context.Context, full string) error {
	above := parent(full)
	if above == "/" {
		return nil
	}
	return r.ensure(ctx, above)
}

// maxRounds bounds how often what somebody else undoes, or what a connection
// breaks at, is done again.
const maxRounds = 10

// ensure makes a node without a value, and those above it, where they are
// missing.
func (r *requests) ensure(ctx context.Context, full string) error {
	for round := 0; ; round++ {
		err := r.create(ctx, full, nil)
		if errors.Is(err, ErrExists) {
			return nil
		}
		if !errors.Is(err, ErrInDoubt) || ctx.Err() != nil || round == maxRounds {
			return err
		}
	}
}

// withParents calls create, and again when the nodes above have been made.
func withParents(ctx context.Context, full string, parents func(ctx context.Context, full string) error, create func() error) error {
	for round := 0; ; round++ {
		err := create()
		if !errors.Is(err, ErrNoNode) || round == maxRounds {
			return err
		}
		if err := parents(ctx, full); err != nil {
			return fmt.Errorf("nodes above: %w", err)
		}
	}
}

// sortedNode returns what a read of a node's children found.
func sortedNode(names []string, st *zk.Stat) node {
	slices.Sort(names)
	return node{children: names, stat: Stat(*st), exists: true}
}
