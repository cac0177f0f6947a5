package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// Group is one consumer of a consumer group (NetDB'11 §3.2): the consumers of a
// group share the partitions of the topics they are subscribed to, and so the
// messages. There is no master; they meet in ZooKeeper's registries, each decides
// by itself, with the same arithmetic, which partitions are its own, and does so
// anew whenever a consumer or broker comes or goes.
//
// # What is promised
//
//   - No two consumers hand out messages of a partition at the same time, but for
//     the one message per stream that an application has in hand. Ownership is a
//     lease: before it hands out a message, a stream asks whether the session that
//     made the claim has been proven to live within its time-out. While ZooKeeper
//     is away, messages are handed out for that long and no longer.
//   - Every message is handed out at least once; within a partition in the order of
//     the log, between two rebalances.
//   - Messages come twice only after an unclean end (a crash, a session that has
//     expired, a commit that failed), and only those past the last commit; and the
//     one in hand when a partition was given up before the application was done. Those
//     that were compressed together have one offset: if they are not all done with
//     when a partition is given up or the group is closed, all of them come again.
//   - A partition that is free is owned within the longest pause between two tries of
//     a rebalance. Giving up is never final: what is not owned is tried for again for
//     as long as it is wanted, and is counted in [GroupStats.Unowned].
//
// All methods may be called concurrently, also while streams are in use.
type Group struct {
	cfg          GroupConfig
	id           string // of this consumer in the registry
	subscription registry.Subscription
	registry     *registry.Registry
	ownsClient   bool
	memory       *fetchMemory
	log          *slog.Logger
	streams      map[string][]*GroupStream // by topic; those of a list under ""

	triggers *triggers
	resets   chan struct{} // an ownership has a reset to be written
	hooks    chan struct{} // holds a token while a hook is running
	metrics  groupMetrics

	member member // of the rebalance goroutine, and of Close after it

	life     context.Context // ends with Close
	endLife  context.CancelFunc
	workers  []chan struct{} // closed when the goroutines have ended
	closing  atomic.Bool
	closed   chan struct{}
	closeErr error // set before closed is closed

	// mu guards the following; it is never held over a request, a hook or a call
	// on a feed.
	mu     sync.Mutex
	owned  map[TopicPartition]*ownership // changed by the owner of member alone
	wanted map[TopicPartition]string     // what it should own, as of the last reading
	stats  GroupStats                    // the counters alone
}

// OpenGroup joins a consumer group: the consumer is in the registry when it
// returns, and partitions are claimed from then on; [Group.Settled] waits for them.
// ctx bounds only the opening. If the consumer's id is registered by another session
// it waits for three session time-outs for that to end, as it may be that of an
// earlier process.
func OpenGroup(ctx context.Context, cfg GroupConfig) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := consumerID(cfg.Group, cfg.ConsumerID)
	if err != nil {
		return nil, err
	}
	subscription, err := cfg.subscription()
	if err != nil {
		return nil, err
	}
	g := newGroup(cfg, id, subscription)
	if g.registry == nil {
		client, err := coord.Connect(ctx, cfg.ZooKeeper)
		if err != nil {
			g.endLife()
			return nil, fmt.Errorf("join group %s: %w", cfg.Group, err)
		}
		g.registry, g.ownsClient = registry.New(client), true
	}
	if err := g.enter(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("join group %s: %w", cfg.Group, err), g.Close(ctx))
	}
	return g, nil
}

// undoTimeout bounds what an OpenGroup that fails takes to undo what it has done.
const undoTimeout = 5 * time.Second

func newGroup(cfg GroupConfig, id string, subscription registry.Subscription) *Group {
	g := &Group{
		cfg: cfg, id: id, subscription: subscription, registry: cfg.Registry,
		memory:   newFetchMemory(cfg.FetchMemoryBytes),
		log:      cfg.Logger.With("group", cfg.Group, "consumer", id),
		streams:  make(map[string][]*GroupStream),
		triggers: newTriggers(),
		resets:   make(chan struct{}, 1),
		hooks:    make(chan struct{}, 1),
		metrics:  newGroupMetrics(),
		closed:   make(chan struct{}),
		owned:    make(map[TopicPartition]*ownership),
	}
	g.life, g.endLife = context.WithCancel(context.Background())
	if subscription.Wildcard() {
		g.streams[""] = g.newStreams(cfg.Streams)
	}
	for topic, n := range cfg.Topics {
		g.streams[topic] = g.newStreams(n)
	}
	return g
}

