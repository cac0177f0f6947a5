package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// How long what cleans up may take: in the ordinary case, and after an
// interrupt, when everything together must end within 10 seconds.
const (
	stopLimit        = 40 * time.Second
	stopLimitHurried = 4 * time.Second
	tidyLimit        = 60 * time.Second
	tidyLimitHurried = 2 * time.Second
)

// group makes the attempts of one server and puts them on record. The error is
// of the result's folder only.
func (r *run) group(ctx context.Context, g group) error {
	switch g.main.scenario.Work {
	case resultfile.Produce:
		return r.produceGroup(ctx, g)
	case resultfile.Consume:
		return r.consumeGroup(ctx, g)
	case resultfile.Stream:
		return r.streamGroup(ctx, g)
	case resultfile.Crash:
		return r.crashGroup(ctx, g)
	case resultfile.Pipeline:
		return r.pipelineGroup(ctx, g)
	default:
		return r.rebalanceGroup(ctx, g)
	}
}

// single makes the only attempt of a group: a fresh server is started, worked
// with and ended, and then the outcome is decided on.
func (r *run) single(ctx context.Context, g group, work func(*session, *trial), decide func(*trial)) error {
	t, err := r.begin(g.main, g.repetition)
	if err != nil {
		return err
	}
	r.look(ctx, t)
	s := &session{run: r, runID: rand.Uint64()}
	if s.start(ctx, t) {
		work(s, t)
	}
	if err := s.stop(ctx, t); err != nil {
		r.note(t, "cleaning up: %v", err)
	}
	decide(t)
	return r.put(t)
}

// produceGroup makes a produce and the consume of what it left, and decides on
// them together.
func (r *run) produceGroup(ctx context.Context, g group) error {
	produce, err := r.begin(g.main, g.repetition)
	if err != nil {
		return err
	}
	r.look(ctx, produce)
	busy := produce.attempt // what it was measured beside is so for both
	session := &session{run: r, runID: rand.Uint64()}
	if session.start(ctx, produce) {
		if held, ok := session.fill(ctx, produce); ok {
			session.client(ctx, produce, session.produceSpec(produce, held))
		}
	}
	// What consumes is an attempt of its own, or only the produce's
	// verification and then on no record.
	consume := produce.beside()
	if g.consume != nil {
		if consume, err = r.begin(*g.consume, g.repetition); err != nil {
			return errors.Join(err, session.stop(ctx, produce))
		}
		consume.attempt.OtherLoad, consume.attempt.Notes = busy.OtherLoad, slices.Clone(busy.Notes)
	}
	if why := produce.noBacklog(); why != "" {
		consume.failure, consume.notInstalled, consume.interrupted = why, produce.notInstalled, ctx.Err() != nil
	} else {
		session.client(ctx, consume, session.consumeSpec(produce, consume, g.consume != nil))
	}
	if g.consume == nil {
		produce.attempt.Notes = consume.attempt.Notes // the produce's own and what came after
	}
	if err := session.stop(ctx, produce); err != nil {
		r.note(produce, "cleaning up: %v", err)
	}

	r.decide(produce, consume, g.consume != nil)
	err = r.put(produce)
	if g.consume != nil {
		err = errors.Join(err, r.put(consume))
	}
	return err
}

// session is a running server and what is done with it.
type session struct {
	*run
	runID  uint64
	driver driver.Driver
	dir    string // on the broker host
	server driver.Server
	// confined is the broker host as the server sees it; nil: nothing is held.
	confined *host.Confined
}

// start makes a fresh server. If that fails, the reason is the trial's
// failure.
func (s *session) start(ctx context.Context, t *trial) bool {
	err := s.tryStart(ctx, t)
	if err == nil {
		return true
	}
	t.failure = err.Error()
	t.notInstalled = errors.Is(err, driver.ErrNotInstalled)
	t.interrupted = ctx.Err() != nil
	return false
}

