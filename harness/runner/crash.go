package runner

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// crashGroup kills a broker in the middle of a produce, starts it again over
// the same data, and counts what is there of what was sent.
func (r *run) crashGroup(ctx context.Context, g group) error {
	var stock *trial
	return r.single(ctx, g, func(s *session, t *trial) {
		if s.crash(ctx, t) && s.comeBackFrom(ctx, t) {
			stock = s.stock(ctx, t)
		}
	}, func(t *trial) { r.decideCrash(t, stock) })
}

// The part of the expected time of a produce within which its broker is killed.
const (
	crashFrom = 0.2
	crashTo   = 0.8
	// crashSurplus is how many times the messages of the scenario may be sent
	// before the crash: a machine may be faster than was expected.
	crashSurplus = 4
	// crashAhead is how many seconds' worth of messages may be sent besides: what
	// buffers take, a producer hands over in no time.
	crashAhead = 4
	// crashLeast is the least time until a crash, for runs that are too short to
	// have a middle: something must have been sent.
	crashLeast = 200 * time.Millisecond
)

// crashAfter draws from the run's seed how long after the first send a broker
// is killed. A resumed run, and one of the same seed, draw the same.
func (p *Plan) crashAfter(e entry, repetition int) time.Duration {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", e.scenario.Name, e.system.ID, repetition)
	rng := rand.New(rand.NewPCG(uint64(p.Seed), h.Sum64()))
	share := crashFrom + (crashTo-crashFrom)*rng.Float64()
	return max(time.Duration(share*p.crashSeconds(e.scenario, e.system)*float64(time.Second)), crashLeast)
}

// crashSeconds is how long sending all messages is expected to take.
func (p *Plan) crashSeconds(s scenario.Scenario, sys scenario.System) float64 {
	rate := sys.ExpectedRate
	return float64(atMost(p.Selection.MessagesOf(s, sys), sys.LongestRun(p.Selection.Cap), rate)) / float64(rate)
}

// crashMessages is how many messages are sent at most before the crash.
func (p *Plan) crashMessages(s scenario.Scenario, sys scenario.System) int64 {
	return crashSurplus * (p.expectedMessages(s, sys) + crashAhead*sys.ExpectedRate)
}

// crash sends until the server is killed. If something else ends it, that is
// the trial's failure.
func (s *session) crash(ctx context.Context, t *trial) bool {
	server, ok := s.server.(driver.Restarter)
	if !ok {
		t.failure = fmt.Sprintf("%s is no system that can be killed and started again over the same data", t.system.Driver)
		return false
	}
	spec := s.spec(t)
	spec.Work, spec.Measured, spec.Messages = resultfile.Crash, true, s.crashMessages(t.scenario, t.system)
	spec.warmUp("warmp", t.system)
	k := &killing{server: server, after: s.crashAfter(t.entry, t.attempt.Repetition)}
	s.clientBeside(ctx, t, spec, k)
	switch {
	case t.failure != "" || t.result == nil || t.result.Failure != "":
		return false
	case t.result.Cut:
		t.failure = fmt.Sprintf("all of %d messages were sent in %.3f s, before the broker was to be killed after %.3f s: state more messages, or the higher rate that this machine has",
			t.result.Sent, t.result.ClientSeconds, k.after.Seconds())
		return false
	case !k.killed:
		t.failure = fmt.Sprintf("sending ended before the broker was to be killed after %.3f s: %s", k.after.Seconds(), t.result.Ended)
		return false
	}
	t.measure("crash_at_seconds", k.at.Seconds())
	// What is handed over afterwards takes no time of the broker's.
	t.attempt.Seconds = min(t.attempt.Seconds, k.at.Seconds())
	s.note(t, "the broker was killed %.3f s after the first send; sending ended after %.3f s: %s", k.at.Seconds(), t.result.ClientSeconds, t.result.Ended)
	if t.result.Sent == 0 {
		t.failure = "nothing was sent before the broker was killed"
	}
	return t.failure == ""
}

// killing kills a server while a client sends to it.
type killing struct {
	server driver.Restarter
	after  time.Duration // when it is to be done

	cancel context.CancelFunc // nil: not begun
	done   chan struct{}
	begun  atomic.Bool   // the server is on its way out
	killed bool          // this and what follows are set once done is closed
	at     time.Duration // when it was done
	used   host.Usage    // by the server until then
	err    error
}

// tellAfter is how long a client has to notice by itself that the server has
// gone. Then it is told.
const tellAfter = time.Second

// heed begins with the measuring, and gives up when the client sends no more
// although the server was there.
func (k *killing) heed(ctx context.Context, a *attempt, e Event) {
	switch {
	case e.Phase == Measure:
		ctx, k.cancel = context.WithCancel(ctx)
		k.done = make(chan struct{})
		go func() {
			defer close(k.done)
			k.run(ctx, a)
		}()
	case e.Phase == Drain && !k.begun.Load():
		k.cancel()
	}
}

