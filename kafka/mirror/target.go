package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/wire"
)

// target follows the registries of the cluster that is copied into. What it was told
// last holds while its ZooKeeper is away, so a lane asks nobody to find its way.
type target struct {
	cfg      *Config
	log      *slog.Logger
	client   *coord.Client
	registry *registry.Registry
	watch    *registry.Watch // of the brokers

	creating chan struct{} // holds a token while a topic is made

	mu      sync.Mutex
	brokers map[int32]string // last known addresses, by id
	live    map[int32]bool   // those that are registered
	topics  map[string]*topicRoute
	changed chan struct{} // closed, and made anew, when something of the above changes
	closed  bool
}

// topicRoute is what is known of a topic.
type topicRoute struct {
	known bool
	at    map[int32]holding // by broker id
	// fresh is set for a topic that was seen to come: until then more brokers may have it,
	// and each of them changes which partition is whose.
	fresh time.Time
	had   bool // some broker has had it
	watch *registry.Watch
}

// settleTime is how long a topic that was seen to come is waited for to be at all brokers,
// after the last one. It is made at one after the other, by whoever makes it.
const settleTime = 400 * time.Millisecond

// holding is how many partitions a broker has.
type holding struct {
	partitions int32
	gone       time.Time // since when the registry does not have it any more; zero: it has
}

// place is a partition at the target.
type place struct {
	broker    int32
	addr      string
	partition int32
}

func (p place) String() string {
	if p.addr == "" {
		return "nowhere yet"
	}
	return fmt.Sprintf("%d-%d at %s", p.broker, p.partition, p.addr)
}

var (
	// errNoTopic says that a topic has to be made.
	errNoTopic = errors.New("the target does not have the topic yet")
	// errNotYet says that a place will be known in a moment.
	errNotYet = errors.New("the partitions of the topic at the target are not known yet")
)

func openTarget(ctx context.Context, cfg *Config) (*target, error) {
	client, err := coord.Connect(ctx, cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("target cluster %s: %w", cfg.Target.Servers, err)
	}
	t := &target{
		cfg: cfg, log: cfg.Logger, client: client, registry: registry.New(client),
		creating: make(chan struct{}, 1),
		brokers:  map[int32]string{}, live: map[int32]bool{}, topics: map[string]*topicRoute{}, changed: make(chan struct{}),
	}
	t.watch = t.registry.WatchBrokers(t.brokersFound)
	return t, nil
}

// close ends the watches and the session. It is called when no lane is left.
func (t *target) close() error {
	t.mu.Lock()
	t.closed = true
	watches := []*registry.Watch{t.watch}
	for _, r := range t.topics {
		watches = append(watches, r.watch)
	}
	t.mu.Unlock()
	for _, w := range watches { // without mu, which their functions wait for
		w.Close()
	}
	if err := t.client.Close(); err != nil {
		return fmt.Errorf("target cluster %s: %w", t.cfg.Target.Servers, err)
	}
	return nil
}

// changes returns a channel that is closed with the next change of a route.
func (t *target) changes() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// broadcast tells of a change. mu is held.
func (t *target) broadcast() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *target) brokersFound(brokers []registry.Broker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.live)
	for _, b := range brokers {
		t.brokers[b.ID], t.live[b.ID] = b.Addr(), true
	}
	t.broadcast()
}

func (t *target) partitionsFound(r *topicRoute, counts map[int32]int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for id, h := range r.at {
		if _, there := counts[id]; !there && h.gone.IsZero() {
			h.gone = now
			r.at[id] = h
		}
	}
	more := false
	for id, n := range counts {
		_, had := r.at[id]
		more = more || !had
		r.at[id] = holding{partitions: n}
	}
	if more && r.known && (!r.had || now.Before(r.fresh)) {
		r.fresh = now.Add(settleTime)
	}
	r.known, r.had = true, r.had || len(counts) > 0
	t.broadcast()
}

// follow begins to watch a topic, if nobody has.
func (t *target) follow(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.topics[topic] != nil || t.closed {
		return
	}
	r := &topicRoute{at: map[int32]holding{}}
	t.topics[topic] = r
	r.watch = t.registry.WatchTopic(topic, func(counts map[int32]int32) { t.partitionsFound(r, counts) })
}

// place returns where the messages of a source partition go, whose key is given. The
// error says what has to come first: errNoTopic that the topic is to be made, others
// that it is to be waited for.
func (t *target) place(topic string, key int64) (place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.topics[topic]
	if r == nil || !r.known || time.Now().Before(r.fresh) {
		return place{}, errNotYet
	}
	total := int64(0)
	for id, h := range r.at {
		if !h.gone.IsZero() && time.Since(h.gone) > t.cfg.TargetWait {
			delete(r.at, id)
			continue
		}
		total += int64(h.partitions)
	}
	if total == 0 {
		return place{}, errNoTopic
	}
	return t.indexed(r, key%total)
}

// indexed returns the partition with an index among those of a topic. mu is held.
func (t *target) indexed(r *topicRoute, index int64) (place, error) {
	for _, id := range slices.Sorted(maps.Keys(r.at)) {
		n := int64(r.at[id].partitions)
		if index >= n {
			index -= n
			continue
		}
		// One that is not registered at present may only have lost ZooKeeper, and serve.
		addr := t.brokers[id]
		if addr == "" {
			return place{}, fmt.Errorf("broker %d of the target, which has partition %d, has not been registered", id, index)
		}
		return place{broker: id, addr: addr, partition: int32(index)}, nil
	}
	return place{}, errNoTopic // not reached: the index is below their number
}

// create makes a topic at all brokers of the target that are registered, with so many
// partitions in all, or a few more so that each has as many. One that has it already
// keeps what it has. It succeeds if one of them has the topic then.
func (t *target) create(ctx context.Context, topic string, partitions int32) error {
	select {
	case t.creating <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.creating }()
	if _, err := t.place(topic, 0); !errors.Is(err, errNoTopic) {
		return nil // somebody else has made it meanwhile
	}
	brokers := t.liveBrokers()
	if len(brokers) == 0 {
		return fmt.Errorf("make topic %q: no broker of the target is registered", topic)
	}
	each := (partitions + int32(len(brokers)) - 1) / int32(len(brokers))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(brokers)) {
		if err := t.createAt(ctx, brokers[id], topic, each); err != nil {
			errs = append(errs, fmt.Errorf("make topic %q with %d partitions at broker %d of the target: %w", topic, each, id, err))
		}
	}
	if len(errs) == len(brokers) {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		t.log.Warn("topic is not at all brokers of the target", "topic", topic, "error", err)
	}
	t.log.Info("topic made at the target", "topic", topic, "brokers", len(brokers)-len(errs), "partitions_each", each)
	return nil
}

// liveBrokers returns the addresses of the brokers that are registered, by id.
func (t *target) liveBrokers() map[int32]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	brokers := maps.Clone(t.brokers)
	maps.DeleteFunc(brokers, func(id int32, _ string) bool { return !t.live[id] })
	return brokers
}

func (t *target) createAt(ctx context.Context, addr, topic string, partitions int32) error {
	conn, err := client.Dial(ctx, addr, t.clientConfig())
	if err != nil {
		return err
	}
	err = conn.CreateTopic(ctx, topic, partitions)
	if errors.Is(err, wire.CodeTopicExists) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

func (t *target) clientConfig() client.Config {
	return client.Config{DialTimeout: t.cfg.DialTimeout, RequestTimeout: t.cfg.RequestTimeout}
}
