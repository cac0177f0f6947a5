package zkserver

import (
	"bytes"
	"fmt"
	"time"
)

// writeRequest is a request that makes a transaction. The fields that its op
// does not have are zero.
type writeRequest struct {
	op      opcode
	path    string
	data    []byte
	acl     []acl
	mode    createMode
	ttl     int64
	version int32
}

// decodeWrite reads a request other than a multi.
func decodeWrite(op opcode, d *decoder) writeRequest {
	r := writeRequest{op: op, ttl: -1}
	switch op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		r.path, r.data, r.acl, r.mode = d.string(), d.buffer(), d.acls(), createMode(d.int32())
		if op == opCreateTTL {
			r.ttl = d.int64()
		}
	case opDelete, opCheck:
		r.path, r.version = d.string(), d.int32()
	case opDeleteContainer:
		r.path = d.string()
	case opSetData:
		r.path, r.data, r.version = d.string(), d.buffer(), d.int32()
	case opSetACL:
		r.path, r.acl, r.version = d.string(), d.acls(), d.int32()
	}
	return r
}

// inMulti returns what a create is within a multi. Which of the opcodes it comes
// with does not count there, as in ZooKeeper: its flags say whether it makes a
// container, and only then there is a stat in its result.
func (r writeRequest) inMulti() writeRequest {
	switch r.op {
	case opCreate, opCreate2, opCreateContainer:
		r.op = opCreate
		if r.mode == modeContainer {
			r.op = opCreateContainer
		}
	}
	return r
}

// decodeMulti reads a multi whose operations are of the kinds that allowed says.
// Each is behind a header of its op, whether it is the end, and an error that
// means nothing.
func decodeMulti(d *decoder, allowed func(opcode) bool, each func(opcode)) {
	for d.err == nil {
		op, end, _ := opcode(d.int32()), d.bool(), d.int32()
		if d.err != nil || end {
			return
		}
		if !allowed(op) {
			d.err = errMalformed
			return
		}
		each(op)
	}
}

func multiWrites(op opcode) bool {
	switch op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opCheck:
		return true
	}
	return false
}

// writeResult is what one operation has done. Its op is that of the answer in a
// multi.
type writeResult struct {
	op   opcode
	path string
	stat wireStat
}

// appendBody appends the body of the answer.
func (r writeResult) appendBody(b []byte) []byte {
	switch r.op {
	case opCreate:
		return appendString(b, r.path)
	case opCreate2:
		return append(appendString(b, r.path), r.stat[:]...)
	case opSetData, opSetACL:
		return append(b, r.stat[:]...)
	}
	return b
}

// write carries out a request that makes a transaction, which it does also when
// it fails, as in ZooKeeper.
func (s *Server) write(it item, d *decoder) {
	var body []byte
	var err code
	t := s.begin()
	switch it.op {
	case opMulti:
		body, err = s.multi(t, it.c, d)
	case opReconfig:
		err = codeReconfigDisabled
	default:
		r := decodeWrite(it.op, d)
		if d.err != nil {
			err = codeMarshalling
			break
		}
		var done writeResult
		if done, err = s.do(t, it.c, r); err == codeOK && t.size() > maxTxnBytes {
			err = codeBadArguments
		}
		body = done.appendBody(nil)
	}
	if err != codeOK {
		t.rollback()
	}
	s.commit(t)
	s.answer(it, err, body)
}

// multi carries out all operations of a request or none. The answer is a success
// either way, and holds the results or the errors of the operations: success for
// those before the one that failed, and "inconsistent" for those behind it.
func (s *Server) multi(t *txn, c *conn, d *decoder) ([]byte, code) {
	var all []writeRequest
	decodeMulti(d, multiWrites, func(op opcode) { all = append(all, decodeWrite(op, d).inMulti()) })
	if d.err != nil {
		return nil, codeMarshalling
	}
	results := make([]writeResult, 0, len(all))
	for i, r := range all {
		done, err := s.do(t, c, r)
		if err == codeOK && t.size() > maxTxnBytes {
			err = codeBadArguments
		}
		if err != codeOK {
			t.rollback()
			return appendMultiErrors(nil, len(all), i, err), codeOK
		}
		results = append(results, done)
	}
	var b []byte
	for _, r := range results {
		b = r.appendBody(appendMultiHeader(b, r.op, false, 0))
	}
	return appendMultiHeader(b, opError, true, -1), codeOK
}

func appendMultiHeader(b []byte, op opcode, end bool, err code) []byte {
	return appendInt32(appendBool(appendInt32(b, op), end), err)
}

// appendMultiErrors appends the answer to a multi of count operations of which
// the one with index failed has failed.
func appendMultiErrors(b []byte, count, failed int, why code) []byte {
	for i := range count {
		err := codeOK
		switch {
		case i == failed:
			err = why
		case i > failed:
			err = codeRuntimeInconsistency
		}
		b = appendInt32(appendMultiHeader(b, opError, false, err), err)
	}
	return appendMultiHeader(b, opError, true, -1)
}

