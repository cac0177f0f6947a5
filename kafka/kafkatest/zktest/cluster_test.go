package zktest

import (
	"net"
	"testing"
	"time"
)

func TestRequestsAreCounted(t *testing.T) {
	EachShared(t, func(t *testing.T, c *Cluster) {
		conn := open(t, c.Proxy(0).Addr())
		before := c.Requests()
		create(t, conn, c.chroot+"/a", "data", 0)
		get(t, conn, c.chroot+"/a")
		if err := conn.Send(XidPing, OpPing, nil); err != nil {
			t.Fatal(err)
		}
		get(t, conn, c.chroot+"/a")
		kinds := c.RequestsByKind()
		if n := c.Requests() - before; n != 3 || kinds[OpCreate] != 1 || kinds[OpGetData] != 2 || kinds[OpPing] != 1 {
			t.Errorf("%d requests, by kind %v", n, kinds)
		}
		if s, ok := c.Session(conn.Session.ID); !ok || s.Timeout != conn.Session.Timeout || string(s.Password) != string(conn.Session.Password) {
			t.Errorf("the proxy has seen %v, %v; the client %v", s, ok, conn.Session)
		}
	})
}

// Nodes outlive kills and stops, and the addresses do too.
func TestRestarts(t *testing.T) {
	Each(t, func(t *testing.T, c *Cluster) {
		connect, direct, addr := c.Connect(), c.Direct(), c.Proxy(0).Addr()
		conn := open(t, addr)
		create(t, conn, "/kept", "1", 0)
		c.Kill(0)
		if a, err := conn.Call(OpSync, Fields{}.String("/")); err == nil {
			t.Errorf("a killed server answers %v", a)
		}
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			t.Error("a killed server accepts connections")
		}
		c.Kill(0) // does nothing
		c.Restart(0)
		conn = open(t, addr)
		if got := get(t, conn, "/kept"); got != "1" {
			t.Errorf("after a kill: %q", got)
		}
		create(t, conn, "/kept/2", "2", 0)
		c.Restart(0)
		c.Stop()
		c.StartAgain()
		conn = open(t, addr)
		if got := get(t, conn, "/kept/2"); got != "2" {
			t.Errorf("after stops: %q", got)
		}
		if c.Connect() != connect || c.Direct() != direct {
			t.Errorf("%s, %s became %s, %s", connect, direct, c.Connect(), c.Direct())
		}
	})
}

