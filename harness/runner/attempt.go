package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// client runs one client process through its phases and leaves in the trial
// what it reported and what the hosts' counters say.
func (s *session) client(ctx context.Context, t *trial, spec Spec) { s.clientBeside(ctx, t, spec, nil) }

// beside is something that is done while a client measures.
type beside interface {
	heed(ctx context.Context, a *attempt, e Event) // each of the client's events, once it has been heeded
	end(a *attempt) error                          // when the client has ended
}

// clientBeside runs a client while something else is done; b may be nil.
func (s *session) clientBeside(ctx context.Context, t *trial, spec Spec, b beside) {
	c, err := s.converse(ctx, t, spec)
	if err == nil {
		watch := &attempt{session: s, trial: t, spec: spec, talk: c}
		err = c.listen(ctx, s.server.Died(), func(e Event) error {
			err := watch.heed(ctx, e)
			if err == nil && b != nil {
				b.heed(ctx, watch, e)
			}
			return err
		})
		if b != nil {
			err = errors.Join(err, b.end(watch))
		}
		watch.stopSampling(ctx)
		err = errors.Join(err, c.close(ctx))
		if err == nil && t.result != nil && t.result.Failure != "" {
			err = s.death(ctx)
		}
		err = watch.conclude(ctx, err)
	}
	if errors.Is(err, errServerDied) {
		err = s.explain(ctx, fmt.Errorf("%w; its log is in %s", err, s.logFolder()))
	}
	switch {
	case ctx.Err() != nil:
		t.interrupted = true
		t.failure = fmt.Sprintf("interrupted in the phase %s", t.phase)
	case err != nil:
		t.failure = fmt.Sprintf("%v (in the phase %s)", err, t.phase)
	}
}

// deathNotice is how long after a client's failure its server may be found to
// have ended: the client often learns of it first, as a broken connection.
const deathNotice = time.Second

// death says whether a server's end is why its client failed.
func (s *session) death(ctx context.Context) error {
	notice := time.NewTimer(deathNotice)
	defer notice.Stop()
	select {
	case <-s.server.Died():
		return errServerDied
	case <-notice.C:
	case <-ctx.Done():
	}
	return nil
}

// attempt follows a client's events.
type attempt struct {
	*session
	trial    *trial
	spec     Spec
	talk     *conversation
	sampling []*sampling
	givingUp string
	// The counters of the server's processes and the files of its store when
	// measuring began, and whether those after it have been read.
	before      host.Usage
	filesBefore map[string]int64
	measured    bool
	// sampledFrom is when the seconds of the samples were 0, by the clock of the
	// client host, as Unix nanoseconds; 0: nothing was sampled.
	sampledFrom int64
}

// heed looks at one event. The client waits where it asks to, so that the
// counters are read while nothing moves.
func (a *attempt) heed(ctx context.Context, e Event) error {
	t := a.trial
	switch {
	case e.Point != nil:
		t.points = append(t.points, *e.Point)
		done := e.Point.Messages
		if t.phase == Drain {
			done = e.Point.Arrived
		}
		a.tell(t, Update{Done: done, Of: a.spec.total()})
	case e.Result != nil:
		t.result = e.Result
	case e.Latency != nil:
		t.latency.add(*e.Latency)
	case e.Note != "":
		a.note(t, "%s", e.Note)
	case e.GivingUp != "":
		a.givingUp = e.GivingUp
	case e.Phase != "":
		return a.phase(ctx, e)
	case e.Moved > 0:
		a.tell(t, Update{Done: e.Moved, Of: a.messagesIn(t.phase)})
	}
	return nil
}

// messagesIn is how many messages move in a phase.
func (a *attempt) messagesIn(p Phase) int64 {
	switch p {
	case WarmUp:
		return 2 * a.spec.WarmUpMessages // there and back
	case Verify:
		if a.trial.result != nil || a.spec.Work == resultfile.Produce {
			return 0
		}
		return a.spec.backlog() * int64(max(len(a.spec.Queues), 1))
	}
	return a.spec.total()
}

func (a *attempt) phase(ctx context.Context, e Event) error {
	t := a.trial
	a.enter(t, e.Phase, a.messagesIn(e.Phase))
	if !e.Wait {
		return nil
	}
	var err error
	switch {
	case e.Phase == Measure:
		err = a.beforeMeasuring(ctx)
	case e.Phase == Verify && a.spec.Measured:
		err = a.afterMeasuring(ctx)
	}
	if err != nil {
		return err
	}
	return a.talk.goOn()
}

// beforeMeasuring makes the host ready, reads the counters and starts the samplers.
func (a *attempt) beforeMeasuring(ctx context.Context) error {
	if a.TouchMemory != nil && a.spec.Measured {
		touched, err := a.TouchMemory(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err != nil:
			a.note(a.trial, "%v", err)
		case touched.Seconds > 0:
			a.trial.measure("memory_touched_bytes", float64(touched.TouchedBytes))
			a.trial.measure("memory_touching_seconds", touched.Seconds)
		}
	}
	if readsBefore(a.spec.Work) {
		a.readContract(ctx)
	}
	var err error
	if a.trial.attempt.StoreBytesBefore, err = a.Broker.AllocatedBytes(ctx, a.server.StoreDir()); err != nil {
		return fmt.Errorf("size of the store: %w", err)
	}
	if a.filesBefore, err = a.storedFiles(ctx); err != nil {
		return err
	}
	if err := a.startSampling(ctx); err != nil {
		return err
	}
	if a.before, err = a.usage(ctx); err != nil {
		return err
	}
	return nil
}

