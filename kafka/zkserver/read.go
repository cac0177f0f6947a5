package zkserver

import "strings"

// reads are the requests that change nothing but watches. Each returns the body
// of its answer, or an error; that of the decoder counts first.
var reads = map[opcode]func(s *Server, c *conn, d *decoder) ([]byte, code){
	opExists:            (*Server).exists,
	opGetData:           (*Server).getData,
	opGetACL:            (*Server).getACL,
	opGetChildren:       (*Server).getChildren,
	opGetChildren2:      (*Server).getChildren2,
	opSync:              (*Server).sync,
	opMultiRead:         (*Server).multiRead,
	opSetWatches:        (*Server).setWatches,
	opSetWatches2:       (*Server).setWatches2,
	opCheckWatches:      (*Server).checkWatches,
	opRemoveWatches:     (*Server).removeWatches,
	opAddWatch:          (*Server).addWatch,
	opGetEphemerals:     (*Server).getEphemerals,
	opAllChildrenNumber: (*Server).allChildrenNumber,
	opWhoAmI:            (*Server).whoAmI,
}

func (s *Server) exists(c *conn, d *decoder) ([]byte, code) {
	path, watch := d.string(), d.bool()
	if d.err != nil {
		return nil, codeMarshalling
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, codeBadArguments
	}
	if watch {
		s.dataWatches.add(path, c, watchOnce) // also for a node that is to come
	}
	n := s.state.tree.get(path)
	if n == nil {
		return nil, codeNoNode
	}
	stat := n.wireStat()
	return stat[:], codeOK
}

func (s *Server) getData(c *conn, d *decoder) ([]byte, code) {
	path, watch := d.string(), d.bool()
	n := s.state.tree.get(path)
	if d.err != nil || n == nil {
		return nil, codeNoNode
	}
	if watch {
		s.dataWatches.add(path, c, watchOnce)
	}
	stat := n.wireStat()
	return append(appendBuffer(make([]byte, 0, 4+len(n.data)+len(stat)), n.data), stat[:]...), codeOK
}

func (s *Server) getACL(_ *conn, d *decoder) ([]byte, code) {
	n := s.state.tree.get(d.string())
	if n == nil {
		return nil, codeNoNode
	}
	stat := n.wireStat()
	return append(appendACLs(nil, n.acl), stat[:]...), codeOK
}

func (s *Server) getChildren(c *conn, d *decoder) ([]byte, code) {
	n, err := s.children(c, d)
	if err != codeOK {
		return nil, err
	}
	return appendStrings(nil, n.childNames()), codeOK
}

func (s *Server) getChildren2(c *conn, d *decoder) ([]byte, code) {
	n, err := s.children(c, d)
	if err != codeOK {
		return nil, err
	}
	stat := n.wireStat()
	return append(appendStrings(nil, n.childNames()), stat[:]...), codeOK
}

func (s *Server) children(c *conn, d *decoder) (*node, code) {
	path, watch := d.string(), d.bool()
	n := s.state.tree.get(path)
	if d.err != nil || n == nil {
		return nil, codeNoNode
	}
	if watch {
		s.childWatches.add(path, c, watchOnce)
	}
	return n, codeOK
}

// sync has nothing to wait for: one server is always up to date with itself.
func (s *Server) sync(_ *conn, d *decoder) ([]byte, code) {
	return appendString(nil, d.string()), codeOK
}

func multiReads(op opcode) bool { return op == opGetData || op == opGetChildren }

// maxMultiReadBytes bounds the answer to a multiRead, whose request of a few bytes
// for each read could ask for the same large node many thousand times.
const maxMultiReadBytes = 16 << 20

func (s *Server) multiRead(c *conn, d *decoder) ([]byte, code) {
	var b []byte
	decodeMulti(d, multiReads, func(op opcode) {
		if len(b) > maxMultiReadBytes {
			d.err = errMalformed
			return
		}
		read := s.getData
		if op == opGetChildren {
			read = s.getChildren
		}
		body, err := read(c, d)
		if err != codeOK {
			b = appendInt32(appendMultiHeader(b, opError, false, err), err)
			return
		}
		b = append(appendMultiHeader(b, op, false, 0), body...)
	})
	return appendMultiHeader(b, opError, true, -1), codeOK
}

// setWatches sets the watches of a client that had them on an earlier
// connection, and fires those at once that have missed something.
func (s *Server) setWatches(c *conn, d *decoder) ([]byte, code) {
	s.setLists(c, d)
	return nil, codeOK
}

func (s *Server) setWatches2(c *conn, d *decoder) ([]byte, code) {
	s.setLists(c, d, watchAlways, watchRecursive)
	return nil, codeOK
}

