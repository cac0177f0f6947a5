package zkserver

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestManyReconnects: a session that changes its connection again and again
// leaves nothing behind: no connection, no watch.
func TestManyReconnects(t *testing.T) {
	s := start(t, Config{})
	c := open(t, s)
	c.must(opCreate, createBody("/e", "", modeEphemeral))
	for i := range 300 {
		c.must(opGetData, pathWatch("/e", true))
		c.must(opGetChildren, pathWatch("/", true))
		old := c
		if i%2 == 0 {
			old.conn.Close()
		}
		c = join(t, s, old)
		if c.id != old.id {
			t.Fatalf("reconnect %d: session %#x of %#x", i, c.id, old.id)
		}
		old.conn.Close()
	}
	eventually(t, "one connection and no watch are left", func() bool {
		watches := 0
		if err := s.call(func() { watches = s.dataWatches.count() + s.childWatches.count() }); err != nil {
			t.Fatal(err)
		}
		return s.connections() == 1 && watches == 0
	})
	if got := s.Sessions(); len(got) != 1 || !got[0].Connected || len(got[0].Ephemerals) != 1 {
		t.Errorf("sessions %+v", got)
	}
}

// TestStorm: clients do whatever they like while connections are dropped and
// sessions ended. In the end there are the ephemeral nodes of the sessions that
// live, and the next start finds the same.
func TestStorm(t *testing.T) {
	random := seed(t)
	dir := t.TempDir()
	s := start(t, Config{DataDir: dir, snapshotTxns: 200})
	setup := open(t, s)
	setup.must(opCreate, createBody("/p", "", 0))
	var clients, chaos sync.WaitGroup
	over := make(chan struct{})
	for i := range 8 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			storm(t, s, rand.New(rand.NewPCG(random, uint64(i))))
		}()
	}
	chaos.Add(1)
	go func() {
		defer chaos.Done()
		rng := rand.New(rand.NewPCG(random, 100))
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
			for _, x := range s.Sessions() {
				switch {
				case x.ID == setup.id:
				case rng.IntN(20) == 0:
					_ = s.Drop(x.ID) // it may have ended meanwhile
				case rng.IntN(40) == 0:
					_ = s.Expire(x.ID)
				}
			}
		}
	}()
	clients.Wait()
	close(over)
	chaos.Wait()
	sessions := s.Sessions()
	total := 0
	for _, x := range sessions {
		total += len(x.Ephemerals)
	}
	var kept string
	if err := s.call(func() {
		kept = image(s.state)
		here := 0
		for _, n := range s.state.tree.nodes {
			if n.ephemeral() {
				here++
				if s.state.sessions[n.owner] == nil {
					t.Errorf("a node of session %#x, which has ended", n.owner)
				}
			}
		}
		if here != total {
			t.Errorf("%d ephemeral nodes, %d of sessions", here, total)
		}
	}); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	again := start(t, Config{DataDir: dir})
	if err := again.call(func() {
		if image(again.state) != kept {
			t.Error("the next start finds another state")
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// storm makes and loses sessions for a while.
func storm(t *testing.T, s *Server, rng *rand.Rand) {
	c := &client{timeout: 10 * time.Second}
	for range 30 {
		joined, err := tryJoin(t, s, c)
		if err != nil {
			continue // dropped before it was told
		}
		if c = joined; c.id == 0 {
			c = &client{timeout: 10 * time.Second} // it was ended: a new one
			continue
		}
		for range rng.IntN(20) {
			var op opcode
			var body []byte
			switch rng.IntN(7) {
			case 0:
				op, body = opCreate, createBody("/p/e-", "x", modeEphemeralSequential)
			case 1:
				op, body = opCreate2, createBody(number(rng.IntN(20)), "x", createMode(rng.IntN(2)))
			case 2:
				op, body = opDelete, pathVersion(number(rng.IntN(20)), -1)
			case 3:
				op, body = opSetData, setBody(number(rng.IntN(20)), "y", -1)
			case 4:
				op, body = opGetChildren2, pathWatch("/p", true)
			case 5:
				op, body = opExists, pathWatch(number(rng.IntN(20)), true)
			default:
				op, body = opMulti, multiBody(multiOp{opCreate, createBody("/p/m-", "", modeEphemeralSequential)},
					multiOp{opSetData, setBody("/p", "z", int32(rng.IntN(3)))})
			}
			c.xid++
			b := append(appendInt32(appendInt32(make([]byte, 4), c.xid), op), body...)
			if _, err := c.conn.Write(endFrame(b)); err != nil {
				break
			}
			if !c.answered() {
				break
			}
		}
		c.conn.Close()
	}
}

// answered reads up to the answer to the last request; it fails when the
// connection has ended.
func (c *client) answered() bool {
	for {
		r, err := c.read()
		if err != nil {
			return false
		}
		if r.xid == c.xid {
			return true
		}
	}
}
