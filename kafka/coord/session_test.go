package coord_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// TestExpiry: a session that the server has ended is told as such, its requests
// fail, those of the client go on, and OnSession hears of the next.
func TestExpiry(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect()})
		ctx := testContext(t)
		told := make(chan *coord.Session, 10)
		remove := c.OnSession(func(s *coord.Session) { told <- s })
		first := session(t, c)
		if s := <-told; s != first {
			t.Errorf("told of session %#x, not %#x", s.ID(), first.ID())
		}
		_, err := first.CreateEphemeral(ctx, "/e", nil)
		must(t, err)
		must(t, cl.Expire(first.ID()))
		<-first.Context().Done()
		if first.Valid() || context.Cause(first.Context()) != coord.ErrExpired {
			t.Errorf("valid %v, cause %v", first.Valid(), context.Cause(first.Context()))
		}
		if _, ok, err := c.Exists(ctx, "/e"); ok || err != nil {
			t.Errorf("ephemeral: %v, %v", ok, err)
		}
		second := session(t, c)
		if second == first || second.ID() == first.ID() || !second.Valid() {
			t.Errorf("second session %#x, first %#x, valid %v", second.ID(), first.ID(), second.Valid())
		}
		if s := <-told; s != second {
			t.Errorf("told of session %#x, not %#x", s.ID(), second.ID())
		}
		for what, err := range requestsOf(ctx, first) {
			wantErr(t, what+" of a session that has expired", err, coord.ErrExpired)
			if errors.Is(err, coord.ErrInDoubt) {
				t.Errorf("%s in doubt: %v", what, err)
			}
		}
		remove()
		must(t, cl.Expire(second.ID()))
		eventually(t, "third session", func() bool { s, err := c.Session(ctx); return err == nil && s != second })
		if st := c.Stats(); st.Sessions != 3 || st.Expiries != 2 || st.Connects < 3 || st.Requests == 0 {
			t.Errorf("stats %+v", st)
		}
		must(t, c.Close())
		if len(told) > 0 {
			t.Error("told after remove")
		}
	})
}

// requester is what Client and Session have in common.
type requester interface {
	Get(ctx context.Context, path string) ([]byte, coord.Stat, error)
	Exists(ctx context.Context, path string) (coord.Stat, bool, error)
	Children(ctx context.Context, path string) ([]string, coord.Stat, error)
	Set(ctx context.Context, path string, data []byte, version int32) (coord.Stat, error)
	Put(ctx context.Context, path string, data []byte) error
	Create(ctx context.Context, path string, data []byte) error
	Delete(ctx context.Context, path string, version int32) error
	DeleteTree(ctx context.Context, path string) error
	Multi(ctx context.Context, ops ...coord.Op) error
}

// requestsOf makes one request of each kind.
func requestsOf(ctx context.Context, r requester) map[string]error {
	errs := map[string]error{}
	_, _, errs["get"] = r.Get(ctx, "/a")
	_, _, errs["exists"] = r.Exists(ctx, "/a")
	_, _, errs["children"] = r.Children(ctx, "/a")
	_, errs["set"] = r.Set(ctx, "/a", nil, -1)
	errs["put"] = r.Put(ctx, "/a", nil)
	errs["create"] = r.Create(ctx, "/a", nil)
	errs["delete"] = r.Delete(ctx, "/a", -1)
	errs["delete tree"] = r.DeleteTree(ctx, "/a")
	errs["multi"] = r.Multi(ctx, coord.CheckOp("/a", -1))
	if s, ok := r.(*coord.Session); ok {
		_, errs["create ephemeral"] = s.CreateEphemeral(ctx, "/a", nil)
	}
	return errs
}

// TestQueueEndsWithSession: what is asked for in a session while its connection
// hangs is not carried out in the next one.
func TestQueueEndsWithSession(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		for _, broken := range []bool{false, true} {
			c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 2 * time.Second, RequestTimeout: patience})
			s := session(t, c)
			must(t, c.Put(testContext(t), "/q", nil))
			cl.Freeze()
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					path := fmt.Sprintf("/q/%v-%d", broken, i)
					// Those that were sent cannot know more than that the line broke.
					if err := s.Create(testContext(t), path, nil); !errors.Is(err, coord.ErrExpired) && !errors.Is(err, coord.ErrInDoubt) {
						t.Errorf("create %s: error %v", path, err)
					}
				})
			}
			eventually(t, "requests sent", func() bool { return c.Stats().Requests >= 50 || s.OutOfTouch() > 0 })
			if broken {
				cl.DropConnections() // with what the proxy holds back
			}
			must(t, cl.Expire(s.ID()))
			cl.Mend()
			wg.Wait()
			<-s.Context().Done()
			names, _, err := c.Children(testContext(t), "/q")
			if len(names) > 0 || err != nil {
				t.Errorf("made in the next session: %v, %v", names, err)
			}
			must(t, c.Close())
		}
	})
}

