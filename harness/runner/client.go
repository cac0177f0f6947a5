package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

var (
	errRunnerGone = errors.New("the testbed that started this client is gone")
	errStalled    = errors.New("nothing moved any more")
)

const (
	// arrivedInterval is the time between two questions for the server's own
	// count while sending, drainInterval while nothing is sent any more: the
	// arrival of the last message is known no closer than that.
	arrivedInterval = 25 * time.Millisecond
	drainInterval   = 2 * time.Millisecond
	// surplusWait is how long is waited for messages that were never sent.
	surplusWait = 200 * time.Millisecond
	closeLimit  = 5 * time.Second
	watchEvery  = 50 * time.Millisecond
	aliveEvery  = 250 * time.Millisecond
)

// RunClient is the client process: it reads a [Spec] from in and reports
// events on out until it has done what the spec says, ctx ends, or in does.
// What went wrong in the measuring is part of the reported result; the error
// is for a spec that cannot be read and a runner that does not listen.
//
// A goroutine that reads in is left until in ends.
func RunClient(ctx context.Context, in io.Reader, out io.Writer, drivers *driver.Table) error {
	l := newLink(in, out)
	if !l.in.Scan() || len(l.in.Bytes()) == 0 {
		return errors.Join(errors.New("no specification on standard input: this command is for the testbed itself"), l.in.Err())
	}
	var spec Spec
	if err := json.Unmarshal(l.in.Bytes(), &spec); err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	if err := spec.check(); err != nil {
		return fmt.Errorf("specification: %w", err)
	}
	d, err := drivers.Find(spec.Driver)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &client{spec: spec, driver: d, link: l, cancel: cancel, proceed: make(chan struct{}, 1)}
	go func() {
		for l.in.Scan() {
			select {
			case c.proceed <- struct{}{}:
			default: // more lines than questions
			}
		}
		cancel(errRunnerGone)
	}()
	c.run(ctx)
	l.send(Event{Result: &c.result})
	return l.sent()
}

// client is one run of the client process.
type client struct {
	spec    Spec
	driver  driver.Driver
	link    *link
	cancel  context.CancelCauseFunc
	proceed chan struct{} // a line came in

	// moved changes with everything that is sent, arrives or is received, and
	// waiting is set while the runner is waited for.
	moved   atomic.Int64
	waiting atomic.Bool
	result  Result
}

// run does everything and leaves the result. An error of any step ends it and
// is the result's failure.
func (c *client) run(ctx context.Context) {
	stopWatch := c.watch(ctx)
	defer stopWatch()
	err := c.warmUp(ctx)
	if err == nil {
		err = c.work(ctx)
	}
	// A stall that was found to be a fault of the count or of the contents is
	// told as that.
	if err != nil && !(c.result.Fault != "" && errors.Is(context.Cause(ctx), errStalled)) {
		c.result.Failure = reason(ctx, err)
	}
}

// work does what the spec says, over connections that are closed afterwards.
func (c *client) work(ctx context.Context) error {
	work := c.produce
	switch {
	case c.spec.Fill:
		work = c.fill
	case c.spec.Work == resultfile.Rebalance:
		return c.rebalance(ctx)
	case c.spec.Work == resultfile.Pipeline:
		return c.pipeline(ctx)
	case c.spec.Work == resultfile.Crash:
		work = c.crash
	case c.spec.Stock != nil:
		work = c.takeStock
	case c.spec.Work == resultfile.Produce && (c.spec.Producers > 1 || c.spec.Beside > 0):
		return c.connections(ctx, nil, max(c.spec.Producers, 1)+c.spec.Beside, c.together)
	case c.spec.Work == resultfile.Stream:
		return c.connections(ctx, nil, 2, c.stream)
	case c.spec.Work == resultfile.Consume && len(c.spec.Queues) > 1:
		return c.connections(ctx, nil, len(c.spec.Queues), c.consumeAtOnce)
	case c.spec.Work == resultfile.Consume:
		work = c.consume
	}
	return c.connected(ctx, func(conn driver.Client) error { return work(ctx, conn) })
}

// reason prefers why the context ended to the error that it caused somewhere.
func reason(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Sprintf("%v (%v)", cause, err)
	}
	return err.Error()
}

