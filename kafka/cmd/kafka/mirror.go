package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/mirror"
)

func mirrorCommand() command {
	return command{name: "mirror", summary: "copy the topics of clusters into another one", run: runMirror}
}

const mirrorAbout = `Copies topics from one or several clusters into another one, until it is told to
stop by SIGINT or SIGTERM. Mirrors that give the same group share the work.

Messages are copied as they are stored, compressed ones too, and those of a
partition stay in order and together. An offset is committed when the target has
flushed what comes before it, so nothing is lost, and what is copied twice after
a kill is less than one fetch for each partition. A target that is away is tried
again for as long as it takes. What the source has deleted before it was copied
is told as a gap, with topic, partition and offsets.

--whitelist and --blacklist are patterns for whole topic names (several divided
by commas); topics that come into being later belong to them too, and are made at
the target with as many partitions. The topic "schemas" of the schema registry
stays out unless --with-schemas is given.`

const mirrorExamples = `  kafka mirror --source-zk-connect live1:2181 --source-zk-connect live2:2181 --zk-connect replica:2181 --group mirror --blacklist 'test-.*'
  kafka mirror --source-zk-connect live:2181/kafka --zk-connect replica:2181/kafka --group mirror --whitelist 'clicks,audit' --metrics-listen 127.0.0.1:9101
  kafka mirror --consumer-config consumer.properties --producer-config producer.properties --whitelist clicks

`

// Flags that keys of properties files stand for too.
const (
	sourceFlag    = "source-zk-connect"
	groupFlag     = "group"
	whitelistFlag = "whitelist"
	blacklistFlag = "blacklist"
)

// mirrorStopLimit bounds the stop of a mirror, beside --release-timeout.
const mirrorStopLimit = 40 * time.Second

// mirrorOptions are the flags of mirror.
type mirrorOptions struct {
	sources                 []string
	target                  string
	cfg                     mirror.Config
	reset                   string
	fetch, maxFetch, buffer *byteSize
	session, connect        time.Duration
	consumerFiles           []string
	producerFile            string
	metricsListen           string
	level                   logLevel
	format                  logFormat
	notes                   []note // keys of the files without effect
}

// mirrorFlags binds the flags of "kafka mirror".
func mirrorFlags(std stdio, o *mirrorOptions) *flagSet {
	fs := newFlags(std, "kafka mirror --source-zk-connect HOST:PORT,…/PATH… --zk-connect HOST:PORT,…/PATH --group G (--whitelist W | --blacklist B) [flags]",
		mirrorAbout, mirrorExamples+"Keys of --consumer-config and --producer-config, those of Kafka 0.7. A flag on the command line wins over its key.\n"+
			"--consumer-config, once for each source:\n"+keyHelp(consumerProperties)+"--producer-config:\n"+keyHelp(producerProperties))
	c := &o.cfg
	fs.StringArrayVar(&o.sources, sourceFlag, nil, "ZooKeeper of a cluster to copy from, HOST:PORT, several divided by commas, with /PATH at the end if the cluster has its nodes below one; once for each cluster")
	fs.StringVar(&o.target, zkFlag, "", "ZooKeeper of the cluster to copy into")
	fs.StringVar(&c.Group, groupFlag, "", "consumer group in the sources, of all mirrors that share the work; those into another target need another")
	fs.StringVar(&c.WhiteList, whitelistFlag, "", "pattern of the topics to copy")
	fs.StringVar(&c.BlackList, blacklistFlag, "", "pattern of the topics not to copy, all others are")
	fs.BoolVar(&c.WithSchemas, "with-schemas", false, "copy the topic of the schema registry too")
	fs.StringVar(&o.reset, "offset-reset", "smallest", "where to begin in a partition that the group has no offset of: smallest (or earliest), largest (or latest)")
	o.fetch = fs.sizeFlag("fetch-size", mirror.DefaultFetchBytes, "how much to ask for at once; of a partition less than that comes twice after a kill")
	o.maxFetch = fs.sizeFlag("max-fetch-size", consumer.DefaultMaxFetchBytes, "how large a message may be, its header included")
	o.buffer = fs.sizeFlag("max-buffer", mirror.DefaultMaxBufferBytes, "how much is kept, of all partitions, until the target has flushed it")
	fs.DurationVar(&c.CommitInterval, "commit-interval", mirror.DefaultCommitInterval, "how often what is flushed is committed at least")
	fs.DurationVar(&c.FlushTimeout, "flush-timeout", mirror.DefaultFlushTimeout, "how long the target may take to flush until it is sent again")
	fs.DurationVar(&c.ReleaseTimeout, "release-timeout", mirror.DefaultReleaseTimeout, "how long giving a partition up waits for what is on its way")
	fs.DurationVar(&c.TargetWait, "target-wait", mirror.DefaultTargetWait, "how long a broker of the target that has gone is waited for until its partitions' messages go to others")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", 30*time.Second, "how long a broker may take to answer")
	fs.DurationVar(&c.RebalanceBackoff, "rebalance-backoff", consumer.DefaultRebalanceBackoff, "longest pause between two tries of a rebalance")
	fs.DurationVar(&o.session, zkSessionFlag, defaultSession, "how long this mirror may be out of touch with a source's ZooKeeper before others take over")
	fs.DurationVar(&o.connect, "connect-timeout", 10*time.Second, "how long the start waits for each ZooKeeper")
	fs.StringArrayVar(&o.consumerFiles, "consumer-config", nil, "file with the keys of a Kafka 0.7 consumer, see below, for a cluster to copy from; several times for several")
	fs.StringVar(&o.producerFile, "producer-config", "", "file with the keys of a Kafka 0.7 producer, see below, for the cluster to copy into")
	fs.StringVar(&o.metricsListen, "metrics-listen", "", "address of an HTTP server for /metrics (Prometheus); none by default")
	o.level, o.format = logLevel(slog.LevelInfo), "text"
	fs.Var(&o.level, "log-level", "least level of what is logged")
	fs.Var(&o.format, "log-format", "form of the log: a line of key=value for each entry, or a JSON object")
	return fs
}