// TestLostAnswer: the change was made and its answer is lost. It is not made
// twice, and what may be asked again is.
func TestLostAnswer(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect()})
		looker := connect(t, coord.Config{Servers: cl.Direct()})
		s := session(t, c)
		ctx := testContext(t)
		must(t, c.Put(ctx, "/n", nil))
		// lose runs a request whose answer does not come.
		lose := func(request func() error, done func() bool) error {
			t.Helper()
			wantRead(t, c, "/n") // connected again
			cl.FreezeAnswers()
			result := make(chan error, 1)
			go func() { result <- request() }()
			eventually(t, "request carried out", done)
			cl.DropConnections()
			cl.Mend()
			return <-result
		}
		version := func() int32 {
			st, _, err := looker.Exists(ctx, "/n")
			must(t, err)
			return st.Version
		}
		err := lose(func() error { _, err := c.Set(ctx, "/n", []byte("1"), 0); return err }, func() bool { return version() == 1 })
		wantErr(t, "set", err, coord.ErrInDoubt)
		wantErr(t, "set", err, coord.ErrUnavailable)
		err = lose(func() error { return c.Multi(ctx, coord.SetOp("/n", []byte("2"), 1)) }, func() bool { return version() == 2 })
		wantErr(t, "multi", err, coord.ErrInDoubt)
		must(t, lose(func() error { return c.Put(ctx, "/n", []byte("3")) }, func() bool { return version() == 3 }))
		wantValue(t, looker, "/n", "3")
		there := func() bool { _, ok, err := looker.Exists(ctx, "/e"); return ok && err == nil }
		must(t, lose(func() error { _, err := s.CreateEphemeral(ctx, "/e", []byte("v")); return err }, there))
		err = lose(func() error { return c.Delete(ctx, "/e", -1) }, func() bool { return !there() })
		wantErr(t, "delete", err, coord.ErrInDoubt)
		if session(t, c) != s {
			t.Error("the session was lost")
		}
	})
}

// TestBrokenLine: who puts, reads, deletes trees and makes ephemeral nodes does not
// notice that connections break all the time.
func TestBrokenLine(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect(), RequestTimeout: patience})
		s := session(t, c)
		ctx := testContext(t)
		var wg sync.WaitGroup
		var done atomic.Int64 // rounds of all workers
		const workers, rounds = 4, 40
		for i := range workers {
			wg.Go(func() {
				for n := range rounds {
					path := fmt.Sprintf("/w%d", i)
					value := fmt.Append(nil, n)
					if err := c.Put(ctx, path+"/a/b", value); err != nil {
						t.Errorf("put: %v", err)
					}
					if _, err := s.CreateEphemeral(ctx, path+"/e/f", value); err != nil {
						t.Errorf("create ephemeral: %v", err)
					}
					if data, _, err := c.Get(ctx, path+"/a/b"); string(data) != string(value) || err != nil {
						t.Errorf("get: %q, %v", data, err)
					}
					if err := c.DeleteTree(ctx, path); err != nil {
						t.Errorf("delete: %v", err)
					}
					done.Add(1)
				}
			})
		}
		// As often as the workers get on, or they never would.
		for n := int64(1); n <= workers*rounds; n++ {
			cl.DropConnections()
			eventually(t, "workers get on", func() bool { return done.Load() >= n })
		}
		wg.Wait()
		wantRead(t, c, "/") // connected again, so that Close can end the session
		if session(t, c) != s {
			t.Error("the session was lost")
		}
	})
}

// TestHungRequest: a server that answers pings and nothing else is left after
// RequestTimeout, and the calls of those who have given up do not pile up.
func TestHungRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fakeServer) {
		f.timeout = 10 * time.Second
		f.answer = func(r fakeRequest) (int32, []byte, bool) {
			return 0, append(str("v"), stat(0, 0)...), r.kind != kindGet && r.kind != kindSet || r.connection > 2
		}
	})
	cfg := f.config()
	cfg.RequestTimeout = 400 * time.Millisecond
	c := connect(t, cfg)
	short, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	_, _, err := c.Get(short, "/a")
	wantErr(t, "get", err, context.DeadlineExceeded)
	wantErr(t, "get", err, coord.ErrUnavailable)
	canceled, cancel := context.WithCancel(testContext(t))
	cancel()
	_, _, err = c.Get(canceled, "/a")
	wantErr(t, "get", err, context.Canceled)
	_, err = c.Set(testContext(t), "/a", nil, -1)
	wantErr(t, "set", err, coord.ErrUnavailable)
	wantErr(t, "set", err, coord.ErrInDoubt)
	eventually(t, "an answer over a later connection", func() bool {
		_, _, err := c.Get(testContext(t), "/a")
		return err == nil
	})
	if st := c.Stats(); st.Sessions != 1 || st.Connects < 3 {
		t.Errorf("stats %+v", st)
	}
}

