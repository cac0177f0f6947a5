package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// Defaults of [GroupConfig].
const (
	DefaultAutoCommit       = 10 * time.Second
	DefaultRebalanceTries   = 4
	DefaultRebalanceBackoff = 2 * time.Second
	DefaultHandoverWait     = 100 * time.Millisecond
	DefaultHookTimeout      = 10 * time.Second
)

// GroupConfig describes a consumer of a group. Zero fields take the defaults.
type GroupConfig struct {
	// ZooKeeper is what the group meets at. Registry is used instead if it is
	// set: it may be shared, but not by two consumers of one group, as ZooKeeper could
	// not tell them apart; and it is not closed.
	ZooKeeper coord.Config
	Registry  *registry.Registry

	Group string
	// ConsumerID tells this consumer from the others of its group, if it is to have
	// a name that stays; it must be no other's. Empty: one is made of the host, the
	// time and chance. The whole id is "<group>_<ConsumerID>".
	ConsumerID string

	// What to subscribe to, one of: Topics, the number of streams for each topic; or
	// WhiteList or BlackList, a regular expression for the whole names of topics,
	// with Streams streams (default 1; not with Topics) that share the messages of all
	// topics the list lets through, also of those that come later. Expressions are
	// normalised, and restricted, as [registry.WhiteList] says.
	Topics               map[string]int
	WhiteList, BlackList string
	Streams              int

	// OffsetReset says where to begin in a partition for which the group has no
	// offset yet, and where to go on when the offset cannot be fetched. Where a reset
	// has led is written to ZooKeeper at once. With [ResetFail] Next returns an error,
	// and the partition stands still until [Group.Seek].
	OffsetReset Reset
	// StopOutOfRange makes an offset that cannot be fetched an error of its partition,
	// an [*OutOfRangeError], whatever OffsetReset says, which then is for new partitions
	// alone. Until [Group.Seek] the partition stands still, and nothing is written for
	// it: for an application that has to be done with what came before, and to tell
	// what it has missed, before it goes on.
	StopOutOfRange bool

	// AutoCommit is how often the offsets behind what the application is done with are
	// written to ZooKeeper; they are also when a partition is released and on Close.
	// 0: 10 s. Negative: the application commits by hand, and only what it commits is
	// written (but for resets).
	AutoCommit time.Duration

	// Feed says how partitions are pulled from their brokers: FetchBytes,
	// MaxFetchBytes, MaxDecompressedBytes, Shallow, MaxWait and the time-outs. What
	// names a partition, a broker, a start or hooks must be left out.
	Feed PartitionConfig

	// FetchMemoryBytes bounds what all partitions together ask for at once beyond
	// MinAdaptedFetchBytes each, where Feed leaves FetchBytes to them (default 64 MiB).
	// The buffers take up to twice that: with 1,000 partitions 250 MiB, and less than a
	// tenth of that while they have little to read.
	FetchMemoryBytes int

	// RebalanceTries is how many times a rebalance is tried until that is logged as
	// failed (default 4). It is tried again all the same, for as long as partitions
	// have no owner. The pauses between tries grow up to RebalanceBackoff (default
	// 2 s), and each is cut by a random part of up to a half.
	RebalanceTries   int
	RebalanceBackoff time.Duration

	// HandoverWait is how long a partition that goes to another consumer or stream
	// waits for the application to be done with the message it has in hand (default
	// 100 ms; negative: not at all). If it is not, the next owner gets that message
	// again. While it waits, the next owner has to.
	HandoverWait time.Duration

	// StartOffset, if set, is asked for the offset of each partition that this
	// consumer comes to own, for applications that keep offsets themselves (NetDB'11
	// §3.1: rewind, checkpoint). ok is false where the group's offset is to be used. It
	// is called with ownership of the partition, and HookTimeout bounds it.
	StartOffset func(topic string, p registry.Partition) (offset int64, ok bool)

	// OnAssigned, if set, is called with partitions that this consumer has come to
	// own, before their first messages.
	OnAssigned func(ctx context.Context, assigned []TopicPartition)
	// OnRelease, if set, is called with partitions that this consumer gives up, after
	// the streams have stopped handing out their messages and before offsets are
	// committed and the partitions go to others: for an application that has
	// something to flush first. It may call Commit and CommitOffsets. What is committed
	// afterwards is what the application was done with before the call; nothing, if it
	// returns an error. lost says that the partitions are no longer owned, as the
	// session with ZooKeeper has ended or somebody has deleted the node: flushing
	// spares no repetition then. It is called again for the same partitions when a
	// Close has interrupted it.
	OnRelease func(ctx context.Context, released []TopicPartition, lost bool) error
	// HookTimeout is what ctx of the hooks allows (default 10 s). The group goes on
	// then; of OnRelease that counts as an error. The hooks are never called
	// concurrently with each other. They must not call Close.
	HookTimeout time.Duration

	Logger *slog.Logger // rebalances, resets, failures, never messages; nil: nothing is logged
}