func (s *session) tryStart(ctx context.Context, t *trial) error {
	s.enter(t, Reset, 0)
	d, err := s.Drivers.Find(t.system.Driver)
	if err != nil {
		return err
	}
	s.driver = d
	if err := d.Check(ctx, s.Broker, t.system.Options); err != nil {
		return err
	}
	need := s.storedBytes(group{main: t.entry}) + spaceReserve
	if free, err := s.Broker.FreeBytes(ctx, s.Broker.Dir()); err != nil {
		return fmt.Errorf("space on %s: %w", s.Broker.Name(), err)
	} else if free < need {
		return fmt.Errorf("%s: %s has %.1f GB free, %.1f GB are needed: ask for fewer messages (--messages), or name a folder on a larger disk in the testbed file",
			s.Broker.Name(), s.Broker.Dir(), gb(free), gb(need))
	}
	s.dir = path.Join(s.Broker.Dir(), t.attempt.ID)
	if err := s.Broker.RemoveAll(ctx, s.dir); err != nil {
		return err
	}
	if err := s.Broker.MkdirAll(ctx, s.dir); err != nil {
		return err
	}
	s.enter(t, Start, 0)
	starting, cancel := context.WithTimeout(ctx, s.Start)
	defer cancel()
	on, err := s.confine(starting, t.system)
	if err != nil {
		return err
	}
	server, err := d.Start(starting, on, s.dir, t.system.Options)
	if err != nil {
		err = s.explain(ctx, err)
		if starting.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%s took no requests within %v of its start (what it logged is kept in %s): %w", t.system.Driver, s.Start, s.logFolder(), err)
		}
		return fmt.Errorf("starting %s: %w", t.system.Driver, err)
	}
	s.server = server
	return nil
}

// logFolder names the folder in the result that takes the server's logs, which
// is that of the produce, also when the server is consumed from.
func (s *session) logFolder() string { return path.Join("logs", path.Base(s.dir)) }

// stop ends the server if there is one, keeps its logs and removes its data,
// also when ctx has ended; it is then in a hurry.
func (s *session) stop(ctx context.Context, t *trial) error {
	if s.server == nil {
		return errors.Join(s.release(ctx, t), s.tidy(ctx, t))
	}
	limit := stopLimit
	if ctx.Err() != nil {
		limit = stopLimitHurried
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := s.server.Stop(stopping)
	return errors.Join(err, s.release(ctx, t), s.tidy(ctx, t))
}

// tidy keeps the server's logs with the attempt and removes its folder.
func (s *session) tidy(ctx context.Context, t *trial) error {
	if s.dir == "" {
		return nil
	}
	limit := tidyLimit
	if ctx.Err() != nil {
		limit = tidyLimitHurried
	}
	tidying, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return errors.Join(s.keepLogs(tidying, t), s.Broker.RemoveAll(tidying, s.dir))
}

func (s *session) keepLogs(ctx context.Context, t *trial) error {
	logs, err := s.logs(ctx)
	if err != nil || len(logs) == 0 {
		return err
	}
	into, err := s.Results.LogDir(t.attempt.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, log := range logs {
		name := strings.ReplaceAll(strings.TrimPrefix(log, s.dir+"/"), "/", "-")
		if err := s.Broker.Fetch(ctx, log, filepath.Join(into, name)); err != nil {
			errs = append(errs, fmt.Errorf("log %s: %w", log, err))
		}
	}
	return errors.Join(errs...)
}

// logs names the server's log files. A server that did not come up cannot say
// where they are, just when they matter most: then they are looked for.
func (s *session) logs(ctx context.Context) ([]string, error) {
	if s.server != nil {
		return s.server.Logs(), nil
	}
	found, err := s.Broker.Run(ctx, "find", s.dir, "-type", "f", "-name", "*.log", "-size", "-4096k")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(found)), nil
}

// produceSpec says what the client of a produce has to do, whose queue may hold
// messages already.
func (s *session) produceSpec(t *trial, held backlog) Spec {
	spec := s.spec(t)
	spec.Work, spec.Messages, spec.Measured = resultfile.Produce, s.Selection.MessagesOf(t.scenario, t.system), true
	spec.First = held.messages
	spec.Producers, spec.Beside = t.system.Producers, t.system.Beside
	spec.warmUp("warmp", t.system)
	return spec
}

// consumeSpec says what the client has to do that consumes what a produce
// left: as an attempt of its own, or only to check it.
func (s *session) consumeSpec(produce, t *trial, measured bool) Spec {
	spec := s.spec(t)
	all := produce.stored + produce.result.Sent
	spec.Work, spec.Messages, spec.Measured = resultfile.Consume, all, measured
	spec.PayloadBytes = produce.scenario.PayloadOf(produce.system)
	spec.VerifyLimit = verifyLimit(spec.VerifyLimit, produce.result.Sent, all)
	spec.Shares = produce.result.Shares
	if measured {
		spec.warmUp("warmc", t.system)
	}
	return spec
}

func (s *session) spec(t *trial) Spec {
	limit := t.system.LongestRun(s.Selection.Cap)
	return Spec{
		Driver: t.system.Driver, Options: t.system.Options, Target: s.server.Target(),
		Queue: t.scenario.Queue, PayloadBytes: t.scenario.PayloadOf(t.system), RunID: s.runID, MayReorder: t.system.MayReorder,
		Cap: limit, VerifyLimit: verifyCaps * limit, Stall: s.Stall,
	}
}
