package zktest

import (
	"fmt"
	"time"
)

// Expire ends a session at the server while its client lives and knows nothing:
// on an embedded server as if its time-out had passed, on a real one by a second
// connection with the session's id and password, which closes it. The session
// must have been made through a line of this cluster. Ephemeral nodes are gone
// when it returns.
func (c *Cluster) Expire(session int64) error {
	if c.Kind == Embedded {
		return c.servers.expireEmbedded(session)
	}
	s, ok := c.servers.session(session)
	if !ok {
		return fmt.Errorf("session %#x: no handshake of it came through the proxies", session)
	}
	var err error
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, addr := range c.servers.addrs(true) {
			var gone bool
			if gone, err = endSession(addr, s); gone {
				return nil
			}
		}
	}
	return fmt.Errorf("session %#x does not end: %w", session, err)
}

// endSession tries to close a session from a connection of its own. Its client
// may come back and take it away before that is done: then it is to be called
// again, and gone is only true when a server says that there is no such session.
func endSession(addr string, s Session) (gone bool, err error) {
	c, err := Dial(addr)
	if err != nil {
		return false, err
	}
	defer c.Close()
	// In one write, so that there is no time for the client in between.
	hello := handshakeRequest(0, s)
	bye := Fields{}.Int(1).Int(int32(OpCloseSession))
	both := append(Fields{}.Int(int32(len(hello))), hello...)
	both = append(both.Int(int32(len(bye))), bye...)
	if err := c.SendRaw(both); err != nil {
		return false, err
	}
	if err := c.readHandshake(); err != nil {
		return false, err
	}
	if c.Session.ID == 0 {
		return true, nil
	}
	_, err = c.Read()
	return false, err
}

// MakePath makes a persistent node with its parents, by a session of its own.
// Those that are there are kept.
func MakePath(addr, path string) error {
	c, err := Open(addr, Session{Timeout: patience})
	if err != nil {
		return err
	}
	defer c.Close()
	const nodeExists = -110
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		a, err := c.Call(OpCreate, Fields{}.String(path[:i]).Buffer([]byte{}).OpenACL().Int(0))
		if err != nil {
			return err
		}
		if a.Code != 0 && a.Code != nodeExists {
			return fmt.Errorf("create %s: code %d", path[:i], a.Code)
		}
	}
	_, err = c.Call(OpCloseSession, nil)
	return err
}