// TopicPartition names a partition of a cluster.
type TopicPartition struct {
	Topic     string
	Partition registry.Partition
}

// String returns "topic broker-partition".
func (tp TopicPartition) String() string { return tp.Topic + " " + tp.Partition.String() }

func (c GroupConfig) withDefaults() (GroupConfig, error) {
	if c.AutoCommit == 0 {
		c.AutoCommit = DefaultAutoCommit
	}
	if c.RebalanceTries == 0 {
		c.RebalanceTries = DefaultRebalanceTries
	}
	if c.RebalanceBackoff == 0 {
		c.RebalanceBackoff = DefaultRebalanceBackoff
	}
	if c.HandoverWait == 0 {
		c.HandoverWait = DefaultHandoverWait
	}
	if c.HookTimeout == 0 {
		c.HookTimeout = DefaultHookTimeout
	}
	if c.FetchMemoryBytes == 0 {
		c.FetchMemoryBytes = DefaultFetchMemoryBytes
	}
	if c.Streams == 0 && len(c.Topics) == 0 {
		c.Streams = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func (c GroupConfig) check() error {
	f := c.Feed
	switch {
	case c.RebalanceTries < 0:
		return fmt.Errorf("consumer: %d tries of a rebalance: give 1 or more", c.RebalanceTries)
	case c.RebalanceBackoff < 0 || c.HookTimeout < 0:
		return fmt.Errorf("consumer: rebalance back-off %v, hook time-out %v: give more than 0", c.RebalanceBackoff, c.HookTimeout)
	case c.FetchMemoryBytes < 0:
		return fmt.Errorf("consumer: fetches of %d bytes beyond the smallest: give more than 0", c.FetchMemoryBytes)
	case c.Streams != 0 && len(c.Topics) > 0:
		return fmt.Errorf("consumer: %d streams beside Topics, which says how many each topic has: leave Streams out", c.Streams)
	case c.OffsetReset < ResetSmallest || c.OffsetReset > ResetFail:
		return fmt.Errorf("consumer: %v: give one of smallest, largest, fail", c.OffsetReset)
	case f.Broker != "" || f.Topic != "" || f.Partition != 0 || f.Start != 0 || f.Reset != 0 ||
		f.Hooks.Connected != nil || f.Hooks.Disconnected != nil || f.Hooks.Reset != nil:
		return errors.New("consumer: Feed names a partition, a broker, a start, a reset or hooks: a group chooses them itself")
	}
	// The partition's own fields are filled in to check the others.
	f.Broker, f.Topic = "unknown:1", "unknown"
	_, err := f.withDefaults()
	return err
}

// subscription returns what the consumer registry is told.
func (c GroupConfig) subscription() (registry.Subscription, error) {
	named, white, black := len(c.Topics) > 0, c.WhiteList != "", c.BlackList != ""
	var s registry.Subscription
	var err error
	switch {
	case named && !white && !black:
		s, err = registry.Static(c.Topics)
	case white && !named && !black:
		s, err = registry.WhiteList(c.WhiteList, c.Streams)
	case black && !named && !white:
		s, err = registry.BlackList(c.BlackList, c.Streams)
	default:
		err = errors.New("give one of topics, a white list and a black list")
	}
	if err != nil {
		return s, fmt.Errorf("consumer group %s: %w", c.Group, err)
	}
	return s, nil
}

// autoCommits says whether the group commits by itself.
func (c GroupConfig) autoCommits() bool { return c.AutoCommit > 0 }
