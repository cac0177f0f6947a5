package vfs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// OpKind names an operation of a [Mem] that a [Hook] sees.
type OpKind string

// The operations that a hook sees. Listing, describing and locking are not
// among them.
const (
	OpCreate   OpKind = "create"
	OpOpen     OpKind = "open"
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpSync     OpKind = "sync"
	OpTruncate OpKind = "truncate"
	OpRemove   OpKind = "remove"
	OpRename   OpKind = "rename"
	OpMkdir    OpKind = "mkdir"
	OpSyncDir  OpKind = "syncdir"
)

// Changes reports whether the operation can alter what a crash leaves.
func (k OpKind) Changes() bool { return k != OpOpen && k != OpRead }

// Op is one operation that is about to happen.
type Op struct {
	Kind OpKind
	Path string
	Size int // bytes to be read or written
}

// Hook is asked before each operation and makes it fail by returning an error.
// It runs without a lock, so it may wait, and may call the file system's own
// methods.
type Hook func(Op) error

// TornWrite, returned by a hook for a write, lets the first Bytes bytes through
// and then fails with Err.
type TornWrite struct {
	Bytes int
	Err   error
}

func (t *TornWrite) Error() string { return fmt.Sprintf("torn after %d bytes: %v", t.Bytes, t.Err) }

// ErrSyncLost, returned by a hook for the sync of a file, lets the sync report
// success although what it was to make safe is lost: a disk that lies.
var ErrSyncLost = errors.New("sync lost")

// SetHook replaces the hook; nil takes it away.
func (m *Mem) SetHook(h Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

func (m *Mem) ask(op Op) error {
	m.mu.Lock()
	h := m.hook
	m.mu.Unlock()
	if h == nil {
		return nil
	}
	return h(op)
}

// FailNth returns a hook that makes the nth operation of a kind (from 1) fail
// with err, and no other.
func FailNth(kind OpKind, n int, err error) Hook {
	var mu sync.Mutex
	return func(op Op) error {
		if op.Kind != kind {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			return err
		}
		return nil
	}
}

// sector is the unit in which a disk writes whole; a crash keeps or loses it.
const sector = 512

// CrashClone returns the file system as a crash of the machine at this moment
// would leave it. With a nil rng only what was synced is there. Otherwise each
// thing that was not synced is there or not by chance: folder entries one by
// one, the size of a file, which may then end in the middle of a write, and its
// content by sectors, where a lost one shows what was there before or zeros.
// Locks, the hook and open files are not cloned; the clock is.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem(m.now)
	c.root = crashed(m.root, rng)
	return c
}

// Clone returns a copy of everything, as after an orderly stop of the machine.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem(m.now)
	c.root = copied(m.root)
	return c
}

// KillClone returns the file system as the end of a process leaves it:
// everything that was written is there, and what was not synced is still not
// safe from a crash of the machine.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem(m.now)
	c.root = killed(m.root, map[*node]*node{})
	return c
}

// DropCache makes reads of a file show what is safe of it, and zeros elsewhere.
// A kernel that is short of memory does so to what a failed sync has dropped.
func (m *Mem) DropCache(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return pathError("drop cache", name, err)
	}
	n.data = resized(slices.Clone(n.safe), len(n.data))
	return nil
}

func crashed(n *node, rng *rand.Rand) *node {
	if !n.isDir() {
		content := crashedContent(n, rng)
		return &node{name: n.name, mtime: n.mtime, data: content, safe: slices.Clone(content)}
	}
	entries := maps.Clone(n.synced)
	if rng != nil {
		names := map[string]bool{}
		for name := range n.entries {
			names[name] = true
		}
		for name := range n.synced {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if n.entries[name] == n.synced[name] || rng.IntN(2) == 0 {
				continue
			}
			if now := n.entries[name]; now != nil {
				entries[name] = now
			} else {
				delete(entries, name)
			}
		}
	}
	d := newFolder(n.name)
	d.mtime = n.mtime
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		child := crashed(entries[name], rng)
		child.name = name
		d.entries[name], d.synced[name] = child, child
	}
	return d
}

func crashedContent(n *node, rng *rand.Rand) []byte {
	if rng == nil {
		return slices.Clone(n.safe)
	}
	size := len(n.safe)
	switch low, high := min(len(n.safe), len(n.data)), max(len(n.safe), len(n.data)); rng.IntN(3) {
	case 0:
		size = len(n.data)
	case 1:
		size = low + rng.IntN(high-low+1)
	}
	content := resized(slices.Clone(n.safe), size)
	for at := 0; at < min(size, len(n.data)); at += sector {
		if rng.IntN(2) == 0 {
			copy(content[at:min(at+sector, size)], n.data[at:])
		}
	}
	return content
}

func copied(n *node) *node {
	c := &node{name: n.name, mtime: n.mtime, data: slices.Clone(n.data)}
	c.safe = slices.Clone(c.data)
	if n.isDir() {
		c.entries, c.synced = map[string]*node{}, map[string]*node{}
		for name, child := range n.entries {
			cc := copied(child)
			c.entries[name], c.synced[name] = cc, cc
		}
	}
	return c
}

// killed copies a node with what is safe of it. A file can have two names, its
// old one and its safe one, so nodes that were copied are remembered.
func killed(n *node, copies map[*node]*node) *node {
	if c := copies[n]; c != nil {
		return c
	}
	c := &node{name: n.name, mtime: n.mtime, data: slices.Clone(n.data), safe: slices.Clone(n.safe), dirtyLow: n.dirtyLow, dirtyHigh: n.dirtyHigh}
	copies[n] = c
	for _, s := range n.syncing { // the process ends before it knows, and the next one may sync that again
		c.touch(s.low, s.high)
	}
	if n.isDir() {
		c.entries, c.synced = map[string]*node{}, map[string]*node{}
		for name, child := range n.entries {
			c.entries[name] = killed(child, copies)
		}
		for name, child := range n.synced {
			c.synced[name] = killed(child, copies)
		}
	}
	return c
}
