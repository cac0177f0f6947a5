package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/results/resultfile"
)

const (
	// closeLimit bounds the leaving of a group.
	closeLimit = 10 * time.Second
	// faultLasts is how long a broker or a mirror that was killed is missing: a
	// supervisor needs some time.
	faultLasts = 3 * time.Second
	settlePoll = 100 * time.Millisecond
)

// Pipeline runs the client half: it starts the processes around the clusters, has
// the front ends publish at the planned rate, does what the options want done to
// the pipeline in the middle of it, waits until nothing more comes to any tier, and
// asks the audit for its verdict.
func (pipeline) Pipeline(ctx context.Context, target driver.Target, o driver.Options, plan driver.PipelinePlan) (driver.PipelineResult, error) {
	opts, err := readOptions(o)
	switch {
	case err != nil:
		return driver.PipelineResult{}, err
	case target.Extra[liveKey] == "" || target.Extra[replicaKey] == "":
		return driver.PipelineResult{}, fmt.Errorf("pipeline: target %+v is none of its own", target)
	case plan.Messages <= 0 || !(plan.Rate > 0) || plan.PayloadBytes < leastLine || plan.Stall <= 0:
		return driver.PipelineResult{}, fmt.Errorf("pipeline: %d messages of %d bytes at %v a second, stall %v: messages of at least %d bytes, a rate and a time are wanted",
			plan.Messages, plan.PayloadBytes, plan.Rate, plan.Stall, leastLine)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{
		opts: opts, plan: plan, balancer: target.Addr, live: target.Extra[liveKey], replica: target.Extra[replicaKey],
		ledger: newLedger(plan.RunID, plan.PayloadBytes, plan.Messages), fail: cancel,
	}
	err = r.run(ctx)
	if err != nil && context.Cause(ctx) != nil && !errors.Is(err, context.Cause(ctx)) {
		err = errors.Join(context.Cause(ctx), err) // what ended it first
	}
	r.conclude()
	return r.result, err
}

// run is one run of the client half.
type run struct {
	opts                    options
	plan                    driver.PipelinePlan
	balancer, live, replica string // addresses
	ledger                  *ledger
	fail                    context.CancelCauseFunc

	began time.Time // set before anything is published
	made  atomic.Int64

	lossy     *lossy // of the first front end; nil: no set is left out
	mirrors   []*child
	loader    *child
	watches   []*child
	frontEnds []frontEnd

	readers    sync.WaitGroup
	endReaders context.CancelFunc

	result driver.PipelineResult
}

// loadDir is the folder of the load's output.
func (r *run) loadDir() string { return filepath.Join(r.plan.Dir, "load") }

// stateFile is where a tier's watch keeps its counts.
func (r *run) stateFile(tier string) string {
	return filepath.Join(r.plan.Dir, "audit-"+tier+".state")
}

// tell passes on how far it is.
func (r *run) tell() {
	arrived, _, _ := r.ledger.counts(loadTier)
	r.plan.Moved(r.made.Load(), arrived)
}

func (r *run) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.endAll()) }()
	if err := r.setUp(ctx); err != nil {
		return err
	}
	if err := r.plan.Ready(ctx); err != nil {
		return err
	}
	r.began = time.Now()
	if err := r.publish(ctx); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.audit(ctx)
}

