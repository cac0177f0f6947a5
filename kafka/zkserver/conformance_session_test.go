package zkserver_test

import (
	"bytes"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// A session goes on for who knows its id and password, and for nobody else.
func TestConformanceReconnect(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/e", "x", 1)
		s := a.Session
		if len(s.Password) != 16 || s.ID == 0 {
			t.Fatalf("session %#x with a password of %d bytes", s.ID, len(s.Password))
		}
		a.Close()
		b := reopen(t, c, s)
		if b.Session.ID != s.ID || !bytes.Equal(b.Session.Password, s.Password) || b.Session.Timeout != s.Timeout {
			t.Errorf("%+v became %+v", s, b.Session)
		}
		if !b.exists("/e") {
			t.Error("the session's node is gone")
		}
		wrong := s
		wrong.Password = bytes.Repeat([]byte{7}, 16)
		refused := reopen(t, c, wrong)
		if refused.Session.ID != 0 {
			t.Errorf("a wrong password was taken for session %#x", refused.Session.ID)
		}
		refused.ended()
		unknown := s
		unknown.ID++
		refused = reopen(t, c, unknown)
		if refused.Session.ID != 0 {
			t.Errorf("session %#x was made up", refused.Session.ID)
		}
		refused.ended()
		// A wrong password does no harm to who has the right one.
		if !b.exists("/e") {
			t.Error("the session's node is gone")
		}
	})
}

// The time-out of a session may change when it goes on.
func TestConformanceTimeoutOnReconnect(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		s := open(t, c, anyone).Session
		s.Timeout = 3 * time.Second
		if got := reopen(t, c, s).Session.Timeout; got != 3*time.Second {
			t.Errorf("time-out %v", got)
		}
	})
}

// Time-outs are brought into the bounds of the server.
func TestConformanceTimeouts(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		for ask, want := range map[time.Duration]time.Duration{
			-time.Second: 400 * time.Millisecond, 0: 400 * time.Millisecond, 399 * time.Millisecond: 400 * time.Millisecond,
			401 * time.Millisecond: 401 * time.Millisecond, time.Minute: time.Minute, time.Hour: time.Minute,
		} {
			if got := open(t, c, ask).Session.Timeout; got != want {
				t.Errorf("asked for %v, got %v, want %v", ask, got, want)
			}
		}
	})
}

// A session that nothing is heard of ends, and its nodes go; one that sends pings
// lives on, also over a change of connections.
func TestConformanceExpiry(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		const timeout = 600 * time.Millisecond
		watcher := open(t, c, anyone)
		quiet, gone, alive := open(t, c, timeout), open(t, c, timeout), open(t, c, timeout)
		quiet.create("/quiet", "", 1)
		gone.create("/gone", "", 1)
		alive.create("/alive", "", 1)
		watcher.watchExists("/quiet")
		gone.Close()
		start := time.Now()
		for (watcher.exists("/quiet") || watcher.exists("/gone")) && time.Since(start) < patience {
			if err := alive.Send(zktest.XidPing, zktest.OpPing, nil); err != nil {
				t.Fatal(err)
			}
			if a, err := alive.Read(); err != nil || a.Xid != zktest.XidPing {
				t.Fatalf("answer to a ping: %+v, %v", a, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took < timeout/2 || took >= patience {
			t.Errorf("their nodes went after %v, with a time-out of %v", took, timeout)
		}
		if len(watcher.Events) != 1 || watcher.Events[0].Type != eventDeleted || watcher.Events[0].Path != watcher.path("/quiet") {
			t.Errorf("events %+v", watcher.Events)
		}
		quiet.ended()
		for _, s := range []zktest.Session{quiet.Session, gone.Session} {
			again := reopen(t, c, s)
			if again.Session.ID != 0 {
				t.Errorf("session %#x lives", s.ID)
			}
			again.ended()
		}
		if !watcher.exists("/alive") {
			t.Error("a session that sent pings has ended")
		}
		alive.closeSession()
		watcher.sync()
		if watcher.exists("/alive") {
			t.Error("the node of a session that was closed is still there")
		}
	})
}

// Requests keep a session alive as pings do.
func TestConformanceRequestsKeepAlive(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, 400*time.Millisecond)
		a.create("/e", "", 1)
		for start := time.Now(); time.Since(start) < 1500*time.Millisecond; time.Sleep(20 * time.Millisecond) {
			if !a.exists("/e") {
				t.Fatal("the session has ended")
			}
		}
	})
}

