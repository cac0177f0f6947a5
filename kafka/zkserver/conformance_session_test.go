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
		// Who tries throws out who has the session, but that is let in again.
		b.ended()
		if b = reopen(t, c, s); b.Session.ID != s.ID || !b.exists("/e") {
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

// A session that nothing is heard of ends, and its nodes go.
func TestConformanceExpiry(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		const timeout = 600 * time.Millisecond
		watcher := open(t, c, anyone)
		quiet, gone := open(t, c, timeout), open(t, c, timeout)
		quiet.create("/quiet", "", 1)
		gone.create("/gone", "", 1)
		watcher.watchExists("/quiet")
		gone.Close()
		start := time.Now()
		eventually(t, "their nodes go", func() bool { return !watcher.exists("/quiet") && !watcher.exists("/gone") })
		if took := time.Since(start); took < timeout/2 {
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
	})
}

// Pings keep a session alive, and so do requests.
func TestConformanceKeepAlive(t *testing.T) {
	for name, request := range map[string]struct {
		xid  int32
		op   zktest.Op
		body zktest.Fields
	}{
		"pings":    {zktest.XidPing, zktest.OpPing, nil},
		"requests": {1, zktest.OpExists, zktest.Fields{}.String("/").Bool(false)},
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
				staysAlive(t, c, func(a *raw) bool {
					if err := a.Send(request.xid, request.op, request.body); err != nil {
						return false
					}
					_, err := a.Read()
					return err == nil
				})
			})
		})
	}
}

// staysAlive keeps a session for longer than its time-out by what it is given. On a
// machine that stands still for a part of that time it tries again.
func staysAlive(t *testing.T, c *zktest.Cluster, keep func(*raw) bool) {
	t.Helper()
	const timeout = 500 * time.Millisecond
	for range 5 {
		a := open(t, c, timeout)
		longest, last, alive := time.Duration(0), time.Now(), true
		for start := last; alive && time.Since(start) < 2*timeout; time.Sleep(timeout / 20) {
			alive = keep(a)
			longest, last = max(longest, time.Since(last)), time.Now()
		}
		if alive {
			a.closeSession()
			return
		}
		if longest < timeout/2 {
			t.Fatalf("the session has ended, with a time-out of %v and %v at most between two requests", timeout, longest)
		}
		t.Logf("%v passed between two requests; again", longest)
	}
	t.Fatal("this machine is too slow for a session of this time-out")
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