// setUp starts everything, what comes later in the pipeline first.
func (r *run) setUp(ctx context.Context) error {
	setUp, cancel := context.WithTimeoutCause(ctx, 2*r.plan.Stall, errors.New("the processes around the clusters did not come up"))
	defer cancel()
	if err := r.createTopics(setUp); err != nil {
		return err
	}
	reading, end := context.WithCancel(ctx)
	r.endReaders = end
	var err error
	start := func(name string, ready string, args ...string) *child {
		if err != nil {
			return nil
		}
		var c *child
		c, err = startChild(setUp, childConfig{name: name, args: append([]string{r.plan.Program}, args...), dir: r.plan.Dir, ready: ready, onDeath: r.fail})
		r.tell()
		return c
	}
	r.loader = start("load", "", "etl", "run", "--zk-connect", r.replica, "--topic", topic, "--out", r.loadDir(), "--interval", r.opts.load.String())
	for tier, zooKeeper := range r.clusters() {
		name := resultfile.Tiers()[tier]
		r.watches = append(r.watches, start("audit-"+name, `msg="audit watch started"`,
			"audit", "watch", "--tier", name, "--zk-connect", zooKeeper, "--topic", topic, "--audit-topic", auditTopic, "--audit-window", r.opts.window.String(), "--state", r.stateFile(name)))
	}
	for i := range r.opts.mirrors {
		r.mirrors = append(r.mirrors, start(mirrorName(i), mirrorReady, r.mirrorArgs()...))
	}
	if err != nil {
		return err
	}
	r.readers.Go(func() {
		if err := r.watchLoad(reading); err != nil {
			r.fail(err)
		}
	})
	for tier, zooKeeper := range r.clusters() {
		ready := make(chan struct{})
		r.readers.Go(func() {
			if err := r.readTier(reading, tier, zooKeeper, ready); err != nil {
				r.fail(fmt.Errorf("reading the %s cluster: %w", resultfile.Tiers()[tier], err))
			}
		})
		select {
		case <-ready:
		case <-setUp.Done():
			return context.Cause(setUp)
		}
		r.tell()
	}
	return r.startFrontEnds(setUp)
}

// clusters are the addresses of the clusters' ZooKeepers by their places in the
// tiers.
func (r *run) clusters() []string { return []string{liveTier: r.live, replicaTier: r.replica} }

// createTopics makes the topics in both clusters, so that everybody finds them.
func (r *run) createTopics(ctx context.Context) error {
	for _, c := range []struct {
		zooKeeper  string
		partitions int // at each broker
	}{{r.live, r.opts.partitions}, {r.replica, r.opts.brokers * r.opts.partitions / r.opts.replicaBrokers}} {
		for name, partitions := range map[string]int{topic: c.partitions, auditTopic: 1} {
			if out, err := command(ctx, r.plan.Program, "topics", "create", name, "--partitions", strconv.Itoa(partitions), "--zk-connect", c.zooKeeper); err != nil {
				return fmt.Errorf("making the topic %s: %w: %s", name, err, out)
			}
		}
		r.tell()
	}
	return nil
}

const mirrorReady = `msg="mirror started"`

func mirrorName(n int) string { return fmt.Sprintf("mirror-%d", n+1) }

func (r *run) mirrorArgs() []string {
	return []string{"mirror", "--source-zk-connect", r.live, "--zk-connect", r.replica, "--group", "mirror",
		"--whitelist", topic + "|" + auditTopic, "--zk-session-timeout", r.opts.session.String()}
}

// startFrontEnds starts the front ends. Where a set is to be left out the first one
// goes through a link that will do that.
func (r *run) startFrontEnds(ctx context.Context) error {
	for i := range r.opts.frontEnds {
		addr := r.balancer
		if i == 0 && r.opts.fault == faultSet {
			var err error
			if r.lossy, err = startLossy(r.balancer, r.fail); err != nil {
				return err
			}
			addr = r.lossy.addr()
		}
		c, err := startChild(ctx, childConfig{name: frontEndName(i), args: r.frontEndArgs(i, addr), dir: r.plan.Dir, input: true, onDeath: r.fail})
		if err != nil {
			return err
		}
		r.frontEnds = append(r.frontEnds, frontEnd{child: c, place: int64(i)})
	}
	return nil
}

// publish feeds the front ends, does what is to be done to the pipeline in the
// middle of that, and waits until the front ends have ended: all is sent then, and
// all windows are reported.
func (r *run) publish(ctx context.Context) error {
	doing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	var errs []error
	var mu sync.Mutex
	do := func(what func(context.Context) error) {
		group.Go(func() {
			if err := what(doing); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				cancel(err)
			}
		})
	}
	do(r.doFault)
	for _, f := range r.frontEnds {
		do(func(ctx context.Context) error {
			if err := r.feed(ctx, f); err != nil {
				return err
			}
			err := f.await(r.opts.linger + 2*childGrace)
			if err != nil && r.opts.fault == faultBroker {
				r.plan.Note(err.Error()) // what it could not deliver is for the audit to find
				return nil
			}
			return err
		})
	}
	group.Wait()
	r.result.Made, r.result.MadeSeconds = r.made.Load(), time.Since(r.began).Seconds()
	if r.lossy != nil {
		r.result.Dropped = r.lossy.dropped.Load()
		if len(errs) == 0 && r.result.Dropped == 0 {
			errs = append(errs, errors.New("no message set came by that could be left out: state more messages"))
		}
	}
	if len(errs) > 0 {
		return errs[0] // the others are because of it
	}
	return nil
}