// setLists reads the lists of setWatches, with those of persistent watches that
// modes says behind them.
func (s *Server) setLists(c *conn, d *decoder, modes ...watchMode) {
	seen, data, exist, child := d.int64(), d.strings(), d.strings(), d.strings()
	var persistent [][]string
	for range modes {
		persistent = append(persistent, d.strings())
	}
	if d.err != nil {
		return
	}
	fire := func(kind eventType, path string) {
		s.send(parcel{c: c, frame: appendEvent(nil, event{kind, path}), kind: sendEvent})
	}
	for _, path := range data {
		switch n := s.state.tree.get(path); {
		case n == nil:
			fire(eventDeleted, path)
		case n.mzxid > seen:
			fire(eventDataChanged, path)
		default:
			s.dataWatches.add(path, c, watchOnce)
		}
	}
	for _, path := range exist {
		if s.state.tree.get(path) != nil {
			fire(eventCreated, path)
		} else {
			s.dataWatches.add(path, c, watchOnce)
		}
	}
	for _, path := range child {
		switch n := s.state.tree.get(path); {
		case n == nil:
			fire(eventDeleted, path)
		case n.pzxid > seen:
			fire(eventChildrenChanged, path)
		default:
			s.childWatches.add(path, c, watchOnce)
		}
	}
	for i, paths := range persistent {
		for _, path := range paths {
			s.watchAs(path, c, modes[i])
		}
	}
}

// watchAs sets a persistent watch.
func (s *Server) watchAs(path string, c *conn, mode watchMode) {
	s.dataWatches.add(path, c, mode)
	s.childWatches.add(path, c, mode)
}

func (s *Server) addWatch(c *conn, d *decoder) ([]byte, code) {
	path, mode := d.string(), d.int32()
	switch {
	case d.err != nil:
		return nil, codeMarshalling
	case mode == 0:
		s.watchAs(path, c, watchAlways)
	case mode == 1:
		s.watchAs(path, c, watchRecursive)
	default:
		return nil, codeMarshalling
	}
	return appendInt32(nil, codeOK), codeOK
}

// Kinds of watches in checkWatches and removeWatches.
const (
	watchersChildren = 1
	watchersData     = 2
	watchersAny      = 3
)

// lists returns the watches of a kind.
func (s *Server) lists(kind int32) ([]*watches, code) {
	switch kind {
	case watchersChildren:
		return []*watches{s.childWatches}, codeOK
	case watchersData:
		return []*watches{s.dataWatches}, codeOK
	case watchersAny:
		return []*watches{s.childWatches, s.dataWatches}, codeOK
	}
	return nil, codeMarshalling
}

func (s *Server) checkWatches(c *conn, d *decoder) ([]byte, code) {
	path, kind := d.string(), d.int32()
	lists, err := s.lists(kind)
	if err != codeOK {
		return nil, err
	}
	for _, w := range lists {
		if w.has(path, c) {
			return nil, codeOK
		}
	}
	return nil, codeNoWatcher
}

func (s *Server) removeWatches(c *conn, d *decoder) ([]byte, code) {
	path, kind := d.string(), d.int32()
	lists, err := s.lists(kind)
	if err != codeOK {
		return nil, err
	}
	err = codeNoWatcher
	for _, w := range lists {
		if w.remove(path, c) {
			err = codeOK
		}
	}
	return nil, err
}

// getEphemerals answers with the nodes of the session whose paths begin with
// the prefix.
func (s *Server) getEphemerals(c *conn, d *decoder) ([]byte, code) {
	prefix := string(d.buffer()) // null is all of them
	var out []string
	for _, path := range s.state.tree.ephemeralsOf(c.session.id) {
		if strings.HasPrefix(path, prefix) {
			out = append(out, path)
		}
	}
	return appendStrings(nil, out), codeOK
}

func (s *Server) allChildrenNumber(_ *conn, d *decoder) ([]byte, code) {
	path := d.string()
	if s.state.tree.get(path) == nil {
		return nil, codeNoNode
	}
	return appendInt32(nil, int32(s.state.tree.below(path))), codeOK
}

// whoAmI answers with the identities of the connection. Those of the scheme
// digest are told without what their password has become.
func (s *Server) whoAmI(c *conn, _ *decoder) ([]byte, code) {
	b := appendInt32(nil, int32(1+len(c.auth)))
	b = appendString(appendString(b, "ip"), c.addr.String())
	for _, id := range c.auth {
		user := id.id
		if id.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = appendString(appendString(b, id.scheme), user)
	}
	return b, codeOK
}