// maxTxnBytes bounds what a transaction may take in the log: more than its
// request, as "auth" among the permissions of a node stands for names.
const maxTxnBytes = maxRecordBytes - 1<<10

// size estimates from above what the last change takes in the log, and returns
// it with those before.
func (t *txn) size() int {
	if len(t.changes) == t.sized {
		return t.bytes
	}
	for _, c := range t.changes[t.sized:] {
		t.bytes += 64 + len(c.path) + len(c.data)
		for _, a := range c.acl {
			t.bytes += 12 + len(a.id.scheme) + len(a.id.id)
		}
	}
	t.sized = len(t.changes)
	return t.bytes
}

// do checks one operation in the order in which ZooKeeper does, as the first
// error counts, and carries it out.
func (s *Server) do(t *txn, c *conn, r writeRequest) (writeResult, code) {
	switch r.op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		return s.doCreate(t, c, r)
	case opDelete, opDeleteContainer:
		return s.doDelete(t, r)
	}
	done := writeResult{op: r.op, path: r.path}
	if !validPath(r.path) {
		return done, codeBadArguments
	}
	acls, err := r.acl, codeOK
	if r.op == opSetACL {
		if acls, err = checkACL(r.acl, c.auth); err != codeOK {
			return done, err
		}
	}
	n := s.state.tree.get(r.path)
	version := int32(0)
	switch {
	case n == nil:
		return done, codeNoNode
	case r.path == configPath && r.op != opCheck:
		return done, codeNoAuth
	case r.op == opSetACL:
		version = n.aversion
	default:
		version = n.version
	}
	if r.version != -1 && r.version != version {
		return done, codeBadVersion
	}
	switch r.op {
	case opSetData:
		s.must(t, change{kind: changeSetData, path: r.path, data: bytes.Clone(r.data)})
	case opSetACL:
		s.must(t, change{kind: changeSetACL, path: r.path, acl: acls})
	}
	done.stat = n.wireStat()
	return done, codeOK
}

func (s *Server) doCreate(t *txn, c *conn, r writeRequest) (writeResult, code) {
	var done writeResult
	switch {
	case !r.mode.known():
		return done, codeBadArguments
	case r.mode.ttl():
		return done, codeUnimplemented // as in ZooKeeper, unless it is told otherwise
	case r.op == opCreateTTL:
		return done, codeBadArguments
	}
	parent, _, ok := splitPath(r.path)
	if !ok {
		return done, codeBadArguments
	}
	acls, err := checkACL(r.acl, c.auth)
	if err != codeOK {
		return done, err
	}
	p := s.state.tree.get(parent)
	if p == nil {
		return done, codeNoNode
	}
	if parent == configPath {
		return done, codeNoAuth
	}
	path := r.path
	if r.mode.sequential() {
		path += fmt.Sprintf("%010d", p.cversion)
	}
	switch {
	case !validPath(path):
		return done, codeBadArguments
	case s.state.tree.get(path) != nil:
		return done, codeNodeExists
	case p.ephemeral():
		return done, codeNoChildrenForEphemerals
	}
	made := change{kind: changeCreate, path: path, data: bytes.Clone(r.data), acl: acls}
	switch {
	case r.op == opCreateContainer:
		made.owner = ownerContainer
	case r.mode.ephemeral():
		made.owner = c.session.id
	}
	s.must(t, made)
	done = writeResult{op: opCreate, path: path}
	if r.op != opCreate {
		done.op, done.stat = opCreate2, s.state.tree.get(path).wireStat()
	}
	return done, codeOK
}

func (s *Server) doDelete(t *txn, r writeRequest) (writeResult, code) {
	done := writeResult{op: opDelete, path: r.path}
	parent, _, ok := splitPath(r.path)
	if !ok || special(r.path) {
		return done, codeBadArguments
	}
	n := s.state.tree.get(r.path)
	if s.state.tree.get(parent) == nil || n == nil {
		return done, codeNoNode
	}
	switch {
	case r.op == opDelete && r.version != -1 && r.version != n.version:
		return done, codeBadVersion
	case len(n.children) > 0:
		return done, codeNotEmpty
	case r.op == opDeleteContainer && n.ephemeral():
		return done, codeBadVersion
	}
	s.must(t, change{kind: changeDelete, path: r.path})
	return done, codeOK
}

// containerInterval is how often containers that have lost their last child are
// removed.
const containerInterval = time.Minute

// removeContainers removes the containers that had children and have none any
// more, each in a transaction of its own.
func (s *Server) removeContainers() {
	for path := range s.state.tree.containers {
		n := s.state.tree.nodes[path]
		if n.cversion == 0 || len(n.children) > 0 {
			continue
		}
		t := s.begin()
		s.must(t, change{kind: changeDelete, path: path})
		s.commit(t)
	}
}
