package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory for tests. It keeps apart what was written and
// what was synced: [Mem.CrashClone] returns what a crash would leave, and
// [Mem.SetHook] makes chosen operations fail.
//
// A Sync that the hook makes fail loses the data that it was to make safe, as
// Linux does: pages are marked clean although they never reached the disk, and
// a later Sync succeeds without them. Reads go on to show them until a crash.
type Mem struct {
	mu    sync.Mutex
	root  *node
	locks map[string]bool
	hook  Hook
	now   func() time.Time
}

// node is a file or a folder. Its fields are guarded by Mem.mu.
type node struct {
	name  string // last element
	mtime time.Time

	// A folder: what it holds, and what of that is safe.
	entries, synced map[string]*node

	// A file: what it holds, and what of that is safe. dirtyLow to dirtyHigh
	// (exclusive) is where the two may differ.
	data, safe          []byte
	dirtyLow, dirtyHigh int
	syncing             []*span // what syncs under way have taken off that
}

func (n *node) isDir() bool { return n.entries != nil }

func newFolder(name string) *node {
	return &node{name: name, entries: map[string]*node{}, synced: map[string]*node{}}
}

// set lets a name of a folder stand for a node, or for nothing when that is nil.
func (n *node) set(name string, to *node, now time.Time) {
	if to != nil {
		n.entries[name] = to
	} else {
		delete(n.entries, name)
	}
	n.mtime = now
}

// NewMem returns an empty file system whose files carry the time of now, or
// the real time when now is nil.
func NewMem(now func() time.Time) *Mem {
	if now == nil {
		now = time.Now
	}
	return &Mem{root: newFolder("/"), locks: map[string]bool{}, now: now}
}

func split(name string) []string {
	return strings.FieldsFunc(filepath.Clean(name), func(r rune) bool { return r == filepath.Separator })
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find returns the node of a path. The caller holds m.mu.
func (m *Mem) find(name string) (*node, error) {
	n := m.root
	for _, part := range split(name) {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		child := n.entries[part]
		if child == nil {
			return nil, fs.ErrNotExist
		}
		n = child
	}
	return n, nil
}

// parent returns the folder that holds, or would hold, name, and name's last
// element. The caller holds m.mu.
func (m *Mem) parent(name string) (*node, string, error) {
	dir, base := filepath.Split(filepath.Clean(name))
	n, err := m.find(dir)
	if err != nil {
		return nil, "", err
	}
	if !n.isDir() {
		return nil, "", syscall.ENOTDIR
	}
	if len(base) > 255 {
		return nil, "", syscall.ENAMETOOLONG
	}
	return n, base, nil
}

// Create implements [FS].
func (m *Mem) Create(name string) (File, error) {
	if err := m.ask(Op{Kind: OpCreate, Path: name}); err != nil {
		return nil, pathError("create", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err == nil && dir.entries[base] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return nil, pathError("create", name, err)
	}
	n := &node{name: base, mtime: m.now()}
	dir.set(base, n, m.now())
	return &memFile{fs: m, node: n, path: name, write: true}, nil
}

// Open implements [FS].
func (m *Mem) Open(name string) (File, error) { return m.openFile(name, false) }

// OpenWrite implements [FS].
func (m *Mem) OpenWrite(name string) (File, error) { return m.openFile(name, true) }

func (m *Mem) openFile(name string, write bool) (File, error) {
	f, err := m.open(name, write)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenUncached implements [FS].
func (m *Mem) OpenUncached(name string) (UncachedFile, error) {
	f, err := m.open(name, false)
	if err != nil {
		return nil, err
	}
	return memUncached{f}, nil
}

func (m *Mem) open(name string, write bool) (*memFile, error) {
	if err := m.ask(Op{Kind: OpOpen, Path: name}); err != nil {
		return nil, pathError("open", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && n.isDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{fs: m, node: n, path: name, write: write}, nil
}

// Remove implements [FS].
func (m *Mem) Remove(name string) error {
	return m.remove(name, false)
}

// RemoveAll implements [FS].
func (m *Mem) RemoveAll(name string) error {
	err := m.remove(name, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (m *Mem) remove(name string, all bool) error {
	if err := m.ask(Op{Kind: OpRemove, Path: name}); err != nil {
		return pathError("remove", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(n.entries) > 0 && !all:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	dir.set(base, nil, m.now())
	return nil
}

// Rename implements [FS].
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.ask(Op{Kind: OpRename, Path: oldName}); err != nil {
		return pathError("rename", oldName, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parent(oldName)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	to, newBase, err := m.parent(newName)
	if err != nil {
		return pathError("rename", newName, err)
	}
	n := from.entries[oldBase]
	if n == nil {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if old := to.entries[newBase]; old != nil && old.isDir() {
		return pathError("rename", newName, fs.ErrExist)
	}
	from.set(oldBase, nil, m.now())
	to.set(newBase, n, m.now())
	n.name = newBase
	return nil
}

// Mkdir implements [FS].
func (m *Mem) Mkdir(name string) error {
	if err := m.ask(Op{Kind: OpMkdir, Path: name}); err != nil {
		return pathError("mkdir", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err == nil && dir.entries[base] != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return pathError("mkdir", name, err)
	}
	n := newFolder(base)
	n.mtime = m.now()
	dir.set(base, n, m.now())
	return nil
}

// ReadDir implements [FS].
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list := make([]fs.DirEntry, 0, len(n.entries))
	for _, child := range n.entries {
		list = append(list, fs.FileInfoToDirEntry(child.info()))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Stat implements [FS].
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(), nil
}

// SetTime implements [FS].
func (m *Mem) SetTime(name string, t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return pathError("set time", name, err)
	}
	n.mtime = t
	return nil
}

// SyncDir implements [FS].
func (m *Mem) SyncDir(name string) error {
	if err := m.ask(Op{Kind: OpSyncDir, Path: name}); err != nil {
		return pathError("sync folder", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("sync folder", name, err)
	}
	clear(n.synced)
	for base, child := range n.entries {
		n.synced[base] = child
	}
	return nil
}

// Lock implements [FS].
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	if m.locks[name] {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	if dir.entries[base] == nil {
		dir.set(base, &node{name: base, mtime: m.now()}, m.now())
	}
	m.locks[name] = true
	return &memLock{fs: m, name: name}, nil
}

// Locked implements [FS].
func (m *Mem) Locked(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks[name], nil
}

type memLock struct {
	fs   *Mem
	name string
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.locks, l.name)
	})
	return nil
}
