package zkserver

import (
	"encoding/binary"
	"errors"
)

// errMalformed is the error of a decoder whose input is not what it should be.
var errMalformed = errors.New("malformed")

// decoder reads values in jute's form, in which ZooKeeper's clients write:
// big-endian integers; strings and buffers behind their length, where -1 is
// null; vectors behind their count. The first error stays, and what is read
// behind it is zero. No length is believed before as many bytes are there.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err = errMalformed
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// buffer returns a part of the input, or nil for null.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.err != nil {
		return nil
	}
	return d.take(int(n))
}

// string reads a string that must not be null.
func (d *decoder) string() string {
	b := d.buffer()
	if b == nil {
		d.err = errMalformed
	}
	return string(b)
}

// count reads the count of a vector whose elements take at least size bytes
// each. -1 stands for null, and what is less is taken for 0 elsewhere, too.
func (d *decoder) count(size int) int {
	n := d.int32()
	if d.err != nil || int64(n)*int64(size) > int64(len(d.b)) {
		d.err = errMalformed
		return 0
	}
	return int(n)
}

// strings reads a vector of strings, which must not be null.
func (d *decoder) strings() []string {
	n := d.count(4)
	if n == -1 {
		d.err = errMalformed
		return nil
	}
	out := make([]string, 0, max(n, 0))
	for range n {
		out = append(out, d.string())
	}
	return out
}

func (d *decoder) acls() []acl {
	n := d.count(12)
	if n <= 0 {
		return nil
	}
	out := make([]acl, 0, n)
	for range n {
		perms := d.int32()
		out = append(out, acl{perms: perms, id: authID{scheme: d.string(), id: d.string()}})
	}
	return out
}

func appendInt32[T ~int32](b []byte, v T) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(v))
}

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendBuffer appends v, or null when it is nil.
func appendBuffer(b, v []byte) []byte {
	if v == nil {
		return appendInt32(b, int32(-1))
	}
	return append(appendInt32(b, int32(len(v))), v...)
}

func appendString(b []byte, v string) []byte {
	return append(appendInt32(b, int32(len(v))), v...)
}

func appendStrings(b []byte, v []string) []byte {
	b = appendInt32(b, int32(len(v)))
	for _, s := range v {
		b = appendString(b, s)
	}
	return b
}

func appendACLs(b []byte, v []acl) []byte {
	b = appendInt32(b, int32(len(v)))
	for _, a := range v {
		b = appendInt32(b, a.perms)
		b = appendString(b, a.id.scheme)
		b = appendString(b, a.id.id)
	}
	return b
}

// wireStat is what clients see of a node: czxid, mzxid, ctime, mtime, version,
// cversion, aversion, owner, data length, number of children, pzxid.
type wireStat [68]byte

// wireStat returns what clients see of n.
//
// The cversion that is kept counts the children made. The one that is shown
// counts those removed as well: each that was made and is not there any more
// has been removed once.
func (n *node) wireStat() (w wireStat) {
	b := appendInt64(w[:0], n.czxid)
	b = appendInt64(b, n.mzxid)
	b = appendInt64(b, n.ctime)
	b = appendInt64(b, n.mtime)
	b = appendInt32(b, n.version)
	b = appendInt32(b, n.cversion*2-int32(len(n.children)))
	b = appendInt32(b, n.aversion)
	owner := n.owner
	if !n.ephemeral() {
		owner = 0 // a container's is nobody's business
	}
	b = appendInt64(b, owner)
	b = appendInt32(b, int32(len(n.data)))
	b = appendInt32(b, int32(len(n.children)))
	appendInt64(b, n.pzxid)
	return w
}