// connected opens a connection for one piece of work.
func (c *client) connected(ctx context.Context, work func(driver.Client) error) error {
	return c.connectedWith(ctx, c.spec.Options, work)
}

func (c *client) connectedWith(ctx context.Context, o driver.Options, work func(driver.Client) error) error {
	conn, err := c.driver.Connect(ctx, c.spec.Target, o)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.spec.Target.Addr, err)
	}
	if w, ok := conn.(driver.WireBytes); ok {
		c.result.StoredSize = w.StoredSize(c.spec.PayloadBytes)
	}
	err = work(conn)
	if b, ok := conn.(driver.Blocked); ok {
		// A server that is low on something tells every connection.
		for _, why := range b.BlockedReasons() {
			if !slices.Contains(c.result.Blocked, why) {
				c.result.Blocked = append(c.result.Blocked, why)
			}
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if closeErr := conn.Close(closing); closeErr != nil {
		// What was measured is counted and checked; this can only be noted.
		c.link.send(Event{Note: fmt.Sprintf("closing the client: %v", closeErr)})
	}
	return err
}

// connections opens connections beside those that are open until there are
// wanted, for one piece of work.
func (c *client) connections(ctx context.Context, open []driver.Client, wanted int, work func(context.Context, []driver.Client) error) error {
	if len(open) == wanted {
		return work(ctx, open)
	}
	return c.connected(ctx, func(conn driver.Client) error {
		return c.connections(ctx, append(open, conn), wanted, work)
	})
}

// phase announces a phase and waits until the runner is ready for it.
func (c *client) phase(ctx context.Context, p Phase) error {
	c.waiting.Store(true)
	defer c.waiting.Store(false)
	c.moved.Store(0)
	c.link.send(Event{Phase: p, Wait: true})
	if err := c.link.sent(); err != nil {
		return errors.Join(errRunnerGone, err)
	}
	select {
	case <-c.proceed:
		if p == Measure {
			c.result.BeganUnixNano = time.Now().UnixNano()
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookedAt is a time as far as this process has looked at it. Of a longer time
// between two looks lookMost counts: a machine, or a process, that stood still for
// as long is not what is measured, and what came meanwhile is still to be seen.
type lookedAt struct{ last, sum time.Duration }

// lookMost is the most that counts between two looks, which are to be watchEvery
// apart.
const lookMost = 4 * watchEvery

// until looks, and returns how much of the time until now counts.
func (l *lookedAt) until(now time.Duration) time.Duration {
	l.sum += min(now-l.last, lookMost)
	l.last = now
	return l.sum
}

// watch ends the client when nothing moves for the time of a stall, and shows
// meanwhile that it is alive. It runs until the returned function is called.
func (c *client) watch(ctx context.Context) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		last, since, shown := int64(0), time.Duration(0), time.Now()
		began, seen := time.Now(), lookedAt{}
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				c.link.send(Event{GivingUp: context.Cause(ctx).Error()})
				return
			case <-t.C:
			}
			now, at := c.moved.Load(), seen.until(time.Since(began))
			if now != last || c.waiting.Load() {
				last, since = now, at
			} else if at-since > c.spec.Stall {
				c.cancel(fmt.Errorf("%w for %v", errStalled, c.spec.Stall))
			}
			if time.Since(shown) > aliveEvery {
				shown = time.Now()
				c.link.send(Event{Moved: now})
			}
		}
	}()
	return func() { close(quit); <-done }
}

// newRecorder returns the recorder of the measured phase.
func (c *client) newRecorder() (*measure.Recorder, error) {
	return measure.NewRecorder(c.spec.Work, c.spec.PayloadBytes, measure.DefaultInterval, func(p resultfile.Point) {
		c.moved.Store(p.Messages + p.Arrived)
		c.link.send(Event{Point: &p})
	})
}

// afterCap returns a flag that is set when the time is over; 0 is never.
func afterCap(limit time.Duration) (over *atomic.Bool, stop func() bool) {
	over = new(atomic.Bool)
	if limit <= 0 {
		return over, func() bool { return true }
	}
	return over, time.AfterFunc(limit, func() { over.Store(true) }).Stop
}

// processorSeconds is what this process has used so far.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot be: the arguments are right
	}
	return seconds(u.Utime) + seconds(u.Stime)
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