func (k *killing) run(ctx context.Context, a *attempt) {
	began := time.Now()
	if !wait(ctx, k.after) {
		return // the client has ended, or the run
	}
	k.begun.Store(true)
	// Once it has begun it comes to its end.
	killing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if k.used, k.err = a.usage(killing); k.err != nil {
		return
	}
	k.at = time.Since(began)
	if err := k.server.Kill(killing); err != nil {
		k.err = fmt.Errorf("killing the broker: %w", err)
		return
	}
	k.killed = true
	if wait(ctx, min(tellAfter, a.spec.Stall/2)) {
		k.err = a.talk.goOn()
	}
}

// end waits for the killing to end, and keeps it from beginning.
func (k *killing) end(a *attempt) error {
	if k.cancel == nil {
		return nil
	}
	k.cancel()
	<-k.done
	a.measured = true // as far as it came: whether that is enough is decided later
	if k.killed {
		k.takeOver(a)
	}
	return k.err
}

// takeOver keeps in the attempt what the server had used when it was killed.
func (k *killing) takeOver(a *attempt) {
	at := &a.trial.attempt
	at.BrokerCPUSeconds = k.used.UserSeconds + k.used.SystemSeconds - (a.before.UserSeconds + a.before.SystemSeconds)
	at.BrokerDiskWriteBytes = k.used.WrittenBytes - a.before.WrittenBytes
	at.BrokerResidentBytes = k.used.ResidentBytes
}

// wait waits for a time, and says whether it has passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// comeBackFrom starts the killed server again over its data.
func (s *session) comeBackFrom(ctx context.Context, t *trial) bool {
	s.enter(t, Restart, 0)
	took, err := s.comeBack(ctx, s.server.(driver.Restarter))
	if err != nil {
		t.interrupted = ctx.Err() != nil
		t.failure = fmt.Sprintf("after the kill it does not come back over its data (its log is in %s): %v", s.logFolder(), err)
		return false
	}
	t.measure("restart_seconds", took.Seconds())
	return true
}

// stock has a client consume all that is there, and returns what it found.
func (s *session) stock(ctx context.Context, t *trial) *trial {
	stock := t.beside()
	spec := s.spec(t)
	spec.Work, spec.Messages = resultfile.Consume, t.result.Sent
	spec.Stock = &StockSpec{Promised: t.result.Promised}
	s.client(ctx, stock, spec)
	t.phase, t.attempt.Notes = stock.phase, stock.attempt.Notes
	after, err := s.Broker.AllocatedBytes(context.WithoutCancel(ctx), s.server.StoreDir())
	if err != nil {
		s.note(t, "size of the store: %v", err)
		return stock
	}
	t.attempt.StoreBytesAfter = after
	return stock
}

// decideCrash settles the outcome of a crash, after which stock was taken unless
// it is nil. What was not confirmed may be
// lost: how much that is was to be found out. What was confirmed may not.
func (r *run) decideCrash(t, stock *trial) {
	at := &t.attempt
	at.Outcome, at.Reason = t.alone()
	if stock == nil {
		t.degrade(resultfile.Failed, "nobody looked at what is there after the crash")
		return
	}
	res := stock.result
	switch {
	case stock.interrupted:
		t.degrade(resultfile.Interrupted, "interrupted while what is there after the crash was counted")
	case stock.failure != "" || res == nil || res.Failure != "":
		t.degrade(resultfile.Failed, "what is there after the crash could not be counted: %s", join(stock.failure, stock.told()))
	}
	if res == nil || !res.Checked {
		return
	}
	c := res.Contents
	present := res.Sent - c.Lost
	at.Messages, at.ClientMessages, at.PayloadBytes = res.Sent, res.Sent, res.Sent*int64(t.scenario.PayloadOf(t.system))
	at.Lost, at.Doubled, at.Damaged, at.Reordered, at.Verified = c.Lost, c.Doubled, c.Damaged, c.Reordered, true
	t.measure("crash_sent", float64(res.Sent))
	t.measure("crash_promised", float64(t.result.Promised))
	t.measure("crash_present", float64(present))
	t.measure("crash_lost_promised", float64(res.LostPromised))
	t.measure("crash_lost_unpromised", float64(c.Lost-res.LostPromised))
	if res.LostPromised > 0 {
		t.degrade(resultfile.Invalid, "a promise was broken: of %d messages that the broker had confirmed, %d were gone after kill -9 and a restart", t.result.Promised, res.LostPromised)
	}
	c.Lost = 0 // of what was promised nothing
	if err := c.Err(); err != nil {
		t.degrade(resultfile.Invalid, "contents after the crash: %v", err)
	}
	if res.Fault != "" {
		t.degrade(resultfile.Invalid, "%s", res.Fault)
	}
}
