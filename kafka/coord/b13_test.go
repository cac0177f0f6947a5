package coord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// b13Timeout is the session's time-out in these tests.
const b13Timeout = 1500 * time.Millisecond

// b13Client has an ephemeral node and watches, as a broker and a consumer have.
type b13Client struct {
	*coord.Client
	other          *coord.Client // on a line that is not cut
	node           *coord.Ephemeral
	children, data states
}

func newB13Client(t *testing.T, cl *zktest.Cluster) *b13Client {
	b := &b13Client{
		Client: connect(t, coord.Config{Servers: cl.Connect(), SessionTimeout: b13Timeout}),
		other:  connect(t, coord.Config{Servers: cl.Direct()}),
	}
	ctx := testContext(t)
	must(t, b.other.Create(ctx, "/watched", []byte("0")))
	must(t, b.WatchChildren("/watched", b.children.children).Ready(ctx))
	must(t, b.WatchData("/watched", b.data.data).Ready(ctx))
	b.node = b.Ephemeral("/ids/0", func() []byte { return []byte("me") })
	must(t, b.node.Wait(ctx))
	return b
}

// watches checks that the next change is told.
func (b *b13Client) watches(t *testing.T, value string) {
	t.Helper()
	must(t, b.other.Put(testContext(t), "/watched", []byte(value)))
	must(t, b.other.Create(testContext(t), "/watched/"+value, nil))
	b.data.want(t, value)
	b.children.want(t, value)
	must(t, b.other.Delete(testContext(t), "/watched/"+value, -1))
	b.children.want(t, "")
}

// TestB13ShortCut: the line is cut for a third of the time-out. The session stays
// the same, its nodes never vanish, and watches fire on the next change (fault
// B13).
func TestB13ShortCut(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		b := newB13Client(t, cl)
		s := session(t, b.Client)
		var seen states
		must(t, b.other.WatchData("/ids/0", seen.data).Ready(testContext(t)))
		for i := range 3 {
			cl.Cut()
			time.Sleep(b13Timeout / 3) // how long the line is cut
			cl.Mend()
			must(t, b.Put(testContext(t), "/barrier", nil))
			b.watches(t, fmt.Sprint("short", i))
		}
		if session(t, b.Client) != s || b.Stats().Sessions != 1 {
			t.Errorf("%d sessions", b.Stats().Sessions)
		}
		must(t, b.node.Wait(testContext(t)))
		if seen.calls() != 1 || seen.last() != "me" {
			t.Errorf("the node was seen in %d states, last %q", seen.calls(), seen.last())
		}
	})
}

// TestB13LongCut: the line is cut for three times the time-out. Node and watches
// are there again within two time-outs after it is back, in a new session, and
// the old one is known to be over before (fault B13).
func TestB13LongCut(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		b := newB13Client(t, cl)
		s := session(t, b.Client)
		defer s.KeepLease()()
		told := make(chan *coord.Session, 2)
		defer b.OnSession(func(s *coord.Session) { told <- s })()
		<-told
		cl.Cut()
		cut := time.Now()
		eventually(t, "lease over", func() bool { return !s.Valid() })
		eventually(t, "node gone at the server", func() bool {
			_, ok, err := b.other.Exists(testContext(t), "/ids/0")
			return !ok && err == nil
		})
		must(t, b.other.Put(testContext(t), "/watched", []byte("while away")))
		time.Sleep(time.Until(cut.Add(3 * b13Timeout))) // how long the line is cut
		cl.Mend()
		ctx, cancel := context.WithTimeout(t.Context(), 2*b13Timeout)
		defer cancel()
		next := s
		select {
		case next = <-told:
		case <-ctx.Done():
		}
		if next == s || context.Cause(s.Context()) != coord.ErrExpired {
			t.Fatalf("two time-outs after the line was back: session %#x after %#x", next.ID(), s.ID())
		}
		if err := b.node.Wait(ctx); err != nil {
			t.Errorf("two time-outs after the line was back: %v", err)
		}
		b.data.want(t, "while away")
		if ctx.Err() != nil {
			t.Error("the change was told later than two time-outs after the line was back")
		}
		if st, ok, err := b.other.Exists(testContext(t), "/ids/0"); !ok || st.EphemeralOwner != next.ID() || err != nil {
			t.Errorf("node %+v, %v, %v", st, ok, err)
		}
		b.watches(t, "long")
	})
}

// TestB13ClosedHandle: calls on a closed handle return an error at once, also
// while the line is cut, and those that wait are let go (fault B13).
func TestB13ClosedHandle(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connectOnly(t, coord.Config{Servers: cl.Connect(), SessionTimeout: b13Timeout, RequestTimeout: patience})
		s := session(t, c)
		waiting := make(chan error, 1)
		cl.Cut()
		eventually(t, "connection lost", func() bool { return s.OutOfTouch() > 0 })
		go func() { waiting <- c.Put(testContext(t), "/a", nil) }()
		began := time.Now()
		first := c.Close()
		if first == nil {
			t.Error("close says nothing of the session that it could not end")
		}
		if again := c.Close(); !errors.Is(again, first) {
			t.Errorf("second close: %v, first %v", again, first)
		}
		wantErr(t, "who waited", <-waiting, coord.ErrClosed)
		for what, err := range requestsOf(testContext(t), c) {
			wantErr(t, what, err, coord.ErrClosed)
		}
		for what, err := range requestsOf(testContext(t), s) {
			wantErr(t, what+" of its session", err, coord.ErrClosed)
		}
		if s.Valid() || s.Context().Err() == nil {
			t.Errorf("valid %v, context %v", s.Valid(), s.Context().Err())
		}
		_, err := c.Session(testContext(t))
		wantErr(t, "session", err, coord.ErrClosed)
		wantErr(t, "watch", c.WatchData("/a", func([]byte, bool) { t.Error("told after close") }).Ready(testContext(t)), coord.ErrClosed)
		e := c.Ephemeral("/e", func() []byte { return nil })
		wantErr(t, "ephemeral", e.Wait(testContext(t)), coord.ErrClosed)
		must(t, e.Close())
		c.OnSession(func(*coord.Session) { t.Error("told of a session after close") })()
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	})
}
