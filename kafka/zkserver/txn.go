package zkserver

import (
	"bytes"
	"fmt"
	"slices"
)

// changeKind is what a change does, as the log has it.
type changeKind byte

const (
	changeCreate changeKind = iota + 1
	changeDelete
	changeSetData
	changeSetACL
	changeOpenSession
	changeEndSession // removes the session's ephemeral nodes, too
)

// change is one thing that a transaction does. The fields that its kind does
// not need are zero.
type change struct {
	kind    changeKind
	path    string
	data    []byte
	acl     []acl
	owner   int64    // create: as node.owner
	session *session // of the last two kinds; only its id for the end
}

// txn is a transaction: changes that happen together. One without changes is a
// request that failed: it has a number, too, as in ZooKeeper.
type txn struct {
	zxid    int64
	time    int64 // milliseconds since the epoch
	changes []change

	// undo takes back what was done so far, the last first; events is what
	// watches are to be told when it stays done.
	undo   []func()
	events []event

	// bytes is what size has found for the first sized changes.
	bytes, sized int
}

// event is something that watches may wait for.
type event struct {
	kind eventType
	path string
}

// apply carries out one change that was checked before, or is read from the log,
// and notes how to take it back and what to tell. It fails only when the change
// does not fit the tree, which for one that was checked cannot be.
func (st *state) apply(t *txn, c change) error {
	var err error
	switch c.kind {
	case changeCreate:
		err = st.applyCreate(t, c)
	case changeDelete:
		err = st.applyDelete(t, c.path)
	case changeSetData, changeSetACL:
		err = st.applySet(t, c)
	case changeOpenSession:
		if st.sessions[c.session.id] != nil {
			err = fmt.Errorf("session %#x exists", c.session.id)
			break
		}
		st.sessions[c.session.id] = c.session
	case changeEndSession:
		err = st.applyEnd(t, c.session.id)
	default:
		err = fmt.Errorf("change of kind %d", c.kind)
	}
	if err == nil {
		t.changes = append(t.changes, c)
	}
	return err
}

func (st *state) applyCreate(t *txn, c change) error {
	parent, _, ok := splitPath(c.path)
	p := st.tree.get(parent)
	if !ok || p == nil || st.tree.get(c.path) != nil {
		return fmt.Errorf("create of %q: no parent, or it exists", c.path)
	}
	if c.owner != 0 && c.owner != ownerContainer && st.sessions[c.owner] == nil {
		return fmt.Errorf("create of %q: session %#x does not exist", c.path, c.owner)
	}
	n := &node{
		data: c.data, acl: c.acl, owner: c.owner,
		czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctime: t.time, mtime: t.time,
	}
	pzxid := p.pzxid
	p.cversion++
	p.pzxid = t.zxid
	st.tree.insert(c.path, n)
	t.undo = append(t.undo, func() {
		st.tree.remove(c.path, n)
		p.cversion--
		p.pzxid = pzxid
	})
	t.events = append(t.events, event{eventCreated, c.path}, event{eventChildrenChanged, parentPath(c.path)})
	return nil
}

func (st *state) applyDelete(t *txn, path string) error {
	n := st.tree.get(path)
	if n == nil || len(n.children) > 0 || special(path) || path == "" {
		return fmt.Errorf("delete of %q: it does not exist, has children or must stay", path)
	}
	p := st.tree.get(parentPath(path))
	pzxid := p.pzxid
	p.pzxid = t.zxid
	st.tree.remove(path, n)
	t.undo = append(t.undo, func() {
		st.tree.insert(path, n)
		p.pzxid = pzxid
	})
	t.events = append(t.events, event{eventDeleted, path}, event{eventChildrenChanged, parentPath(path)})
	return nil
}

func (st *state) applySet(t *txn, c change) error {
	n := st.tree.get(c.path)
	if n == nil {
		return fmt.Errorf("set of %q: it does not exist", c.path)
	}
	was := *n
	if c.kind == changeSetACL {
		n.acl = c.acl
		n.aversion++
		t.undo = append(t.undo, func() { n.acl, n.aversion = was.acl, was.aversion })
		return nil
	}
	st.tree.dataBytes += int64(len(c.data) - len(n.data))
	n.data, n.mzxid, n.mtime = c.data, t.zxid, t.time
	n.version++
	t.undo = append(t.undo, func() {
		st.tree.dataBytes += int64(len(was.data) - len(n.data))
		n.data, n.mzxid, n.mtime, n.version = was.data, was.mzxid, was.mtime, was.version
	})
	t.events = append(t.events, event{eventDataChanged, c.path})
	return nil
}

