package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// Defaults of [Config].
const (
	DefaultFetchBytes     = 1 << 20 // 0.7's fetch.size
	DefaultMaxBufferBytes = 64 << 20
	DefaultCommitInterval = time.Second
	DefaultFlushTimeout   = 30 * time.Second
	DefaultReleaseTimeout = 10 * time.Second
	DefaultTargetWait     = 30 * time.Second
)

// Config describes a mirror. Zero fields but those that say so take the defaults.
type Config struct {
	// Sources are the ZooKeepers of the clusters to copy from, one or more, and Target
	// that of the cluster to copy into, which is none of them.
	Sources []coord.Config
	Target  coord.Config

	// Group is the consumer group, in each source, of all mirrors that share the work.
	// Mirrors with other targets need groups of their own.
	Group string

	// One of WhiteList and BlackList: a regular expression for the whole names of
	// topics, as [registry.WhiteList] takes it. Topics that come later count too.
	WhiteList, BlackList string
	// WithSchemas copies [message.SchemasTopic] too, if the list lets it through. Without
	// it that stays out: each cluster's schema registry gives ids of its own.
	WithSchemas bool

	// OffsetReset says where to begin in a partition that the group has no offset of:
	// [consumer.ResetSmallest] or [consumer.ResetLargest].
	OffsetReset consumer.Reset

	// FetchBytes is the size of a pull, and bounds what of a partition is sent and not
	// committed (exclusive; a larger message is sent alone). MaxFetchBytes is how large
	// a message may be, its header included; 0: the consumer package's default.
	FetchBytes    int
	MaxFetchBytes int
	// MaxBufferBytes is how much of what was read is kept, over all partitions, until it
	// is flushed at the target. When it is reached nothing more is read, so it may be
	// exceeded by one pull for each source. One partition keeps less than two pulls; so
	// partitions that the target does not take keep the others from being read when they
	// are as many as there is room for pulls.
	MaxBufferBytes int64

	// CommitInterval is how often what is flushed is committed at least. Where much is,
	// it is sooner.
	CommitInterval time.Duration
	// FlushTimeout is how long the target may take to flush a set; after that it is sent
	// again.
	FlushTimeout time.Duration
	// ReleaseTimeout is how long giving a partition up waits for what is on its way.
	ReleaseTimeout time.Duration
	// TargetWait is how long a broker of the target that has gone keeps its place among
	// the partitions of a topic. Until then what belongs there waits.
	TargetWait time.Duration

	DialTimeout    time.Duration // of brokers; 0: the client package's
	RequestTimeout time.Duration // of brokers, beside FlushTimeout; 0: the client package's

	RebalanceTries   int           // 0: the consumer package's
	RebalanceBackoff time.Duration // 0: the consumer package's

	// OnGap, if set, is called with each gap, by the mirror's own goroutines. It must not
	// wait, nor call the mirror.
	OnGap func(Gap)

	Logger *slog.Logger // what comes and goes, and what fails, never messages; nil: nothing is logged

	// step, if set, is called by tests' mirrors at each step of a set's way.
	step func(step)
}

// step names a point of a set's way, for a process that is to die there.
type step string

// The steps, in the order in which a set comes to them.
const (
	stepBeforeWrite  step = "before write"
	stepMidWrite     step = "middle of write" // half of the request is written
	stepAfterWrite   step = "after write"
	stepFlushed      step = "flushed" // between data and offsets
	stepBeforeCommit step = "before commit"
	stepAfterCommit  step = "after commit"
)

// at tells a test of a step.
func (c *Config) at(s step) {
	if c.step != nil {
		c.step(s)
	}
}

