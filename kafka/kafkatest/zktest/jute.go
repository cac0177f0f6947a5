package zktest

import (
	"encoding/binary"
	"errors"
)

// errShort says that a packet ends before its last field.
var errShort = errors.New("the packet is too short")

// Fields lays out the fields of a packet as ZooKeeper does: numbers big endian,
// strings and buffers behind an int32 of their length, lists behind an int32 of
// their count.
type Fields []byte

func (f Fields) Int(v int32) Fields  { return binary.BigEndian.AppendUint32(f, uint32(v)) }
func (f Fields) Long(v int64) Fields { return binary.BigEndian.AppendUint64(f, uint64(v)) }

func (f Fields) Bool(v bool) Fields {
	if v {
		return append(f, 1)
	}
	return append(f, 0)
}

func (f Fields) String(s string) Fields { return append(f.Int(int32(len(s))), s...) }

// Buffer adds bytes. Nil has the length -1.
func (f Fields) Buffer(b []byte) Fields {
	if b == nil {
		return f.Int(-1)
	}
	return append(f.Int(int32(len(b))), b...)
}

func (f Fields) Strings(list ...string) Fields {
	f = f.Int(int32(len(list)))
	for _, s := range list {
		f = f.String(s)
	}
	return f
}

// OpenACL adds the list of one entry that lets everybody do everything.
func (f Fields) OpenACL() Fields { return f.Int(1).Int(31).String("world").String("anyone") }

// Reader takes a packet apart. After the first field that is not there, all are
// zero and Err says so.
type Reader struct {
	rest []byte
	err  error
}

func NewReader(packet []byte) *Reader { return &Reader{rest: packet} }

// Err returns why a field could not be read.
func (r *Reader) Err() error { return r.err }

// Rest returns what has not been read.
func (r *Reader) Rest() []byte { return r.rest }

func (r *Reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.err = errShort
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *Reader) Int() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *Reader) Long() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *Reader) Bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// Buffer returns the bytes of a buffer, without a copy. That of the length -1 is
// nil.
func (r *Reader) Buffer() []byte {
	n := r.Int()
	if n == -1 || r.err != nil {
		return nil
	}
	return r.take(int(n))
}

func (r *Reader) String() string { return string(r.Buffer()) }

func (r *Reader) Strings() []string {
	var list []string
	for n := r.Int(); n > 0 && r.err == nil; n-- {
		list = append(list, r.String())
	}
	return list
}

// Stat is what ZooKeeper tells about a node.
type Stat struct {
	Czxid, Mzxid                int64 // of the changes that made it and last set its data
	Ctime, Mtime                int64 // milliseconds since 1970
	Version, Cversion, Aversion int32 // of data, children and ACL
	EphemeralOwner              int64 // session, or 0
	DataLength, NumChildren     int32
	Pzxid                       int64 // of the last change of its children
}

func (r *Reader) Stat() Stat {
	return Stat{
		Czxid: r.Long(), Mzxid: r.Long(), Ctime: r.Long(), Mtime: r.Long(),
		Version: r.Int(), Cversion: r.Int(), Aversion: r.Int(),
		EphemeralOwner: r.Long(), DataLength: r.Int(), NumChildren: r.Int(), Pzxid: r.Long(),
	}
}
