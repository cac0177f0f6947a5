package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kafkalab/kafka/audit"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
)

const auditWatchAbout = `Counts what comes of topics in a tier, until it is interrupted. See "kafka audit
--help" for what becomes of it.

It consumes as the only member of a group of its own, and commits nothing: how far
it is stands in --state, together with the counts. With --audit-topic "" it reads
no monitoring events, which then come with the state of another tier.`

const auditWatchExamples = `  kafka audit watch --tier live --zk-connect 127.0.0.1:2181 --topic clicks --state live.state
  kafka audit watch --tier live --zk-connect 127.0.0.1:2181 --topic clicks --topic searches --state live.state --json
`

// auditWatchOptions are the flags of audit watch.
type auditWatchOptions struct {
	checkerFlags
	zk         zkOptions
	eventTopic string
	group      string
	interval   time.Duration
	metrics    string
	json       bool
}

func runAuditWatch(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka audit watch --tier NAME --zk-connect HOST:PORT,…/PATH --topic T… --state FILE", auditWatchAbout, auditWatchExamples)
	var o auditWatchOptions
	o.add(fs)
	zk := fs.zkConnectFlag()
	fs.StringVar(&o.eventTopic, "audit-topic", audit.DefaultTopic, "topic of the monitoring events; \"\": none")
	fs.StringVar(&o.group, "group", "", "consumer group, which no other may be in; by default audit-TIER-, and an id that is in the state")
	fs.DurationVar(&o.interval, "state-interval", audit.DefaultSaveInterval, "how often the state is written, if there is anything new")
	fs.StringVar(&o.metrics, "metrics-listen", "", "address of an HTTP server for /metrics (Prometheus); none by default")
	fs.DurationVar(&o.zk.session, "zk-session-timeout", defaultSession, "how long the session with ZooKeeper may be out of touch")
	fs.BoolVar(&o.json, "json", false, "print the sums of the tier as JSON, a line for each time that they have changed")
	connectTimeout := fs.connectFlag()
	fs.require(zkFlag)
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	o.zk.servers, o.zk.connect, o.zk.joins = *zk, *connectTimeout, true
	if err := o.check(fs); err != nil {
		return err
	}
	if err := o.open(false); err != nil { // the watcher waits itself, and tells
		return err
	}
	defer o.close()
	reg, err := o.zk.open(ctx, std.Err)
	if err != nil {
		return err
	}
	defer closeRegistry(reg, std.Err)
	return o.watch(ctx, reg, std)
}

func (o *auditWatchOptions) check(fs *flagSet) error {
	if err := o.checkerFlags.check(fs); err != nil {
		return err
	}
	if o.interval <= 0 {
		return usagef("--state-interval %v: more than 0 is wanted", o.interval)
	}
	if o.eventTopic != "" {
		if err := message.CheckTopic(o.eventTopic); err != nil {
			return usagef("--audit-topic: %w", err)
		}
	}
	if o.group != "" {
		if err := registry.CheckGroup(o.group); err != nil {
			return usageError{err}
		}
	}
	if o.metrics != "" {
		if err := checkListen("metrics-listen", o.metrics); err != nil {
			return err
		}
	}
	return o.zk.check()
}

// watch counts until ctx ends.
func (o *auditWatchOptions) watch(ctx context.Context, reg *registry.Registry, std stdio) (err error) {
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	o.cfg.Logger = slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w, err := audit.OpenWatcher(ctx, audit.WatchConfig{
		CheckerConfig: o.cfg, Registry: reg, Group: o.group, EventTopic: o.eventTopic, SaveInterval: o.interval,
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // interrupted before it has begun
	}
	if err != nil {
		return err
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		err = errors.Join(err, w.Close(closeCtx))
	}()
	if o.metrics != "" {
		r := prometheus.NewRegistry()
		r.MustRegister(w.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		server, err := serveMetrics(ctx, o.metrics, r, log)
		if err != nil {
			return err
		}
		defer func() {
			if err := server.Close(); err != nil {
				log.Warn("end of the metrics server", "error", err)
			}
		}()
	}
	log.Info("audit watch started", "tier", o.cfg.Tier, "group", w.Group(), "state", o.cfg.State)
	return o.print(ctx, w, std)
}

// print prints the sums of the tier when they have changed, if that is wanted, until ctx
// ends or the watcher has stopped.
func (o *auditWatchOptions) print(ctx context.Context, w *audit.Watcher, std stdio) error {
	last := audit.TierSums{}
	for wait := o.interval; ; {
		var due <-chan time.Time
		if o.json {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Done():
			return nil // Close tells why
		case <-due:
		}
		began := time.Now()
		r, err := w.Report(audit.ReportOptions{At: began})
		if err != nil {
			return err
		}
		wait = max(o.interval, 10*time.Since(began)) // counting is held up meanwhile
		sums := r.Tiers[0]
		if sums.Same(last) {
			continue
		}
		last = sums
		if err := writeJSON(std.Out, sums); err != nil {
			if unread(err) {
				return nil
			}
			return err
		}
	}
}
