package coord

import (
	"context"
	"testing"
	"time"
)

// newTestSession returns a session without a client.
func newTestSession() *Session {
	s := &Session{}
	s.lease.wake = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.dials, s.stopDialing = context.WithCancel(context.Background())
	return s
}

// TestLease: it counts from the sending of the last proof, and never comes back
// once the session is gone.
func TestLease(t *testing.T) {
	s := newTestSession()
	if s.Valid() {
		t.Error("valid without a proof")
	}
	now := elapsed()
	s.lease.prove(now-time.Hour, time.Minute)
	if s.Valid() {
		t.Error("valid by an old proof")
	}
	s.lease.prove(now, time.Minute)
	until := s.ValidUntil()
	if !s.Valid() || until != started.Add(now+time.Minute) {
		t.Errorf("valid %v until %v after a proof at %v", s.Valid(), until, started.Add(now))
	}
	// Answers may come in another order than they were asked for.
	s.lease.prove(now-time.Second, time.Minute)
	if s.ValidUntil() != until {
		t.Errorf("an older proof moved the end to %v", s.ValidUntil())
	}
	if wait, held := s.lease.next(3 * time.Second); held || wait > time.Second {
		t.Errorf("next proof in %v, held %v", wait, held)
	}
	stop := s.KeepLease()
	stop2 := s.KeepLease()
	stop()
	stop()
	if _, held := s.lease.next(time.Second); !held {
		t.Error("given up by a second call of stop")
	}
	stop2()
	if _, held := s.lease.next(time.Second); held {
		t.Error("held by nobody")
	}
	s.end(ErrExpired)
	if s.Valid() || time.Until(s.ValidUntil()) > 0 || s.Context().Err() == nil {
		t.Errorf("after the end valid %v until %v", s.Valid(), s.ValidUntil())
	}
	s.lease.prove(elapsed(), time.Minute)
	if s.Valid() {
		t.Error("valid by a proof that came after the end")
	}
	if context.Cause(s.Context()) != ErrExpired {
		t.Errorf("cause %v", context.Cause(s.Context()))
	}
	s.end(ErrClosed)
	if context.Cause(s.Context()) != ErrExpired {
		t.Errorf("cause %v after a second end", context.Cause(s.Context()))
	}
}

func TestValidAllocatesNothing(t *testing.T) {
	s := newTestSession()
	s.lease.prove(elapsed(), time.Hour)
	if n := testing.AllocsPerRun(100, func() { s.Valid() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValid(b *testing.B) {
	s := newTestSession()
	s.lease.prove(elapsed(), time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if !s.Valid() {
			b.Fatal("not valid")
		}
	}
}

// BenchmarkValidParallel is Valid from all processors at once, as by streams.
func BenchmarkValidParallel(b *testing.B) {
	s := newTestSession()
	s.lease.prove(elapsed(), time.Hour)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if !s.Valid() {
				b.Error("not valid")
			}
		}
	})
}

// TestBackoff: pauses double up to a bound, and begin small again.
func TestBackoff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b backoff
	last := time.Duration(0)
	for range 10 {
		b.wait(ctx, 100*time.Millisecond)
		if b.next < last || b.next > 100*time.Millisecond {
			t.Errorf("pause of %v after %v", b.next, last)
		}
		last = b.next
	}
	if last != 100*time.Millisecond {
		t.Errorf("last pause %v", last)
	}
	b.reset()
	if b.wait(ctx, time.Minute); b.next != minBackoff {
		t.Errorf("pause of %v after a reset", b.next)
	}
}

// TestPatience: all servers are tried within a time-out, until that was in vain.
func TestPatience(t *testing.T) {
	s := newTestSession()
	s.client = &Client{cfg: Config{SessionTimeout: 6 * time.Second}}
	s.ring.addrs = []string{"a", "b", "c"}
	var sum time.Duration
	for failed := range 3 {
		sum += s.patience(&dialing{failed: failed})
	}
	if sum > 6*time.Second {
		t.Errorf("a round takes %v", sum)
	}
	s.ring.addrs = []string{"a"}
	if first, second := s.patience(&dialing{}), s.patience(&dialing{failed: 1}); first+second > 3*time.Second {
		t.Errorf("one server has %v, then %v", first, second)
	}
	if p := s.patience(&dialing{failed: 1000}); p != 6*time.Second {
		t.Errorf("patience of %v at last", p)
	}
	s.client.cfg.SessionTimeout = 10 * time.Millisecond
	if p := s.patience(&dialing{}); p != minPatience {
		t.Errorf("patience of %v with a short time-out", p)
	}
}