// afterMeasuring reads the counters again, the processor time first: a server
// goes on working behind the client's back.
func (a *attempt) afterMeasuring(ctx context.Context) error {
	after, err := a.usage(ctx)
	if err != nil {
		return err
	}
	a.measured = true
	at := &a.trial.attempt
	at.BrokerCPUSeconds = after.UserSeconds + after.SystemSeconds - (a.before.UserSeconds + a.before.SystemSeconds)
	at.BrokerDiskWriteBytes = after.WrittenBytes - a.before.WrittenBytes
	at.BrokerResidentBytes = after.ResidentBytes
	if len(a.server.Processes()) > 0 {
		a.trial.measure("broker_syscalls", float64(after.Syscalls-a.before.Syscalls))
		a.trial.measure("broker_disk_read_bytes", float64(after.ReadBytes-a.before.ReadBytes))
	}
	a.stopSampling(ctx)
	a.measureSamples()
	if at.StoreBytesAfter, err = a.Broker.AllocatedBytes(ctx, a.server.StoreDir()); err != nil {
		return fmt.Errorf("size of the store: %w", err)
	}
	files, err := a.storedFiles(ctx)
	if err != nil {
		return err
	}
	if err := a.measureStore(files); err != nil {
		return err
	}
	if !readsBefore(a.spec.Work) {
		a.readContract(ctx)
	}
	return nil
}

// usage adds up what the server's processes have used.
func (a *attempt) usage(ctx context.Context) (host.Usage, error) {
	var sum host.Usage
	for _, p := range a.server.Processes() {
		u, err := p.Usage(ctx)
		if err != nil {
			return sum, fmt.Errorf("processor time of the server: %w", err)
		}
		sum.UserSeconds += u.UserSeconds
		sum.SystemSeconds += u.SystemSeconds
		sum.ResidentBytes += u.ResidentBytes
		sum.ReadBytes += u.ReadBytes
		sum.WrittenBytes += u.WrittenBytes
		sum.Syscalls += u.Syscalls
	}
	return sum, nil
}

// conclude turns what ended the talk into the reason of a failure, nil if the
// client came to its own end, and takes over what the client measured.
func (a *attempt) conclude(ctx context.Context, err error) error {
	t := a.trial
	if t.result == nil && len(t.points) > 0 {
		a.fromPoints()
	}
	if t.result == nil {
		exit := a.talk.process.Wait(ctx)
		switch {
		case errors.Is(err, errServerDied) || errors.Is(err, ErrInterrupted):
		case a.givingUp != "":
			err = errors.Join(fmt.Errorf("the client gave up and could say no more: %s", a.givingUp), err)
		default:
			why := errors.New("the client ended without a result")
			if said := a.talk.lastLine; said != "" {
				why = fmt.Errorf("%w: %s", why, said)
			}
			err = errors.Join(why, err, exit)
		}
	} else if err == nil && a.spec.Measured && !a.measured && t.result.Failure == "" && t.result.Fault == "" {
		err = errors.New("the client did not go through its phases")
	}
	a.takeOver()
	return err
}

// fromPoints keeps what is known of a client that could report no result.
func (a *attempt) fromPoints() {
	last := a.trial.points[len(a.trial.points)-1]
	at := &a.trial.attempt
	at.Messages, at.Seconds = last.Arrived, last.Seconds
	at.ClientMessages, at.ClientSeconds = last.Messages, last.Seconds
	at.PayloadBytes = at.Messages * int64(a.spec.PayloadBytes)
}

// takeOver copies the client's numbers into the attempt.
func (a *attempt) takeOver() {
	r := a.trial.result
	if r == nil || !a.spec.Measured {
		return
	}
	at := &a.trial.attempt
	at.Messages, at.Seconds = r.Messages, r.Seconds
	at.ClientMessages, at.ClientSeconds = r.Sent, r.ClientSeconds
	at.PayloadBytes = r.Messages * int64(a.spec.PayloadBytes)
	at.StoredBytes = r.Messages * int64(r.StoredSize)
	at.ClientCPUSeconds = r.CPUSeconds
	for name, value := range r.Measures {
		a.trial.measure(name, value)
	}
	if from, ok := movedFrom(r.BeganUnixNano, a.sampledFrom); ok {
		a.trial.measure("moved_from_seconds", from)
	}
	if r.Cut {
		why := ""
		if a.Selection.Cap == 0 {
			why = ", although the run has no cap"
		}
		verb := "sent"
		if a.spec.Work == resultfile.Consume {
			verb = "consumed while measuring"
		}
		a.note(a.trial, "held to %v%s: %d of %d messages were %s", a.spec.Cap.Round(time.Millisecond), why, r.Sent, a.spec.total(), verb)
	}
}
