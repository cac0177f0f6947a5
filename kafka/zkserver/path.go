package zkserver

import (
	"strings"
	"unicode/utf8"
)

// Nodes that are there from the start and cannot be deleted. Of these the
// configuration is read-only.
const (
	rootPath   = "/"
	procPath   = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

func special(path string) bool {
	return path == rootPath || path == procPath || path == quotaPath || path == configPath
}

// validPath reports whether path may be that of a node: absolute, without empty,
// "." and ".." components, and of characters that ZooKeeper allows.
func validPath(path string) bool {
	if path == rootPath {
		return true
	}
	if path == "" || path[0] != '/' {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	for _, r := range path {
		// ZooKeeper looks at UTF-16 units: what takes two of them is refused with
		// the surrogates. Bytes that are no UTF-8 read as the last but two of the
		// characters refused.
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return false
		}
	}
	return utf8.ValidString(path)
}

// splitPath returns the path of the parent, which is "" for a child of the root,
// and the name of the node. It fails for what can have no parent.
func splitPath(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// parentPath returns the parent of a node that exists and is not the root, as
// watches are set on it.
func parentPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return rootPath
}
