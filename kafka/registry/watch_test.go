package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// seen keeps what a watch told last.
type seen struct {
	mu    sync.Mutex
	last  string
	calls int
	busy  bool
	twice bool // it was called concurrently with itself
}

func (s *seen) tell(state any) {
	s.mu.Lock()
	s.twice = s.twice || s.busy
	s.busy = true
	s.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.busy = fmt.Sprint(state), false
	s.calls++
}

func (s *seen) is(want string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last == want
}

func (s *seen) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(patience); !s.is(want); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("the watch has told %s, want %s", s.last, want)
		}
	}
}

func ready(t *testing.T, w *registry.Watch) {
	t.Helper()
	must(t, w.Ready(limited(t)))
}

func TestWatchBrokers(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		watcher, one, two := join(t, c), join(t, c), join(t, c)
		var all, single seen
		w := watcher.WatchBrokers(func(b []registry.Broker) { all.tell(b) })
		defer w.Close()
		s := watcher.WatchBroker(2, func(b registry.Broker, ok bool) { single.tell(fmt.Sprintf("%s %v", b.Addr(), ok)) })
		defer s.Close()
		ready(t, w)
		ready(t, s)
		if !all.is("[]") || !single.is(":0 false") {
			t.Errorf("at first %s and %s", all.last, single.last)
		}
		must(t, one.RegisterBroker(ctx, one.session, host(10, "c"), nil))
		must(t, two.RegisterBroker(ctx, two.session, host(2, "c"), nil))
		all.await(t, "[c:h2:9092 c:h10:9092]")
		single.await(t, "h2:9092 true")
		// Nodes that make no sense are left out.
		one.put(t, "/brokers/ids/x", "c:h:1")
		one.put(t, "/brokers/ids/5", "c")
		// A broker at another address, under a name that was there all the time.
		must(t, two.RegisterBroker(ctx, two.session, registry.Broker{ID: 2, Creator: "d", Host: "moved", Port: 1}, nil))
		all.await(t, "[d:moved:1 c:h10:9092]")
		single.await(t, "moved:1 true")
		two.put(t, "/brokers/ids/2", "e:set:2")
		all.await(t, "[e:set:2 c:h10:9092]")
		one.close(t)
		all.await(t, "[e:set:2]")
		two.close(t)
		all.await(t, "[]")
		single.await(t, ":0 false")
		if all.twice || single.twice {
			t.Error("called concurrently with itself")
		}
	})
}

func TestWatchTopic(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		watcher, one, two := join(t, c), join(t, c), join(t, c)
		var topics, topic seen
		w := watcher.WatchTopics(func(names []string) { topics.tell(names) })
		defer w.Close()
		v := watcher.WatchTopic("t", func(counts map[int32]int32) { topic.tell(counts) })
		defer v.Close()
		ready(t, w)
		ready(t, v)
		if !topics.is("[]") || !topic.is("map[]") {
			t.Errorf("at first %s and %s", topics.last, topic.last)
		}
		must(t, one.RegisterTopic(ctx, one.session, "t", 1, 2))
		must(t, two.RegisterTopic(ctx, two.session, "t", 2, 3))
		must(t, two.RegisterTopic(ctx, two.session, "a", 2, 3))
		topics.await(t, "[a t]")
		topic.await(t, "map[1:2 2:3]")
		must(t, two.RegisterTopic(ctx, two.session, "t", 2, 5))
		topic.await(t, "map[1:2 2:5]")
		one.close(t)
		topic.await(t, "map[2:5]")
		must(t, two.UnregisterTopic(ctx, "t", 2))
		topic.await(t, "map[]")
		topics.await(t, "[a]")
		must(t, two.RegisterTopic(ctx, two.session, "t", 2, 1))
		topic.await(t, "map[2:1]")
		topics.await(t, "[a t]")
	})
}

// Watches go on over lost connections and ended sessions.
func TestWatchesGoOn(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		watcher, one := join(t, c), join(t, c)
		var brokers, consumers seen
		w := watcher.WatchBrokers(func(b []registry.Broker) { brokers.tell(b) })
		defer w.Close()
		v := watcher.WatchConsumers("g", func(ids []string) { consumers.tell(ids) })
		defer v.Close()
		ready(t, w)
		ready(t, v)
		s, err := registry.Static(map[string]int{"t": 1})
		must(t, err)
		watcher.line.Cut()
		must(t, one.RegisterBroker(ctx, one.session, host(1, "c"), nil))
		must(t, one.RegisterConsumer(ctx, one.session, "g", "g_1", s))
		watcher.line.Mend()
		brokers.await(t, "[c:h1:9092]")
		consumers.await(t, "[g_1]")
		watcher.line.Cut()
		must(t, c.Expire(watcher.session.ID()))
		must(t, one.RegisterBroker(ctx, one.session, host(1, "d"), nil))
		must(t, one.RegisterConsumer(ctx, one.session, "g", "g_2", s))
		watcher.line.Mend()
		brokers.await(t, "[d:h1:9092]")
		consumers.await(t, "[g_1 g_2]")
		one.close(t)
		brokers.await(t, "[]")
		consumers.await(t, "[]")
	})
}

// A closed watch tells nothing more, and one that cannot become ready says so.
func TestWatchClosed(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		watcher, one := join(t, c), join(t, c)
		var brokers seen
		w := watcher.WatchBrokers(func(b []registry.Broker) { brokers.tell(b) })
		ready(t, w)
		w.Close()
		w.Close()
		must(t, one.RegisterBroker(ctx, one.session, host(1, "c"), nil))
		one.close(t)
		if brokers.calls != 1 {
			t.Errorf("told %d times", brokers.calls)
		}
		watcher.line.Cut()
		stuck := watcher.WatchTopic("t", func(map[int32]int32) {})
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := stuck.Ready(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("not ready: %v", err)
		}
		stuck.Close()
		if err := stuck.Ready(ctx); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		watcher.line.Mend()
		eventually(t, "a connection", func() bool { return watcher.session.OutOfTouch() == 0 })
		watcher.close(t)
		late := watcher.WatchBrokers(func([]registry.Broker) {})
		if err := late.Ready(ctx); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("of a closed client: %v", err)
		}
		late.Close()
	})
}
