package zkserver

import (
	"maps"
	"slices"
	"strings"
)

// node is one node of the tree. Its data and its permissions are never changed,
// only replaced.
type node struct {
	data []byte // nil is null, which clients can tell from empty
	acl  []acl

	czxid, mzxid, pzxid int64 // transactions that made it, set its data, made or removed a child last
	ctime, mtime        int64 // milliseconds since the epoch
	version, aversion   int32 // of the data, of the permissions
	cversion            int32 // children ever made; numbers the sequential ones
	owner               int64 // session of an ephemeral node, ownerContainer, or 0

	children map[string]struct{} // nil while there is none
}

func (n *node) ephemeral() bool { return n.owner != 0 && n.owner != ownerContainer }

// childNames returns the names of the children, sorted.
func (n *node) childNames() []string { return slices.Sorted(maps.Keys(n.children)) }

// tree is the nodes. One goroutine may use it at a time.
type tree struct {
	zxid       int64 // of the last transaction
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // paths, by session
	containers map[string]struct{}
	dataBytes  int64 // of all paths and data
}

// newTree returns a tree with the nodes that are always there.
func newTree() *tree {
	t := &tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		containers: make(map[string]struct{}),
	}
	for _, path := range []string{rootPath, procPath, quotaPath, configPath} {
		n := &node{data: []byte{}, acl: openACL}
		if path == configPath {
			n.acl, n.aversion = readACL, -1
		}
		t.insert(path, n)
	}
	return t
}

// get returns a node or nil. The root has the name "" as well, as in ZooKeeper.
func (t *tree) get(path string) *node {
	if path == "" {
		path = rootPath
	}
	return t.nodes[path]
}

// count returns the number of nodes as ZooKeeper counts them: the root twice.
func (t *tree) count() int { return len(t.nodes) + 1 }

// insert puts n, whose parent exists, into the tree, but changes nothing that
// clients see of the parent other than its children.
func (t *tree) insert(path string, n *node) {
	t.nodes[path] = n
	t.dataBytes += int64(len(path) + len(n.data))
	if path != rootPath {
		parent, name, _ := splitPath(path)
		p := t.get(parent)
		if p.children == nil {
			p.children = make(map[string]struct{})
		}
		p.children[name] = struct{}{}
	}
	switch {
	case n.owner == ownerContainer:
		t.containers[path] = struct{}{}
	case n.owner != 0:
		own := t.ephemerals[n.owner]
		if own == nil {
			own = make(map[string]struct{})
			t.ephemerals[n.owner] = own
		}
		own[path] = struct{}{}
	}
}

// remove is the opposite of insert.
func (t *tree) remove(path string, n *node) {
	delete(t.nodes, path)
	t.dataBytes -= int64(len(path) + len(n.data))
	parent, name, _ := splitPath(path)
	delete(t.get(parent).children, name)
	switch {
	case n.owner == ownerContainer:
		delete(t.containers, path)
	case n.owner != 0:
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
}

// ephemeralsOf returns the ephemeral nodes of a session, sorted.
func (t *tree) ephemeralsOf(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}

// below returns the number of nodes below path, at any depth.
func (t *tree) below(path string) int {
	if path == rootPath {
		return len(t.nodes) - 1
	}
	n := 0
	for p := range t.nodes {
		if strings.HasPrefix(p, path) && len(p) > len(path) && p[len(path)] == '/' {
			n++
		}
	}
	return n
}
