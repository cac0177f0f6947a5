package zkserver

// maxAuthIDs bounds who a connection can be at once, and maxAuthBytes what it
// takes to prove one of them.
const (
	maxAuthIDs   = 16
	maxAuthBytes = 1 << 10
)

// handle carries out one item.
func (s *Server) handle(it item) {
	switch {
	case it.call != nil:
		it.call()
		return
	case it.ended:
		s.forget(it.c)
		return
	case it.hello:
		s.requests[handshakeName]++
		s.connect(it)
		return
	}
	s.requests[it.op.String()]++
	// Requests that were read before their session ended have nobody to answer.
	// Those of a connection that was lost meanwhile are carried out.
	if x := it.c.session; s.state.sessions[x.id] != x {
		return
	}
	d := &decoder{b: it.body}
	switch it.op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opDeleteContainer, opSetData, opSetACL, opCheck, opReconfig, opMulti:
		s.write(it, d)
	case opPing:
		s.answer(it, codeOK, nil)
	case opAuth:
		s.auth(it, d)
	case opCloseSession:
		t := s.begin()
		s.must(t, change{kind: changeEndSession, session: it.c.session})
		s.commit(t)
		s.answerAs(it, t.zxid, codeOK, nil, sendLast)
	default:
		read, known := reads[it.op]
		if !known {
			// As ZooKeeper does: the number of the transaction is that of none, and the
			// connection is closed.
			s.answerAs(it, -1, codeUnimplemented, nil, sendLast)
			return
		}
		body, err := read(s, it.c, d)
		if d.err != nil {
			err = codeMarshalling
		}
		s.answer(it, err, body)
	}
}

// auth notes who a connection says it is. No node asks for it, but a node whose
// permissions are for "auth" names it, and whoAmI tells it.
func (s *Server) auth(it item, d *decoder) {
	d.int32() // type, always 0
	scheme, proof := d.string(), d.buffer()
	if d.err != nil {
		s.sever(it.c) // ZooKeeper answers nothing here
		return
	}
	c := it.c
	id, err := authenticate(scheme, proof, c.addr)
	known := false
	for _, own := range c.auth {
		known = known || own == id
	}
	if err == codeOK && !known {
		if len(c.auth) >= maxAuthIDs || len(proof) > maxAuthBytes {
			err = codeAuthFailed
		} else {
			c.auth = append(c.auth, id)
		}
	}
	kind := sendAnswer
	if err != codeOK {
		kind = sendLast
	}
	s.answerAs(it, 0, err, nil, kind)
}

// connect opens a session, or gives an old one a new connection.
func (s *Server) connect(it item) {
	d := &decoder{b: it.body}
	d.int32() // version, 0
	seen, asked, id, password := d.int64(), d.int32(), d.int64(), d.buffer()
	if d.err != nil {
		s.sever(it.c)
		return
	}
	// Clients before 3.4 do not send whether a read-only server would do, and do
	// not expect to hear whether this is one.
	older := len(d.b) == 0
	if seen > s.state.tree.zxid {
		s.log.Warn("connection closed: its client has seen more than this server has; does the data folder belong to it?",
			"peer", it.c.peer(), "client_zxid", seen, "zxid", s.state.tree.zxid)
		s.sever(it.c)
		return
	}
	c := it.c
	timeout := s.negotiate(asked)
	x := s.state.sessions[id]
	switch {
	case id == 0:
		x = s.newSession(timeout)
		t := s.begin()
		s.must(t, change{kind: changeOpenSession, session: x})
		s.commit(t)
		s.log.Debug("session begun", "session", sessionName(x.id), "peer", c.peer(), "timeout", timeout)
	case x == nil || string(password) != string(x.password[:]):
		if x != nil && x.conn != nil {
			s.sever(x.conn) // ZooKeeper does so before it looks at the password
		}
		s.log.Info("session refused: it has ended, or the password is wrong", "session", sessionName(id), "peer", c.peer())
		s.send(parcel{c: c, frame: appendConnected(nil, &session{}, 0, older), kind: sendLast, since: it.since})
		return
	case x.conn != nil:
		s.sever(x.conn)
	}
	x.heard.Store(int64(s.elapsed()))
	x.patience = timeout
	x.conn, c.session = c, x
	close(c.ready)
	s.send(parcel{c: c, frame: appendConnected(nil, x, int32(timeout.Milliseconds()), older), kind: sendAnswer, since: it.since})
}

// appendConnected appends the frame that answers a handshake. Without a session
// all is zero.
func appendConnected(b []byte, x *session, timeout int32, older bool) []byte {
	b = append(b, 0, 0, 0, 0)
	b = appendInt32(b, int32(0)) // version
	b = appendInt32(b, timeout)
	b = appendInt64(b, x.id)
	b = appendBuffer(b, x.password[:])
	if !older {
		b = appendBool(b, false) // not read-only
	}
	return endFrame(b)
}

// sever closes a connection without a word. Its session lives.
func (s *Server) sever(c *conn) {
	c.abort()
	s.forget(c)
}

// forget drops what belongs to a connection that has ended. It may be called
// again.
func (s *Server) forget(c *conn) {
	s.dataWatches.removeConn(c)
	s.childWatches.removeConn(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}
