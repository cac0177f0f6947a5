package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// consumerID returns the id of a consumer in the registry, as Kafka 0.7 makes it.
func consumerID(group, given string) (string, error) {
	if err := registry.CheckGroup(group); err != nil {
		return "", fmt.Errorf("consumer: %w", err)
	}
	if given != "" {
		return registry.ConsumerID(group, given), nil
	}
	return registry.NewConsumerID(group, time.Now())
}

// threadID returns the id of a consumer's nth stream.
func threadID(consumer string, n int) string { return registry.ThreadID(consumer, n) }

// member is what a consumer has in ZooKeeper beside its partitions. It belongs to
// the goroutine that rebalances, and after that to Close.
type member struct {
	session   *coord.Session // the one it is registered in; nil: in none
	entered   *coord.Session // the one it is, or may be, registered in
	stopLease func()         // ends the proving of that session; nil: it is not proven
	unfollow  func() bool    // stops listening for its end

	sessions func()                     // ends the listening for new sessions
	standing []*registry.Watch          // on consumers, brokers and, for a list, topics
	topics   map[string]*registry.Watch // on the brokers of each topic subscribed to

	// doubtful are claims that may have nodes though the making has failed. They
	// must not stay: nobody else could own the partitions.
	doubtful map[TopicPartition]registry.Claim
}

// watch watches all that a rebalance depends on (NetDB'11 §3.2: consumers watch the
// broker and the consumer registry): the group's consumers, the brokers with their
// addresses, which topics there are for a list, and sessions. The brokers of topics
// that are named follow in watchTopics.
func (m *member) watch(ctx context.Context, g *Group) error {
	m.topics = make(map[string]*registry.Watch)
	m.doubtful = make(map[TopicPartition]registry.Claim)
	consumers, brokers := g.afterFirst(), g.afterFirst()
	m.standing = append(m.standing, g.registry.WatchConsumers(g.cfg.Group, func([]string) { consumers() }))
	m.standing = append(m.standing, g.registry.WatchBrokers(func([]registry.Broker) { brokers() }))
	if g.subscription.Wildcard() {
		pull := g.afterFirst()
		m.standing = append(m.standing, g.registry.WatchTopics(func([]string) { pull() }))
	}
	for _, w := range m.standing {
		if err := w.Ready(ctx); err != nil {
			return fmt.Errorf("watch the registries: %w", err)
		}
	}
	m.sessions = g.registry.Client().OnSession(func(*coord.Session) { g.triggers.pull() })
	return m.watchTopics(ctx, g, g.subscription.Topics())
}

// watchTopics makes the watches on the brokers of topics those of a list of topics.
// When it returns nil, what is read afterwards is watched.
func (m *member) watchTopics(ctx context.Context, g *Group, topics []string) error {
	for topic, w := range m.topics {
		if !slices.Contains(topics, topic) {
			w.Close()
			delete(m.topics, topic)
		}
	}
	for _, topic := range topics {
		if m.topics[topic] == nil {
			pull := g.afterFirst()
			m.topics[topic] = g.registry.WatchTopic(topic, func(map[int32]int32) { pull() })
		}
	}
	for topic, w := range m.topics {
		if err := w.Ready(ctx); err != nil {
			return fmt.Errorf("watch topic %s: %w", topic, err)
		}
	}
	return nil
}

func (m *member) unwatch() {
	if m.sessions != nil {
		m.sessions()
	}
	for _, w := range m.standing {
		w.Close()
	}
	for _, w := range m.topics {
		w.Close()
	}
}

// afterFirst returns a function that triggers a rebalance when it is called, but for
// the first time: a watch tells first what is there, and that is read after it has
// been waited for.
func (g *Group) afterFirst() func() {
	first := true // a watch calls from one goroutine
	return func() {
		if !first {
			g.triggers.pull()
		}
		first = false
	}
}

