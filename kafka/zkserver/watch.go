package zkserver

import "maps"

// watchMode is how often and for which nodes a watch fires.
type watchMode byte

const (
	watchOnce      watchMode = iota
	watchAlways              // addWatch, mode 0
	watchRecursive           // addWatch, mode 1: for all nodes below, too
)

// watches are the watches of all connections for one kind of events. A
// connection has one watch at most on a path; the last one counts.
type watches struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]map[string]struct{}
	recursive int
}

func newWatches() *watches {
	return &watches{byPath: make(map[string]map[*conn]watchMode), byConn: make(map[*conn]map[string]struct{})}
}

func (w *watches) add(path string, c *conn, mode watchMode) {
	w.remove(path, c)
	if w.byPath[path] == nil {
		w.byPath[path] = make(map[*conn]watchMode)
	}
	w.byPath[path][c] = mode
	if w.byConn[c] == nil {
		w.byConn[c] = make(map[string]struct{})
	}
	w.byConn[c][path] = struct{}{}
	if mode == watchRecursive {
		w.recursive++
	}
}

func (w *watches) has(path string, c *conn) bool {
	_, ok := w.byPath[path][c]
	return ok
}

// remove reports whether there was one.
func (w *watches) remove(path string, c *conn) bool {
	mode, ok := w.byPath[path][c]
	if !ok {
		return false
	}
	if mode == watchRecursive {
		w.recursive--
	}
	delete(w.byPath[path], c)
	if len(w.byPath[path]) == 0 {
		delete(w.byPath, path)
	}
	delete(w.byConn[c], path)
	if len(w.byConn[c]) == 0 {
		delete(w.byConn, c)
	}
	return true
}

func (w *watches) removeConn(c *conn) {
	for path := range maps.Clone(w.byConn[c]) {
		w.remove(path, c)
	}
}

func (w *watches) count() int {
	n := 0
	for _, paths := range w.byConn {
		n += len(paths)
	}
	return n
}

// fired returns the connections that are to be told of an event, and takes away
// the watches that fire once.
func (w *watches) fired(e event) map[*conn]struct{} {
	var out map[*conn]struct{}
	tell := func(c *conn) {
		if out == nil {
			out = make(map[*conn]struct{})
		}
		out[c] = struct{}{}
	}
	for c, mode := range w.byPath[e.path] {
		switch mode {
		case watchOnce:
			tell(c)
			w.remove(e.path, c)
		case watchAlways:
			tell(c)
		case watchRecursive:
			// Who sees every node come and go needs no word of its parent.
			if e.kind != eventChildrenChanged {
				tell(c)
			}
		}
	}
	if w.recursive == 0 || e.kind == eventChildrenChanged {
		return out
	}
	for path := e.path; path != rootPath; {
		path = parentPath(path)
		for c, mode := range w.byPath[path] {
			if mode == watchRecursive {
				tell(c)
			}
		}
	}
	return out
}

// notify tells the watches of events, in their order.
func (s *Server) notify(events []event) {
	for _, e := range events {
		switch e.kind {
		case eventCreated, eventDataChanged:
			s.tell(e, s.dataWatches.fired(e), nil)
		case eventChildrenChanged:
			s.tell(e, s.childWatches.fired(e), nil)
		case eventDeleted:
			// A connection with watches of both kinds is told once.
			told := s.dataWatches.fired(e)
			s.tell(e, told, nil)
			s.tell(e, s.childWatches.fired(e), told)
		}
	}
}

func (s *Server) tell(e event, conns, but map[*conn]struct{}) {
	for c := range conns {
		if _, skip := but[c]; !skip {
			s.send(parcel{c: c, frame: appendEvent(nil, e), kind: sendEvent})
		}
	}
}

// appendEvent appends the frame of an event.
func appendEvent(b []byte, e event) []byte {
	b = appendHeader(b, xidEvent, zxidEvent, codeOK)
	b = appendInt32(b, e.kind)
	b = appendInt32(b, int32(stateSyncConnected))
	return endFrame(appendString(b, e.path))
}