// Two connections of one session: the later one has it.
func TestConformanceTakeover(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		first := open(t, c, anyone)
		first.create("/e", "", 1)
		first.watchExists("/e")
		second := reopen(t, c, first.Session)
		first.ended()
		// A watch belongs to the connection that set it.
		second.set("/e", "x")
		if len(second.Events) != 0 {
			t.Errorf("the second connection is told %+v", second.Events)
		}
		// That the first one is gone ends nothing.
		first.Close()
		if !second.exists("/e") {
			t.Error("the session has ended")
		}
	})
}

// A restart keeps nodes and sessions; a session's time-out begins anew.
func TestConformanceRestart(t *testing.T) {
	zktest.Each(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/n", "kept", 0)
		a.create("/n/s-", "", 2)
		a.create("/e", "mine", 1)
		a.set("/n", "kept too")
		before := a.code(codeOK, zktest.OpGetData, zktest.Fields{}.String("/n").Bool(false))
		short := open(t, c, 500*time.Millisecond)
		short.create("/short", "", 1)
		closed := open(t, c, anyone)
		closed.create("/closed", "", 1)
		closed.closeSession()
		c.Kill(0)
		c.Restart(0)
		b := reopen(t, c, a.Session)
		if b.Session.ID != a.Session.ID {
			t.Fatalf("session %#x became %#x", a.Session.ID, b.Session.ID)
		}
		after := b.code(codeOK, zktest.OpGetData, zktest.Fields{}.String("/n").Bool(false))
		if !bytes.Equal(before.Body, after.Body) {
			t.Errorf("data and stat\n%x became\n%x", before.Body, after.Body)
		}
		if after.Zxid < before.Zxid {
			t.Errorf("changes are counted from %d again, after %d", after.Zxid, before.Zxid)
		}
		if !b.exists("/e") || b.exists("/closed") {
			t.Errorf("ephemeral nodes: of the session that goes on %t, of the one that was closed %t", b.exists("/e"), b.exists("/closed"))
		}
		eventually(t, "the session that does not come back ends", func() bool { return !b.exists("/short") })
		b.create("/n/s-", "", 2)
		if !b.exists("/n/s-0000000001") {
			t.Error("sequential numbers did not go on")
		}
		again := b.code(codeOK, zktest.OpCreate, createBody("/n/new", "", 0))
		if again.Zxid <= after.Zxid {
			t.Errorf("change %d after %d", again.Zxid, after.Zxid)
		}
		c.Restart(0) // in order this time
		if last := reopen(t, c, a.Session); last.Session.ID != a.Session.ID || !last.exists("/n/new") || !last.exists("/e") {
			t.Errorf("after another restart: session %#x, nodes %t %t", last.Session.ID, last.exists("/n/new"), last.exists("/e"))
		}
	})
}

// A client that has seen more than the server has is sent away: it would see the
// past.
func TestConformanceClientFromTheFuture(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		conn, err := zktest.Dial(c.Proxy(0).Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Handshake(1<<60, zktest.Session{Timeout: anyone}); !hungUp(err) {
			t.Errorf("handshake: %v, session %#x", err, conn.Session.ID)
		}
	})
}

// The answer to each request comes in the order of the requests, and a client may
// send many before it reads.
func TestConformancePipelining(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		a := open(t, c, anyone)
		a.create("/n", "", 0)
		const n = 200
		for i := range int32(n) {
			var err error
			switch i % 3 {
			case 0:
				err = a.Send(i, zktest.OpSetData, zktest.Fields{}.String(a.path("/n")).Buffer([]byte("x")).Int(-1))
			case 1:
				err = a.Send(i, zktest.OpExists, zktest.Fields{}.String(a.path("/n")).Bool(false))
			default:
				err = a.Send(zktest.XidPing, zktest.OpPing, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		sets := int32(0)
		for i := range int32(n) {
			got, err := a.Read()
			want := i
			if i%3 == 2 {
				want = zktest.XidPing
			}
			if err != nil || got.Xid != want || got.Code != codeOK {
				t.Fatalf("answer %d: %+v, %v", i, got, err)
			}
			if i%3 == 0 {
				sets++
			}
			if i%3 == 1 {
				if v := zktest.NewReader(got.Body).Stat().Version; v != sets {
					t.Fatalf("answer %d: version %d after %d sets", i, v, sets)
				}
			}
		}
	})
}