// TestUnavailable: without a server requests and Connect fail in time, and say
// what is the matter.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := coord.Connect(testContext(t), coord.Config{Servers: "127.0.0.1:1", ConnectTimeout: 200 * time.Millisecond})
	wantErr(t, "connect", err, coord.ErrUnavailable)
	short, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	_, err = coord.Connect(short, coord.Config{Servers: "127.0.0.1:1"})
	wantErr(t, "connect", err, context.DeadlineExceeded)

	cl := zktest.Shared(t, zktest.Embedded)
	c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 10 * time.Second, RequestTimeout: 300 * time.Millisecond})
	s := session(t, c)
	cl.Cut()
	eventually(t, "connection lost", func() bool { return s.OutOfTouch() > 0 })
	for what, err := range requestsOf(testContext(t), c) {
		wantErr(t, what, err, coord.ErrUnavailable)
		if errors.Is(err, coord.ErrInDoubt) {
			t.Errorf("%s in doubt: %v", what, err)
		}
	}
	if d := time.Since(began); d > patience {
		t.Errorf("took %v", d)
	}
	cl.Mend()
	eventually(t, "connected again", func() bool { return c.Put(testContext(t), "/a", nil) == nil })
	if session(t, c) != s || s.OutOfTouch() != 0 {
		t.Error("the session was lost")
	}
}

// TestServerStartedLater: Connect waits for a server within its time.
func TestServerStartedLater(t *testing.T) {
	cl := zktest.Shared(t, zktest.Embedded)
	cl.Cut()
	time.AfterFunc(300*time.Millisecond, cl.Mend)
	c := connect(t, coord.Config{Servers: cl.Connect()})
	must(t, c.Put(testContext(t), "/a", nil))
}

// TestServerRestart: sessions, with their ephemeral nodes, outlive a server that
// comes back with its data.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	zktest.Each(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 10 * time.Second, RequestTimeout: patience})
		s := session(t, c)
		_, err := s.CreateEphemeral(testContext(t), "/e", nil)
		must(t, err)
		cl.Restart(0)
		must(t, c.Put(testContext(t), "/a", nil))
		if session(t, c) != s {
			t.Error("the session was lost")
		}
		if st, ok, err := c.Exists(testContext(t), "/e"); !ok || st.EphemeralOwner != s.ID() || err != nil {
			t.Errorf("ephemeral: %+v, %v, %v", st, ok, err)
		}
	})
}

// TestLostData: a server that comes back without its data hangs up on a client
// that has seen more than it has. When its session cannot be alive any more, the
// client hides that, and hears that the session is gone.
func TestLostData(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	f := newFake(t, func(f *fakeServer) {
		f.timeout = 300 * time.Millisecond
		f.behind = &lost
	})
	c := connect(t, f.config())
	s := session(t, c)
	must(t, c.Create(testContext(t), "/a", nil))
	lost.Store(true)
	f.hangUp()
	eventually(t, "another session", func() bool { n, err := c.Session(testContext(t)); return err == nil && n != s })
	if context.Cause(s.Context()) != coord.ErrExpired {
		t.Errorf("cause %v", context.Cause(s.Context()))
	}
}

// TestOnSessionSlow: a function that is slow hears of the sessions that live when
// it is done.
func TestOnSessionSlow(t *testing.T) {
	cl := zktest.Shared(t, zktest.Embedded)
	c := connect(t, coord.Config{Servers: cl.Connect()})
	told, goOn := make(chan *coord.Session), make(chan struct{})
	defer c.OnSession(func(s *coord.Session) {
		select {
		case told <- s:
			<-goOn
		case <-s.Context().Done():
		}
	})()
	first := <-told
	must(t, cl.Expire(first.ID()))
	<-first.Context().Done()
	second := session(t, c)
	must(t, cl.Expire(second.ID()))
	<-second.Context().Done()
	third := session(t, c)
	close(goOn)
	if s := <-told; s != third {
		t.Errorf("told of session %#x, not %#x", s.ID(), third.ID())
	}
}

// TestRefusedConnections: a client whose connection was lost and that is refused
// again and again pauses between its attempts.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	cl := zktest.Start(t, zktest.Embedded)
	var failed atomic.Int64
	c := connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: 5 * time.Second, Logger: slog.New(countingHandler{&failed})})
	must(t, c.Put(testContext(t), "/a", nil)) // the connection has been good for something
	s := session(t, c)
	cl.Cut()
	eventually(t, "attempts", func() bool { return failed.Load() > 0 && s.OutOfTouch() > time.Second })
	cl.Mend()
	must(t, c.Put(testContext(t), "/a", nil))
	if n := failed.Load(); n > 100 {
		t.Errorf("%d attempts to connect failed while there was no connection for a second or so", n)
	}
}

// countingHandler counts what is logged of failed connections.
type countingHandler struct{ n *atomic.Int64 }

func (h countingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h countingHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h countingHandler) WithGroup(string) slog.Handler            { return h }
func (h countingHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "failed to connect") {
			h.n.Add(1)
		}
		return true
	})
	return nil
}