func TestExpire(t *testing.T) {
	EachShared(t, func(t *testing.T, c *Cluster) {
		addr := c.Proxy(0).Addr()
		conn, watcher := open(t, addr), open(t, addr)
		create(t, conn, c.chroot+"/e", "", ephemeral)
		// Its client comes back whenever it is thrown out, as clients do.
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				again, err := Open(addr, conn.Session)
				if err == nil {
					id := again.Session.ID
					again.Close()
					if id == 0 {
						return
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
		if err := c.Expire(conn.Session.ID); err != nil {
			t.Fatal(err)
		}
		call(t, watcher, OpSync, Fields{}.String("/"))
		if exists(t, watcher, c.chroot+"/e") {
			t.Error("its ephemeral node is still there")
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("its client is still let in")
		}
		close(stop)
		<-ended
		if !exists(t, watcher, c.chroot) {
			t.Error("another session does not work any more")
		}
	})
}

// What breaks on one line is not felt on another.
func TestLines(t *testing.T) {
	EachShared(t, func(t *testing.T, c *Cluster) {
		mine, other := c.NewLine(), c.NewLine()
		a, b := open(t, mine.Proxy(0).Addr()), open(t, other.Proxy(0).Addr())
		mine.Cut()
		if _, err := a.Call(OpSync, Fields{}.String("/")); !broken(err) {
			t.Errorf("on a line that is cut: %v", err)
		}
		exists(t, b, "/")
		mine.Mend()
		a = open(t, mine.Proxy(0).Addr())
		exists(t, a, "/")
		if n := other.Requests(); n != 1 {
			t.Errorf("%d requests on the other line", n)
		}
		// The answer is lost, but the request was carried out.
		mine.FreezeAnswers()
		if err := a.Send(1000, OpCreate, Fields{}.String(c.chroot+"/lost").Buffer(nil).OpenACL().Int(0)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is carried out", func() bool { return exists(t, b, c.chroot+"/lost") })
		mine.DropConnections()
		mine.Mend()
		if answer, err := a.Read(); !broken(err) {
			t.Errorf("the answer came: %v, %v", answer, err)
		}
	})
}

func TestChroot(t *testing.T) {
	c := Start(t, Embedded, Chroot("/deep/down"))
	if want := c.Proxy(0).Addr() + "/deep/down"; c.Connect() != want {
		t.Errorf("connect to %s, want %s", c.Connect(), want)
	}
	if !exists(t, open(t, c.Addr(0)), "/deep/down") {
		t.Error("it was not made")
	}
	if err := MakePath(c.Addr(0), "/deep/down/there"); err != nil {
		t.Error(err)
	}
}

func TestSessionTimeoutBounds(t *testing.T) {
	for _, kind := range []Kind{Embedded, Real} {
		t.Run(kind.String(), func(t *testing.T) {
			c := Start(t, kind, Tick(100*time.Millisecond), SessionTimeouts(300*time.Millisecond, 2*time.Second))
			for ask, want := range map[time.Duration]time.Duration{0: 300, 300: 300, 1000: 1000, 5000: 2000} {
				conn, err := Open(c.Addr(0), Session{Timeout: ask * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				if got := conn.Session.Timeout; got != want*time.Millisecond {
					t.Errorf("asked for %d ms, got %v, want %d ms", ask, got, want)
				}
				conn.Close()
			}
		})
	}
}

// An ensemble serves while one member is down, be it the leader, and a session
// goes on at another member.
func TestEnsemble(t *testing.T) {
	c := Start(t, Ensemble)
	leader := c.Leader()
	other := (leader + 1) % c.Size()
	conn := open(t, c.Proxy(leader).Addr())
	create(t, conn, "/e", "mine", ephemeral)
	session := conn.Session
	c.Kill(leader)
	var moved *Conn
	eventually(t, "the session goes on", func() bool {
		var err error
		moved, err = Open(c.Proxy(other).Addr(), session)
		return err == nil
	})
	defer moved.Close()
	if moved.Session.ID != session.ID {
		t.Fatalf("session %#x became %#x", session.ID, moved.Session.ID)
	}
	if got := get(t, moved, "/e"); got != "mine" {
		t.Errorf("its node is %q", got)
	}
	c.Restart(leader)
	if got := get(t, open(t, c.Proxy(leader).Addr()), "/e"); got != "mine" {
		t.Errorf("at the member that came back it is %q", got)
	}
	if err := c.Expire(session.ID); err != nil {
		t.Fatal(err)
	}
	third := open(t, c.Proxy((leader+2)%c.Size()).Addr())
	call(t, third, OpSync, Fields{}.String("/"))
	if exists(t, third, "/e") {
		t.Error("an ephemeral node outlived its session")
	}
}

// Without a majority nothing serves; with one again everything does.
func TestEnsembleWithoutMajority(t *testing.T) {
	c := Start(t, Ensemble)
	create(t, open(t, c.Proxy(0).Addr()), "/kept", "1", 0)
	c.Kill(0)
	c.Kill(1)
	c.Kill(2)
	c.Restart(1)
	c.Restart(2)
	if got := get(t, open(t, c.Proxy(2).Addr()), "/kept"); got != "1" {
		t.Errorf("after all were killed: %q", got)
	}
	c.StartAgain()
	if l := c.Leader(); l == 0 {
		t.Log("the member that came last leads")
	}
	if got := get(t, open(t, c.Proxy(0).Addr()), "/kept"); got != "1" {
		t.Errorf("at the last one: %q", got)
	}
}

func TestCLI(t *testing.T) {
	EachShared(t, func(t *testing.T, c *Cluster) {
		conn := open(t, c.Addr(0))
		const value = "1-1-host:host:9092"
		create(t, conn, c.chroot+"/n", value, 0)
		create(t, conn, c.chroot+"/n/a b", "two\nlines\n\nand a half", 0)
		for _, command := range []struct {
			argv []string
			want string
		}{
			{[]string{"get", "/n"}, value},
			{[]string{"get", "/n/a b"}, "two\nlines\n\nand a half"},
			{[]string{"ls", "/n"}, "[a b]"},
			{[]string{"create", "/n/c", "made by it"}, ""}, // it tells that on its standard error
		} {
			if got := c.CLI(t, command.argv...); got != command.want {
				t.Errorf("%v: %q, want %q", command.argv, got, command.want)
			}
		}
		if got := get(t, conn, c.chroot+"/n/c"); got != "made by it" {
			t.Errorf("it made %q", got)
		}
	})
}
