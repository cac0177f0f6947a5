package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// ClusterConfig describes a producer for several brokers. The brokers come from
// exactly one of Registry, ZooKeeper and StaticBrokers.
type ClusterConfig struct {
	// Config is that of the producer of each broker, so its bounds hold for each.
	// Brokers must be empty.
	Config

	// Registry tells which brokers live and what partitions they have. It, and its
	// client, are the caller's, and must outlive the cluster.
	Registry *registry.Registry
	// ZooKeeper is where the registries are. The session is the cluster's own.
	ZooKeeper coord.Config

	// StaticBrokers are addresses, host and port, for use without ZooKeeper (Kafka
	// 0.7's broker.list). A broker is picked at random for each Send, keys are
	// ignored, and the broker picks the partition; with acks, for which a partition
	// must be named, the brokers are asked what they have. Each address may be that
	// of a load balancer (NetDB'11 §4): so ReconnectInterval, if it is 0, is
	// [DefaultReconnectInterval]; less than 0 is never. With acks the brokers
	// behind one address should have equally many partitions of a topic.
	StaticBrokers []string

	// Partitioner chooses the partition of a message with a key. Default:
	// [HashPartitioner]. It cannot be used with StaticBrokers.
	Partitioner Partitioner
}

func (c ClusterConfig) withDefaults() (ClusterConfig, error) {
	sources := 0
	for _, given := range [...]bool{c.Registry != nil, c.ZooKeeper.Servers != "", len(c.StaticBrokers) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case len(c.Brokers) > 0:
		return c, errors.New("producer: a cluster finds its brokers: leave Brokers empty, and name them in StaticBrokers or not at all")
	case sources != 1:
		return c, fmt.Errorf("producer: %d of Registry, ZooKeeper and StaticBrokers are given: give one", sources)
	case len(c.StaticBrokers) > 0 && c.Partitioner != nil:
		return c, errors.New("producer: a static list of brokers says nothing of partitions, so a Partitioner cannot be used: let it be nil, or use ZooKeeper")
	}
	for i, addr := range c.StaticBrokers {
		if slices.Contains(c.StaticBrokers[:i], addr) {
			return c, fmt.Errorf("producer: broker %s is listed twice", addr)
		}
	}
	if len(c.StaticBrokers) > 0 {
		setDefault(&c.ReconnectInterval, DefaultReconnectInterval)
	}
	if c.Partitioner == nil {
		c.Partitioner = HashPartitioner{}
	}
	var err error
	c.Config, err = c.Config.withLimits()
	return c, err
}

// Cluster publishes messages to the partitions that several brokers have (NetDB'11
// §3.2). Its methods may be called by several goroutines at once.
//
// It has one [Producer], so one connection, for each broker that is registered and
// has been sent to. What each is promised of its messages holds for the cluster:
// no message is sent twice, and none is lost without being counted.
//
// # Failover
//
// A broker whose connection cannot be made gets no more messages until it can,
// except those whose key has chosen one of its partitions. What waited for it goes
// to other brokers that have the topic. When the registry says that a broker has
// gone, its messages with keys go on as well, to the partitions that are then
// chosen for them; new ones with keys for the topic wait until they are there, so
// that messages with the same key reach the new partition in their order. What
// was written to the broker that has gone, and is not confirmed within
// DialTimeout, is reported by a [*NotSentError], and so is the one request whose
// writing was cut.
//
// # What is bounded
//
// Each broker has the buffers of its producer, see [Config.MaxBufferBytes]. While
// messages of four buffers are on their way from brokers that have gone, no
// producers are made for further brokers. A watch of the registry is kept for
// each topic that was sent to.
type Cluster struct {
	cfg    ClusterConfig
	ctx    context.Context // of the background work: ends in Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	dir           directory
	keyed         bool // keys choose partitions, and their order is kept
	brokersChoose bool // partitions are not known: -1 stands for them

	// topics are those whose partitions are known. The map is not changed once it
	// is published.
	topics atomic.Pointer[map[string]*topicRoute]
	// events has a token when a broker has become reachable or unreachable.
	events chan struct{}

	closing   atomic.Bool
	closeOnce sync.Once
	closeErr  error

	// Of messages that no producer counts.
	refused, dropped atomic.Int64
	// roomWaiters counts those who wait for room at any broker.
	roomWaiters atomic.Int64

	mu        sync.Mutex // guards all up to the blank line; taken before that of a producer
	closed    bool       // no producer is made any more
	members   map[int32]*member
	gone      map[int32]bool         // brokers that were registered and are no more
	asked     map[string]*topicRoute // all topics that were sent to, known or not yet
	retiring  map[*Producer]bool     // of brokers that have gone
	ended     tally                  // of producers that are no more
	lost      int64                  // messages that were moved and found no place
	moves     int64                  // how often messages were taken back
	parcels   [2][]parcel            // those without keys and those with, on their way
	moveBytes int64                  // of them
	wakeMover [2]chan struct{}

	lossMu  sync.Mutex // guards loss; nothing is locked under it
	loss    loss
	hasLoss atomic.Bool

	waitMu  sync.Mutex // guards changed; nothing is locked under it
	changed chan struct{}
}