// config returns the settings of the mirror, as the flags and files have them.
func (o *mirrorOptions) config(log *slog.Logger) (mirror.Config, error) {
	cfg := o.cfg
	cfg.Logger = log
	cfg.FetchBytes, cfg.MaxBufferBytes = int(*o.fetch), int64(*o.buffer)
	cfg.MaxFetchBytes = max(int(*o.maxFetch), cfg.FetchBytes)
	switch {
	case len(o.sources) == 0:
		return cfg, usagef("--%s is missing: where is the cluster to copy from?", sourceFlag)
	case o.target == "":
		return cfg, usagef("--%s is missing: where is the cluster to copy into?", zkFlag)
	case cfg.Group == "":
		return cfg, usagef("--%s is missing: a name that all mirrors into this target give", groupFlag)
	case (cfg.WhiteList == "") == (cfg.BlackList == ""):
		return cfg, usagef("--%s and --%s: one of them is wanted", whitelistFlag, blacklistFlag)
	case cfg.FetchBytes == 0 || cfg.MaxBufferBytes == 0:
		return cfg, usagef("--fetch-size and --max-buffer: more than 0 is wanted")
	case cfg.CommitInterval <= 0 || cfg.FlushTimeout <= 0 || cfg.ReleaseTimeout <= 0 || cfg.TargetWait <= 0 || cfg.RequestTimeout <= 0 || cfg.RebalanceBackoff <= 0:
		return cfg, usagef("an interval or time-out is not more than 0")
	}
	var err error
	if cfg.OffsetReset, err = consumer.ParseReset(endOfReset(o.reset)); err != nil || cfg.OffsetReset == consumer.ResetFail {
		return cfg, usagef("--offset-reset %q: give smallest or largest", o.reset)
	}
	zk := func(servers string) coord.Config {
		return coord.Config{Servers: servers, SessionTimeout: o.session, ConnectTimeout: max(o.connect, leastZKConnect), Logger: log}
	}
	for _, s := range o.sources {
		cfg.Sources = append(cfg.Sources, zk(s))
	}
	cfg.Target = zk(o.target)
	if err := cfg.Check(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

func runMirror(ctx context.Context, args []string, std stdio) error {
	var o mirrorOptions
	fs := mirrorFlags(std, &o)
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := o.applyFiles(fs); err != nil {
		return err
	}
	if o.metricsListen != "" {
		if err := checkListen("metrics-listen", o.metricsListen); err != nil {
			return err
		}
	}
	log := o.format.logger(std.Err, slog.Level(o.level))
	cfg, err := o.config(log)
	if err != nil {
		return err
	}
	o.tellNotes(log)
	m, err := mirror.Open(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // told to stop before it was up
		}
		return err
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	err = registerMirror(m, r)
	closeWeb := func() error { return nil }
	if err == nil && o.metricsListen != "" {
		var web *metricsServer
		if web, err = serveMetrics(ctx, o.metricsListen, r, log); err == nil {
			closeWeb = web.Close
		}
	}
	if err == nil {
		log.Info("mirror started", "group", cfg.Group, "sources", o.sources, "target", o.target)
		<-ctx.Done()
		log.Info("mirror stops")
	}
	return errors.Join(err, closeWeb(), closeMirror(ctx, m, cfg, log))
}

// registerMirror shows the metrics of a mirror, and of its members in the groups.
func registerMirror(m *mirror.Mirror, r prometheus.Registerer) error {
	errs := []error{r.Register(mirror.NewCollector(m))}
	for name, c := range mirror.GroupCollectors(m) {
		errs = append(errs, prometheus.WrapRegistererWith(prometheus.Labels{"source": name}, r).Register(c))
	}
	return errors.Join(errs...)
}

// closeMirror stops a mirror: it waits for what is on its way, and commits.
func closeMirror(ctx context.Context, m *mirror.Mirror, cfg mirror.Config, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mirrorStopLimit+cfg.ReleaseTimeout)
	defer cancel()
	err := m.Close(ctx)
	st := m.Stats()
	log.Info("mirror stopped", "messages", st.Messages, "bytes", st.Bytes, "repeated_messages", st.RepeatedMessages, "gaps", st.Gaps, "gap_bytes", st.GapBytes)
	return err
}