func (c Config) withDefaults() (Config, error) {
	setDefault(&c.FetchBytes, DefaultFetchBytes)
	setDefault(&c.MaxFetchBytes, max(consumer.DefaultMaxFetchBytes, c.FetchBytes))
	setDefault(&c.MaxBufferBytes, DefaultMaxBufferBytes)
	setDefault(&c.CommitInterval, DefaultCommitInterval)
	setDefault(&c.FlushTimeout, DefaultFlushTimeout)
	setDefault(&c.ReleaseTimeout, DefaultReleaseTimeout)
	setDefault(&c.TargetWait, DefaultTargetWait)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Check reports what is wrong with a configuration, or nil. Nothing is connected to.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

func (c Config) check() error {
	switch {
	case len(c.Sources) == 0:
		return errors.New("mirror: no source cluster is named")
	case c.Group == "":
		return errors.New("mirror: no group is named: give one that all mirrors into this target have")
	case c.FetchBytes < minFetchBytes:
		return fmt.Errorf("mirror: fetch of %d bytes: give %d or more", c.FetchBytes, minFetchBytes)
	case c.MaxFetchBytes > wire.MaxRequestSize/2:
		return fmt.Errorf("mirror: messages of up to %d bytes: give %d at most", c.MaxFetchBytes, wire.MaxRequestSize/2)
	case c.MaxBufferBytes < 0 || c.CommitInterval < 0 || c.FlushTimeout < 0 || c.ReleaseTimeout < 0 || c.TargetWait < 0 || c.DialTimeout < 0 || c.RequestTimeout < 0:
		return errors.New("mirror: a bound or time-out is negative: give 0 for the default")
	case c.OffsetReset != consumer.ResetSmallest && c.OffsetReset != consumer.ResetLargest:
		return fmt.Errorf("mirror: offset reset %v: give smallest or largest", c.OffsetReset)
	}
	if err := c.Target.Check(); err != nil {
		return fmt.Errorf("mirror: target: %w", err)
	}
	seen := map[string]bool{c.Target.Servers: true}
	for _, s := range c.Sources {
		if err := s.Check(); err != nil {
			return fmt.Errorf("mirror: source: %w", err)
		}
		if seen[s.Servers] {
			return fmt.Errorf("mirror: the cluster of %s is named twice: a cluster cannot be copied into itself, nor be two sources", s.Servers)
		}
		seen[s.Servers] = true
	}
	if err := registry.CheckGroup(c.Group); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	_, err := c.subscription()
	return err
}

// minFetchBytes is the least size of a pull: so that sets are worth a request.
const minFetchBytes = 1 << 10

// subscription checks the lists.
func (c Config) subscription() (s registry.Subscription, err error) {
	switch {
	case (c.WhiteList == "") == (c.BlackList == ""):
		err = errors.New("give a white list or a black list of topics, one of them")
	case c.WhiteList != "":
		s, err = registry.WhiteList(c.WhiteList, 1)
	default:
		s, err = registry.BlackList(c.BlackList, 1)
	}
	if err != nil {
		return s, fmt.Errorf("mirror: %w", err)
	}
	return s, nil
}

// groupConfig returns the settings of the mirror's member in a source.
func (c *Config) groupConfig(r *registry.Registry, log *slog.Logger) consumer.GroupConfig {
	return consumer.GroupConfig{
		Registry: r, Group: c.Group, WhiteList: c.WhiteList, BlackList: c.BlackList,
		OffsetReset: c.OffsetReset, StopOutOfRange: true,
		AutoCommit: -1, // only what is flushed at the target
		Feed: consumer.PartitionConfig{
			FetchBytes: c.FetchBytes, MaxFetchBytes: c.MaxFetchBytes, Shallow: true,
			DialTimeout: c.DialTimeout, RequestTimeout: c.RequestTimeout, Logger: slog.New(slog.DiscardHandler),
		},
		RebalanceTries: c.RebalanceTries, RebalanceBackoff: c.RebalanceBackoff,
		HookTimeout: c.ReleaseTimeout + commitTimeout,
		Logger:      log,
	}
}

// setBytes is how large the sets are that a fetch is cut into: several are on their
// way at once.
func (c *Config) setBytes() int { return c.FetchBytes / 8 }

// commitTimeout bounds a commit.
const commitTimeout = 5 * time.Second

// Gap is a range of a source partition's log that was not copied, as it was not there
// any more.
type Gap struct {
	Source string // the connection string of the cluster
	consumer.TopicPartition
	// From is where copying had come to, To where it goes on. If To is before From the
	// log is another one, made anew: what it holds is copied from its beginning.
	From, To int64
}

// Bytes returns the bytes of log in the gap, 0 if the log was made anew.
func (g Gap) Bytes() int64 { return max(g.To-g.From, 0) }

// pause waits, and reports whether it has waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