// directory is where a cluster learns of brokers and partitions.
type directory interface {
	// open returns when the brokers are known.
	open(ctx context.Context) error
	// follow begins to tell the partitions of a topic. The cluster's mu is held: it
	// must not wait.
	follow(t *topicRoute)
	// lookAgain looks for a broker that has partitions of a topic and is not known,
	// for the n-th time, and returns when it is worth choosing again.
	lookAgain(ctx context.Context, t *topicRoute, broker int32, n int) error
	// lookSoon says that what it has told was wrong.
	lookSoon()
	// close ends the telling.
	close() error
}

// OpenCluster returns a producer for several brokers, which must be closed. It
// waits, within ctx, for ZooKeeper to tell which brokers there are, possibly none
// yet; or until one broker of the static list is connected.
func OpenCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	_, random := cfg.Partitioner.(RandomPartitioner)
	c := &Cluster{
		cfg:           cfg,
		keyed:         len(cfg.StaticBrokers) == 0 && !random,
		brokersChoose: len(cfg.StaticBrokers) > 0 && cfg.Acks == AcksNone,
		events:        make(chan struct{}, 1),
		members:       map[int32]*member{},
		gone:          map[int32]bool{},
		asked:         map[string]*topicRoute{},
		retiring:      map[*Producer]bool{},
		changed:       make(chan struct{}),
	}
	c.topics.Store(&map[string]*topicRoute{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if len(cfg.StaticBrokers) > 0 {
		c.dir = newStaticDirectory(c)
	} else {
		c.dir = &registryDirectory{cluster: c, registry: cfg.Registry}
	}
	c.wg.Go(c.keep)
	for kind := range c.wakeMover {
		c.wakeMover[kind] = make(chan struct{}, 1)
		c.wg.Go(func() { c.move(kind) })
	}
	if err := c.dir.open(ctx); err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel() // nothing was sent, so there is nothing to wait for
		return nil, errors.Join(fmt.Errorf("producer: %w", err), c.Close(ended))
	}
	return c, nil
}

// report notes that messages were lost. It is called with the mu of a producer held.
func (c *Cluster) report(n count, unconfirmed bool, err error) {
	c.lossMu.Lock()
	defer c.lossMu.Unlock()
	c.loss.note(n, unconfirmed, err)
	c.hasLoss.Store(true)
}

// takeLoss returns what has not been reported yet, or nil.
func (c *Cluster) takeLoss() error {
	if !c.hasLoss.Load() {
		return nil
	}
	c.lossMu.Lock()
	defer c.lossMu.Unlock()
	c.hasLoss.Store(false)
	return c.loss.take()
}

// lookSoon says that a broker does not have the partitions that it should.
func (c *Cluster) lookSoon() { c.dir.lookSoon() }
