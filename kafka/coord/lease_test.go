package coord_test

import (
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

const leaseTimeout = 900 * time.Millisecond

// TestLeaseIsKept: it is proved by a sync every third of the time-out while
// somebody keeps it, and lapses without.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: leaseTimeout})
		s := session(t, c)
		if s.Timeout() != leaseTimeout {
			t.Errorf("time-out %v", s.Timeout())
		}
		if !s.Valid() {
			t.Error("a new session is not valid")
		}
		eventually(t, "lease lapsed that nobody keeps", func() bool { return !s.Valid() })
		if n := cl.RequestsByKind()[zktest.OpSync]; n != 0 || s.Context().Err() != nil {
			t.Errorf("%d proofs, context %v", n, s.Context().Err())
		}
		stop := s.KeepLease()
		eventually(t, "lease taken up", s.Valid)
		lapsed := 0
		for began := time.Now(); time.Since(began) < 3*s.Timeout(); time.Sleep(5 * time.Millisecond) {
			if !s.Valid() {
				lapsed++
			}
		}
		// A machine that is busy may hold a proof up.
		if n := cl.RequestsByKind()[zktest.OpSync]; lapsed > 100 || n < 4 || n > 15 {
			t.Errorf("lapsed at %d looks, %d proofs", lapsed, n)
		}
		stop()
		eventually(t, "lease lapsed that was given up", func() bool { return !s.Valid() })
		eventually(t, "no request under way", func() bool { st := c.Stats(); return st.Ended == st.Requests })
		if n, told := cl.RequestsByKind()[zktest.OpSync], c.Stats().Proofs; told != n || told > c.Stats().Requests {
			t.Errorf("%d proofs are counted of %d requests, and %d were sent", told, c.Stats().Requests, n)
		}
	})
}

// TestIdleClientsOnlyPing: watches, ephemeral nodes and a lease that nobody keeps
// cost no request while nothing changes.
func TestIdleClientsOnlyPing(t *testing.T) {
	t.Parallel()
	cl := zktest.Shared(t, zktest.Embedded)
	c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 1500 * time.Millisecond})
	var s states
	must(t, c.WatchChildren("/", s.children).Ready(testContext(t)))
	must(t, c.WatchData("/missing", s.data).Ready(testContext(t)))
	must(t, c.Ephemeral("/missing2/e", func() []byte { return nil }).Wait(testContext(t)))
	s.want(t, "missing2") // told last, as the node above comes after both
	quiet := func() bool {
		connects, before, pings := c.Stats().Connects, cl.Requests(), cl.RequestsByKind()[zktest.OpPing]
		eventually(t, "three pings", func() bool { return cl.RequestsByKind()[zktest.OpPing] >= pings+3 })
		n := cl.Requests() - before
		if c.Stats().Connects != connects { // a machine that is busy loses connections
			return false
		}
		if n != 0 {
			t.Errorf("%d requests while nothing changed: %v", n, cl.RequestsByKind())
		}
		return true
	}
	eventually(t, "three pings over one connection", quiet)
}

// TestLeaseOfCutOffClient: the lease ends by the clock, while the session may be
// alive; over the next connection it is taken up.
func TestLeaseOfCutOffClient(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 2 * time.Second})
		s := session(t, c)
		defer s.KeepLease()()
		for _, away := range []func(){cl.Cut, cl.Freeze} {
			eventually(t, "lease", s.Valid)
			away()
			asked := time.Now()
			eventually(t, "lease over", func() bool { return !s.Valid() })
			if until := s.ValidUntil(); until.After(asked.Add(s.Timeout())) {
				t.Errorf("lease lasted %v after the server was gone, with a time-out of %v", until.Sub(asked), s.Timeout())
			}
			if s.Context().Err() != nil {
				t.Error("the session was given up without word from the server")
			}
			cl.Mend()
			next := s
			eventually(t, "valid session", func() bool { next = session(t, c); return next.Valid() || next.Context().Err() != nil })
			if next != s { // the server was quicker
				break
			}
		}
	})
}

// TestLeaseCountsFromSending: a proof that is answered late lasts no longer.
func TestLeaseCountsFromSending(t *testing.T) {
	t.Parallel()
	const late = 500 * time.Millisecond
	f := newFake(t, func(f *fakeServer) {
		f.timeout = 3 * time.Second
		f.answer = func(r fakeRequest) (int32, []byte, bool) {
			if r.kind == kindSync {
				time.Sleep(late) // what the test is about, not a wait for anything
				return 0, str("/"), true
			}
			return 0, nil, true
		}
	})
	s := session(t, connect(t, f.config()))
	first := s.ValidUntil()
	defer s.KeepLease()()
	eventually(t, "lease extended", func() bool { return s.ValidUntil() != first })
	until := s.ValidUntil()
	proofs, _ := f.seen(kindSync)
	came := proofs[0].at
	if until.After(came.Add(s.Timeout())) {
		t.Errorf("lease until %v after the proof came to the server, time-out %v", until.Sub(came), s.Timeout())
	}
	if until.Before(first) {
		t.Errorf("lease until %v, was %v", until, first)
	}
}