// doFault does what is to be done to the pipeline, when half of the plan is over.
func (r *run) doFault(ctx context.Context) error {
	if r.opts.fault == faultNone {
		return nil
	}
	if !sleep(ctx, r.planned()/2-time.Since(r.began)) {
		return context.Cause(ctx)
	}
	r.result.Fault, r.result.FaultAtSeconds = r.opts.fault.words(), time.Since(r.began).Seconds()
	switch r.opts.fault {
	case faultBroker:
		part := partName(r.opts.brokers - 1)
		if err := r.plan.Part(ctx, part, driver.KillPart); err != nil {
			return err
		}
		if !sleep(ctx, faultLasts) {
			return context.Cause(ctx)
		}
		return r.plan.Part(ctx, part, driver.RestartPart)
	case faultMirror:
		if err := r.mirrors[0].kill(); err != nil {
			return fmt.Errorf("killing a mirror: %w", err)
		}
		if !sleep(ctx, faultLasts) {
			return context.Cause(ctx)
		}
		c, err := startChild(ctx, childConfig{name: mirrorName(r.opts.mirrors), args: append([]string{r.plan.Program}, r.mirrorArgs()...),
			dir: r.plan.Dir, ready: mirrorReady, onDeath: r.fail})
		if err != nil {
			return err
		}
		r.mirrors[0] = c
	case faultSet:
		r.lossy.armed.Store(true)
	}
	return nil
}

// settle waits until every tier has all that it can have, or nothing has come for
// so long that nothing more will.
func (r *run) settle(ctx context.Context) error {
	quiet := max(2*r.opts.load+r.opts.session+5*time.Second, r.plan.Stall)
	want := r.result.Made - r.result.Dropped
	last, since := int64(-1), time.Now()
	for {
		complete, all := true, int64(0)
		for tier := range resultfile.Tiers() {
			distinct, doubled, _ := r.ledger.counts(tier)
			complete = complete && distinct >= want
			all += distinct + doubled
		}
		if all != last {
			last, since = all, time.Now()
			r.result.Seconds = since.Sub(r.began).Seconds()
		}
		if complete || time.Since(since) > quiet {
			return nil
		}
		r.tell()
		if !sleep(ctx, settlePoll) {
			return context.Cause(ctx)
		}
	}
}

// conclude says what every tier had in the end.
func (r *run) conclude() {
	for i, name := range resultfile.Tiers() {
		t := driver.TierResult{Tier: name}
		t.Distinct, t.Doubled, t.Damaged = r.ledger.counts(i)
		t.Lost = max(r.made.Load()-t.Distinct, 0)
		for _, w := range r.result.Windows {
			if w.Tier == name {
				t.AuditMade += w.Made
				t.AuditCounted += w.Counted
				t.AuditMissing += w.Missing
				t.AuditDoubled += w.Doubled
				t.AuditUnreported += w.Unreported
				t.AuditOpen += w.Open
			}
		}
		r.result.Tiers = append(r.result.Tiers, t)
	}
}

// endAll ends what is left, in the order of the pipeline.
func (r *run) endAll() error {
	var errs []error
	for _, f := range r.frontEnds {
		errs = append(errs, f.kill()) // they have ended, if all went well
	}
	if r.lossy != nil {
		errs = append(errs, r.lossy.close())
	}
	errs = append(errs, r.stopAll(append(slices.Concat(r.mirrors, r.watches), r.loader)...))
	if r.endReaders != nil {
		r.endReaders()
	}
	r.readers.Wait()
	return errors.Join(errs...)
}

// stopAll stops children at once. Those that are nil are left out.
func (r *run) stopAll(all ...*child) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, c := range all {
		if c != nil {
			group.Go(func() { errs[i] = c.stop() })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// sleep says whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