// applyEnd ends a session. It stands alone in its transaction and is not taken
// back.
func (st *state) applyEnd(t *txn, id int64) error {
	if st.sessions[id] == nil {
		return fmt.Errorf("end of session %#x: it does not exist", id)
	}
	for _, path := range st.tree.ephemeralsOf(id) {
		if err := st.applyDelete(t, path); err != nil {
			return err
		}
	}
	delete(st.sessions, id)
	return nil
}

// rollback takes back everything that t did.
func (t *txn) rollback() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
	t.undo, t.changes, t.events = nil, nil, nil
}

// state is what a server keeps: the tree, and the sessions by their id. One
// goroutine may use it at a time.
type state struct {
	tree     *tree
	sessions map[int64]*session
}

func newState() *state {
	return &state{tree: newTree(), sessions: make(map[int64]*session)}
}

// replay applies a transaction of the log.
func (st *state) replay(t *txn) error {
	if t.zxid != st.tree.zxid+1 {
		return fmt.Errorf("transaction %#x follows %#x", t.zxid, st.tree.zxid)
	}
	done := txn{zxid: t.zxid, time: t.time}
	for _, c := range t.changes {
		if err := st.apply(&done, c); err != nil {
			return fmt.Errorf("transaction %#x: %w", t.zxid, err)
		}
		done.undo, done.events = nil, nil
	}
	st.tree.zxid = t.zxid
	return nil
}

// appendTxn appends the form of t in the log: number, time and count of
// changes, then each one as its kind, path, data, permissions and owner, or for
// a session its id, time-out and password.
func appendTxn(b []byte, t *txn) []byte {
	b = appendInt64(b, t.zxid)
	b = appendInt64(b, t.time)
	b = appendInt32(b, int32(len(t.changes)))
	for _, c := range t.changes {
		b = append(b, byte(c.kind))
		switch c.kind {
		case changeCreate:
			b = appendString(b, c.path)
			b = appendBuffer(b, c.data)
			b = appendACLs(b, c.acl)
			b = appendInt64(b, c.owner)
		case changeDelete:
			b = appendString(b, c.path)
		case changeSetData:
			b = appendString(b, c.path)
			b = appendBuffer(b, c.data)
		case changeSetACL:
			b = appendString(b, c.path)
			b = appendACLs(b, c.acl)
		case changeOpenSession:
			b = appendSession(b, c.session)
		case changeEndSession:
			b = appendInt64(b, c.session.id)
		}
	}
	return b
}

// decodeTxn is the opposite of appendTxn. The result keeps nothing of b.
func decodeTxn(b []byte) (*txn, error) {
	d := decoder{b: b}
	t := &txn{zxid: d.int64(), time: d.int64()}
	n := d.count(5)
	for range n {
		kind := d.take(1)
		if kind == nil {
			break
		}
		c := change{kind: changeKind(kind[0])}
		switch c.kind {
		case changeCreate:
			c.path, c.data, c.acl, c.owner = d.string(), bytes.Clone(d.buffer()), shared(d.acls()), d.int64()
		case changeDelete:
			c.path = d.string()
		case changeSetData:
			c.path, c.data = d.string(), bytes.Clone(d.buffer())
		case changeSetACL:
			c.path, c.acl = d.string(), shared(d.acls())
		case changeOpenSession:
			c.session = d.session()
		case changeEndSession:
			c.session = &session{id: d.int64()}
		default:
			return nil, fmt.Errorf("change of kind %d: %w", c.kind, errMalformed)
		}
		t.changes = append(t.changes, c)
	}
	if d.err == nil && (n < 0 || len(d.b) > 0) {
		d.err = errMalformed
	}
	return t, d.err
}

// shared returns openACL for its equal, so that nodes do not each have their own.
func shared(a []acl) []acl {
	if slices.Equal(a, openACL) {
		return openACL
	}
	return a
}