// join returns the live session, in which the consumer is registered, and waits for
// one. Claims of an earlier session are void then, and forgotten.
func (g *Group) join(ctx context.Context) (*coord.Session, error) {
	m := &g.member
	if m.session != nil && m.session.Context().Err() != nil {
		g.leaveSession(ctx)
	}
	s, err := g.registry.Client().Session(ctx)
	if err != nil {
		return nil, fmt.Errorf("session with ZooKeeper: %w", err)
	}
	if m.session != nil && m.session.ID() == s.ID() {
		return s, nil
	}
	g.leaveSession(ctx)
	m.entered = s
	if err := g.registry.RegisterConsumer(ctx, s, g.cfg.Group, g.id, g.subscription); err != nil {
		if errors.Is(err, coord.ErrExists) {
			m.entered = nil // the node is another's
		}
		return nil, err
	}
	m.session = s
	m.unfollow = context.AfterFunc(s.Context(), g.triggers.pull)
	g.count(func(st *GroupStats) { st.Sessions++ })
	g.log.Info("registered", "session", fmt.Sprintf("%#x", s.ID()), "subscription", g.subscription.Text())
	return s, nil
}

// leaveSession forgets what was made in a session that has ended.
func (g *Group) leaveSession(ctx context.Context) {
	m := &g.member
	if m.session == nil {
		return
	}
	g.log.Warn("session with ZooKeeper has ended", "session", fmt.Sprintf("%#x", m.session.ID()), "partitions", len(g.ownerships()))
	m.resign()
	clear(m.doubtful)
	g.forget(ctx, g.ownerships())
}

// resign ends all that goes on for the session.
func (m *member) resign() {
	m.dropLease()
	if m.unfollow != nil {
		m.unfollow()
	}
	m.session, m.entered, m.unfollow = nil, nil, nil
}

// keepLease has the session proven from time to time, for as long as partitions are
// owned: their streams ask.
func (m *member) keepLease(s *coord.Session) {
	if m.stopLease == nil {
		m.stopLease = s.KeepLease()
	}
}

func (m *member) dropLease() {
	if m.stopLease != nil {
		m.stopLease()
		m.stopLease = nil
	}
}

// Bounds of the wait for the end of another session that has the consumer's id.
const (
	staleSessions = 3 // time-outs: the other session may have had another one
	stalePause    = 100 * time.Millisecond
)

// joinFirst joins, and waits for the node of an earlier process with the same id to
// vanish.
func (g *Group) joinFirst(ctx context.Context) error {
	var limit time.Time
	for {
		_, err := g.join(ctx)
		if err == nil {
			return nil
		}
		var conflict *coord.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		if limit.IsZero() {
			s, err := g.registry.Client().Session(ctx)
			if err != nil {
				return err
			}
			limit = time.Now().Add(staleSessions * s.Timeout())
		}
		if time.Now().After(limit) || !sleep(ctx, stalePause) {
			return fmt.Errorf("another consumer has this id; give this one another, or wait until the session of an earlier one has ended: %w", err)
		}
	}
}

// sleep waits for d and reports whether ctx has not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// triggers gather the reasons for a rebalance, so that a burst of them makes one.
type triggers struct {
	wake chan struct{} // holds a token while there is one that is not taken

	mu     sync.Mutex
	pulled int64         // how many there have been; guarded by mu
	since  time.Time     // of the first since the last success; guarded by mu
	quiet  chan struct{} // closed while there is none since the last success; guarded by mu
}

func newTriggers() *triggers {
	return &triggers{wake: make(chan struct{}, 1), quiet: make(chan struct{}), since: time.Now()}
}

// pull asks for a rebalance.
func (t *triggers) pull() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pulled++
	select {
	case <-t.quiet:
		t.quiet, t.since = make(chan struct{}), time.Now()
	default:
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns how many triggers there have been: what is read from now on covers
// them.
func (t *triggers) take() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.wake:
	default:
	}
	return t.pulled
}

// overtaken says whether there was a trigger since take.
func (t *triggers) overtaken(taken int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pulled != taken
}

// settle says that a rebalance has succeeded that covers all triggers up to taken.
// It returns how long that took since the first, and whether there was none since.
func (t *triggers) settle(taken int64) (took time.Duration, settled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pulled != taken {
		return 0, false
	}
	select {
	case <-t.quiet:
	default:
		close(t.quiet)
	}
	return time.Since(t.since), true
}

// calm returns a channel that is closed while there is nothing to be done.
func (t *triggers) calm() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.quiet
}