func (g *Group) newStreams(n int) []*GroupStream {
	streams := make([]*GroupStream, n)
	for i := range streams {
		streams[i] = newGroupStream(streamConfig{thread: threadID(g.id, i), logger: g.log})
	}
	return streams
}

// enter watches the registries, registers the consumer, and starts what runs until
// Close.
func (g *Group) enter(ctx context.Context) error {
	// Watches come first, so that nothing is missed that happens after the first
	// reading.
	if err := g.member.watch(ctx, g); err != nil {
		return err
	}
	if err := g.joinFirst(ctx); err != nil {
		return err
	}
	g.triggers.pull()
	g.start(g.runRebalances)
	g.start(g.runCommits)
	return nil
}

// start runs f in a goroutine that Close waits for.
func (g *Group) start(f func()) {
	done := make(chan struct{})
	g.workers = append(g.workers, done)
	go func() {
		defer close(done)
		f()
	}()
}

// ID returns the consumer's id in the registry, "<group>_…". Its streams are the
// threads "<id>-0", "<id>-1", … there.
func (g *Group) ID() string { return g.id }

// Streams returns the streams of a topic that was named in Topics, as many as were
// asked for; none of another topic.
func (g *Group) Streams(topic string) []*GroupStream {
	if g.subscription.Wildcard() {
		return nil
	}
	return g.streams[topic]
}

// FilterStreams returns the streams of a white or black list; none of a group that
// has named topics.
func (g *Group) FilterStreams() []*GroupStream { return g.streams[""] }

// stream returns the stream of a topic that a thread stands for.
func (g *Group) stream(topic, thread string) *GroupStream {
	streams := g.streams[topic]
	if g.subscription.Wildcard() {
		streams = g.streams[""]
	}
	for _, s := range streams {
		if s.cfg.thread == thread {
			return s
		}
	}
	return nil
}

// OwnedPartition is a partition that a consumer owns.
type OwnedPartition struct {
	TopicPartition
	Thread    string // that of the stream it is read by
	Consumed  int64  // offset behind what the application is done with; -1: not known yet
	Committed int64  // offset in ZooKeeper, as far as is known; -1: none
}

// Owned returns the partitions that this consumer owns, sorted by topic, broker and
// number. Those that it is about to give up are among them.
func (g *Group) Owned() []OwnedPartition {
	var owned []OwnedPartition
	for _, o := range g.ownerships() {
		owned = append(owned, OwnedPartition{
			TopicPartition: o.TopicPartition,
			Thread:         o.claim.Thread,
			Consumed:       g.consumed(o),
			Committed:      o.committed.Load(),
		})
	}
	return owned
}

// Seek lets the stream of a partition that this consumer owns go on at an offset,
// 0 or more, of a message: to consume again from there (NetDB'11 §3.1), or beyond
// damage. What has been fetched and not been handed out is dropped. The offset is
// committed as others are.
func (g *Group) Seek(topic string, p registry.Partition, offset int64) error {
	tp := TopicPartition{Topic: topic, Partition: p}
	if offset < 0 {
		return fmt.Errorf("group %s: seek %v to offset %d: give one from 0 on", g.cfg.Group, tp, offset)
	}
	f, err := g.feedToChange("seek", tp)
	if err == nil {
		f.seek(offset)
	}
	return err
}

// feedToChange returns the feed of a partition, of which the application wants what is
// named. The error is [registry.ErrNotOwner] where this consumer does not own
// the partition, is giving it up, or does not read it yet.
func (g *Group) feedToChange(what string, tp TopicPartition) (*feed, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owned[tp]; o != nil && !o.leaving && o.feed != nil {
		return o.feed, nil
	}
	return nil, fmt.Errorf("group %s: %s %v: %w", g.cfg.Group, what, tp, registry.ErrNotOwner)
}

// Settled waits until a rebalance has succeeded since the last change that this
// consumer has heard of: all that it should own is its own then.
func (g *Group) Settled(ctx context.Context) error {
	for {
		calm := g.triggers.calm()
		select {
		case <-calm:
			return nil
		case <-g.life.Done():
			return fmt.Errorf("group %s: %w", g.cfg.Group, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("group %s: %d partitions that consumer %s should own are not: %w", g.cfg.Group, g.Stats().Unowned, g.id, ctx.Err())
		}
	}
}
