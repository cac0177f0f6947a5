package zkserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// A snapshot file holds a whole state:
//
//	8 bytes   "zksnap" and the version of the form, 1, in two bytes
//	int64     number of the last transaction in it
//	int32     sessions, then each: int64 id, int32 time-out in ms, 16 bytes password
//	int32     nodes, then each, parents before children: path, data, permissions,
//	          int64 czxid, mzxid, pzxid, ctime, mtime,
//	          int32 version, cversion, aversion, int64 owner
//	uint32    CRC-32C of all before it
//
// Strings, buffers and permissions are as on the wire.
const snapshotMagic = "zksnap\x00\x01"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is the error of a file that does not hold what was written to it.
var errDamaged = errors.New("damaged")

func appendSnapshot(b []byte, st *state) []byte {
	b = append(b, snapshotMagic...)
	b = appendInt64(b, st.tree.zxid)
	b = appendInt32(b, int32(len(st.sessions)))
	for _, id := range slices.Sorted(maps.Keys(st.sessions)) {
		b = appendSession(b, st.sessions[id])
	}
	b = appendInt32(b, int32(len(st.tree.nodes)))
	for _, path := range slices.Sorted(maps.Keys(st.tree.nodes)) {
		n := st.tree.nodes[path]
		b = appendString(b, path)
		b = appendBuffer(b, n.data)
		b = appendACLs(b, n.acl)
		for _, v := range [...]int64{n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime} {
			b = appendInt64(b, v)
		}
		for _, v := range [...]int32{n.version, n.cversion, n.aversion} {
			b = appendInt32(b, v)
		}
		b = appendInt64(b, n.owner)
	}
	return sealed(b)
}

// sealed appends the checksum.
func sealed(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSnapshot is the opposite of appendSnapshot. The result keeps nothing of
// b.
func decodeSnapshot(b []byte) (*state, error) {
	end := len(b) - 4
	if end < len(snapshotMagic) || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("no snapshot of a known version: %w", errDamaged)
	}
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("checksum differs: %w", errDamaged)
	}
	d := decoder{b: b[len(snapshotMagic):end]}
	st := &state{tree: newTree(), sessions: make(map[int64]*session)}
	st.tree.zxid = d.int64()
	for range d.count(8 + 4 + passwordBytes) {
		s := d.session()
		st.sessions[s.id] = s
	}
	for range d.count(4 + 4 + 4 + 5*8 + 3*4 + 8) {
		path := d.string()
		n := &node{data: bytes.Clone(d.buffer()), acl: shared(d.acls())}
		for _, v := range [...]*int64{&n.czxid, &n.mzxid, &n.pzxid, &n.ctime, &n.mtime} {
			*v = d.int64()
		}
		for _, v := range [...]*int32{&n.version, &n.cversion, &n.aversion} {
			*v = d.int32()
		}
		n.owner = d.int64()
		if d.err != nil {
			break
		}
		if err := st.restore(path, n); err != nil {
			return nil, err
		}
	}
	if d.err != nil || len(d.b) > 0 {
		return nil, fmt.Errorf("content is not that of a snapshot: %w", errDamaged)
	}
	return st, nil
}

// restore puts a node of a snapshot into the tree.
func (st *state) restore(path string, n *node) error {
	if special(path) {
		if n.owner != 0 {
			return fmt.Errorf("node %q is ephemeral: %w", path, errDamaged)
		}
		old := st.tree.nodes[path]
		st.tree.dataBytes += int64(len(n.data) - len(old.data))
		n.children = old.children
		st.tree.nodes[path] = n
		return nil
	}
	parent, _, _ := splitPath(path)
	switch {
	case !validPath(path) || st.tree.get(parent) == nil || st.tree.get(path) != nil:
		return fmt.Errorf("node %q has no parent, is there twice, or has no legal path: %w", path, errDamaged)
	case n.ephemeral() && st.sessions[n.owner] == nil:
		return fmt.Errorf("node %q is of the missing session %#x: %w", path, n.owner, errDamaged)
	}
	st.tree.insert(path, n)
	return nil
}
