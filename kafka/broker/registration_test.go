package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// observer sees what is registered in ZooKeeper, on a line of its own.
type observer struct {
	*registry.Registry
	t *testing.T
}

func observe(t *testing.T, c *zktest.Cluster) observer {
	t.Helper()
	client, err := coord.Connect(t.Context(), coord.Config{Servers: c.NewLine().Connect(), SessionTimeout: 30 * time.Second, ConnectTimeout: patience, RequestTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return observer{registry.New(client), t}
}

// broker returns the node of a broker and the session that it belongs to, 0 if it
// is not there.
func (o observer) broker(id int32) (value string, session int64) {
	o.t.Helper()
	data, stat, err := o.Client().Get(o.t.Context(), "/brokers/ids/"+strconv.Itoa(int(id)))
	if errors.Is(err, coord.ErrNoNode) {
		return "", 0
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return string(data), stat.EphemeralOwner
}

// topics returns how many partitions of each topic a broker has registered.
func (o observer) topics(id int32) map[string]int32 {
	o.t.Helper()
	names, err := o.Topics(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	topics := map[string]int32{}
	for _, name := range names {
		counts, err := o.TopicBrokers(o.t.Context(), name)
		if err != nil {
			o.t.Fatal(err)
		}
		if n, ok := counts[id]; ok {
			topics[name] = n
		}
	}
	return topics
}

func (o observer) awaitTopics(id int32, want string) {
	o.t.Helper()
	eventually(o.t, "topics "+want, func() bool { return fmt.Sprint(o.topics(id)) == want })
}

// awaitOther waits until a broker has registered in another session.
func (o observer) awaitOther(id int32, session int64) (now int64) {
	o.t.Helper()
	eventually(o.t, "another registration", func() bool {
		_, now = o.broker(id)
		return now != 0 && now != session
	})
	return now
}

func withTimeout(d time.Duration) kafkatest.Option {
	return func(c *broker.Config) { c.ZooKeeper.SessionTimeout = d }
}

func withDir(dir string) kafkatest.Option { return func(c *broker.Config) { c.LogDir = dir } }

// works produces and fetches.
func works(t *testing.T, b *kafkatest.Broker, topic string) {
	t.Helper()
	p := dial(t, b)
	defer p.Close()
	before := len(logOf(t, b, topic, 0))
	p.send(produce(topic, 0, entryP))
	p.barrier()
	if got := logOf(t, b, topic, 0); len(got) != before+len(entryP) || !bytes.HasSuffix(got, entryP) {
		t.Fatalf("%d bytes, were %d", len(got), before)
	}
}

func create(t *testing.T, b *kafkatest.Broker, topic string, partitions int32) {
	t.Helper()
	p := dial(t, b)
	defer p.Close()
	p.send(wire.AppendCreateTopic(nil, topic, partitions))
	p.want(wire.CodeNone, nil)
}

func remove(t *testing.T, b *kafkatest.Broker, topic string) {
	t.Helper()
	p := dial(t, b)
	defer p.Close()
	p.send(wire.AppendDeleteTopic(nil, topic))
	p.want(wire.CodeNone, nil)
}

// TestRegistration: the id is there once the broker serves, topics as they come
// into being, with the number of partitions that is theirs, and again after a
// restart; all are gone at once when it stops.
func TestRegistration(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(7), kafkatest.WithZooKeeper(c.Connect()), withMetrics, func(c *broker.Config) {
			c.Storage.DefaultPartitions = 3
			c.Storage.Topics = map[string]storage.TopicConfig{"own": {Partitions: 8}}
		})
		value, session := o.broker(7)
		addr := b.Addr().(*net.TCPAddr)
		creator, rest, _ := strings.Cut(value, ":")
		ms, err := strconv.ParseInt(strings.TrimPrefix(creator, "127.0.0.1-"), 10, 64)
		if rest != fmt.Sprintf("127.0.0.1:%d", addr.Port) || err != nil || time.Since(time.UnixMilli(ms)).Abs() > time.Hour {
			t.Errorf("registered as %q", value)
		}
		create(t, b, "created", 5)
		works(t, b, "produced")
		works(t, b, "own")
		const topics = "map[created:5 own:8 produced:3]"
		o.awaitTopics(7, topics)
		eventually(t, "metrics", func() bool { return metric(t, b, "kafka_broker_registered_topics") == 3 })
		for name, want := range map[string]float64{
			"registered": 1, "registration_failures_total": 0, "zookeeper_sessions_total": 1, "zookeeper_expiries_total": 0, "zookeeper_connects_total": 1,
		} {
			if got := metric(t, b, "kafka_broker_"+name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		b.Stop()
		if value, _ := o.broker(7); value != "" {
			t.Errorf("after the stop there is %q", value)
		}
		if got := o.topics(7); len(got) != 0 {
			t.Errorf("after the stop there are %v", got)
		}
		b.Restart()
		if now, again := o.broker(7); now == value || now == "" || again == session {
			t.Errorf("registered as %q, before as %q", now, value)
		}
		o.awaitTopics(7, topics)
	})
}

// TestDeletedTopicIsUnregistered: a topic that is deleted goes from the registry,
// with what groups have stored of it; one that is made again under the name comes
// with its own number of partitions and no offsets.
func TestDeletedTopicIsUnregistered(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()))
		p := registry.Partition{Broker: 1}
		create(t, b, "t", 2)
		create(t, b, "stays", 2)
		o.awaitTopics(1, "map[stays:2 t:2]")
		for _, topic := range []string{"t", "stays"} {
			if err := o.SetOffset(t.Context(), "g", topic, p, 100); err != nil {
				t.Fatal(err)
			}
		}
		remove(t, b, "t")
		create(t, b, "t", 4) // before anybody may have noticed
		o.awaitTopics(1, "map[stays:2 t:4]")
		eventually(t, "the end of the offset", func() bool {
			_, _, ok, err := o.Offset(t.Context(), "g", "t", p)
			return err == nil && !ok
		})
		if offset, _, ok, err := o.Offset(t.Context(), "g", "stays", p); offset != 100 || !ok || err != nil {
			t.Errorf("offset of the other topic: %d, %v, %v", offset, ok, err)
		}
		remove(t, b, "t")
		eventually(t, "the end of the topic", func() bool {
			topics, err := o.Topics(t.Context())
			return err == nil && fmt.Sprint(topics) == "[stays]"
		})
	})
}

// TestB14KilledAndStartedAtOnce: a broker that was killed leaves a session behind.
// Started again at once it takes its node over, and it stays registered when that
// session ends.
func TestB14KilledAndStartedAtOnce(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		line := c.NewLine()
		old := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(line.Connect()), withTimeout(30*time.Second))
		create(t, old, "t", 2)
		o.awaitTopics(1, "map[t:2]")
		before, session := o.broker(1)
		line.Cut() // what it does from now on nobody hears of
		old.MayStopBadly = true
		old.Stop()
		if value, _ := o.broker(1); value != before {
			t.Fatalf("the session has ended: %q", value)
		}

		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withDir(old.Config.LogDir))
		now := o.awaitOther(1, session)
		after, _ := o.broker(1)
		if after == before || !strings.HasSuffix(after, strconv.Itoa(b.Addr().(*net.TCPAddr).Port)) {
			t.Errorf("registered as %q, before as %q", after, before)
		}
		o.awaitTopics(1, "map[t:2]")
		if err := c.Expire(session); err != nil {
			t.Fatal(err)
		}
		if value, session := o.broker(1); value != after || session != now {
			t.Errorf("after the end of the old session: %q, want %q", value, after)
		}
		if got := fmt.Sprint(o.topics(1)); got != "map[t:2]" {
			t.Errorf("after the end of the old session: topics %s", got)
		}
	})
}

// TestB14SameIDElsewhere: a second broker with the id refuses to start, names the
// holder, and leaves it alone; after the holder's end it starts.
func TestB14SameIDElsewhere(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		holder := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()))
		before, session := o.broker(1)
		cfg := holder.Config
		cfg.Listen, cfg.LogDir = "127.0.0.1:0", t.TempDir()
		s, err := broker.Start(t.Context(), cfg)
		port := holder.Addr().(*net.TCPAddr).Port
		var taken *registry.TakenError
		if !errors.As(err, &taken) || taken.Host != "127.0.0.1" || taken.Port != port {
			t.Fatalf("started: %v, error %v, want one that names 127.0.0.1 and %d", s != nil, err, port)
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("broker id 1 is taken by the broker at 127.0.0.1 port %d", port)) {
			t.Errorf("error %v", err)
		}
		if value, owner := o.broker(1); value != before || owner != session {
			t.Errorf("registered is %q, was %q", value, before)
		}
		works(t, holder, "t")
		holder.Stop()
		second := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withDir(cfg.LogDir))
		works(t, second, "t")
	})
}

// TestB14ExpiredWhileItLives: the broker registers again, as does all that it has.
func TestB14ExpiredWhileItLives(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withMetrics)
		create(t, b, "t", 2)
		o.awaitTopics(1, "map[t:2]")
		for i := range 3 {
			value, session := o.broker(1)
			if err := c.Expire(session); err != nil {
				t.Fatal(err)
			}
			o.awaitOther(1, session)
			if now, _ := o.broker(1); now == value {
				t.Errorf("registered as %q again", now)
			}
			o.awaitTopics(1, "map[t:2]")
			works(t, b, "t")
			if got := metric(t, b, "kafka_broker_zookeeper_expiries_total"); got != float64(i+1) {
				t.Errorf("%v expiries, want %d", got, i+1)
			}
			awaitHealth(t, b, http.StatusOK, "ready")
		}
		b.Restart() // its file of creators holds the last one
		works(t, b, "t")
	})
}

// TestRegistrationOnAFullDisk: a broker that cannot keep a new creator, as its disk is
// full, registers again all the same: what it holds can be read.
func TestRegistrationOnAFullDisk(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		dir := t.TempDir()
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withDir(dir), withMetrics)
		create(t, b, "t", 1)
		o.awaitTopics(1, "map[t:1]")
		// No file can be made where this folder is, nor can it be removed.
		if err := os.MkdirAll(filepath.Join(dir, "broker.creator.tmp", "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		value, session := o.broker(1)
		for range 2 {
			if err := c.Expire(session); err != nil {
				t.Fatal(err)
			}
			session = o.awaitOther(1, session)
			o.awaitTopics(1, "map[t:1]")
			awaitHealth(t, b, http.StatusOK, "ready")
		}
		if now, _ := o.broker(1); now != value {
			t.Errorf("registered as %q, before as %q", now, value)
		}
	})
}

func awaitHealth(t *testing.T, b *kafkatest.Broker, status int, says string) {
	t.Helper()
	eventually(t, fmt.Sprintf("status %d, %q", status, says), func() bool {
		got, body := get(t, b, "/healthz")
		return got == status && strings.Contains(body, says)
	})
}

// TestB13Broker: cut off from ZooKeeper for a third of its session's time-out a
// broker keeps session and nodes; cut off for three times it registers again, and
// is not ready while it is out of touch.
func TestB13Broker(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		line := c.NewLine()
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(line.Connect()), withTimeout(timeout), withMetrics)
		create(t, b, "t", 2)
		o.awaitTopics(1, "map[t:2]")
		_, session := o.broker(1)

		connects := metric(t, b, "kafka_broker_zookeeper_connects_total")
		line.Cut()
		for stays := time.Now().Add(timeout / 3); time.Now().Before(stays); time.Sleep(10 * time.Millisecond) {
			works(t, b, "t")
			if _, now := o.broker(1); now != session {
				t.Fatalf("the node has vanished, or is of session %#x", now)
			}
		}
		line.Mend()
		eventually(t, "a connection", func() bool { return metric(t, b, "kafka_broker_zookeeper_connects_total") > connects })
		if _, now := o.broker(1); now != session {
			t.Errorf("session %#x, was %#x", now, session)
		}
		if got := metric(t, b, "kafka_broker_zookeeper_expiries_total"); got != 0 {
			t.Errorf("%v expiries", got)
		}

		// The watch on its node has come over.
		if err := o.Client().Delete(t.Context(), "/brokers/ids/1", -1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node", func() bool { _, now := o.broker(1); return now == session })
		awaitHealth(t, b, http.StatusOK, "ready")

		line.Cut()
		back := time.Now().Add(3 * timeout)
		awaitHealth(t, b, http.StatusServiceUnavailable, "no connection for")
		for ; time.Now().Before(back); time.Sleep(10 * time.Millisecond) {
			works(t, b, "t")
		}
		eventually(t, "the end of the session", func() bool { _, now := o.broker(1); return now == 0 })
		create(t, b, "meanwhile", 3)
		if got := metric(t, b, "kafka_broker_registered"); got != 0 {
			t.Errorf("registered is %v", got)
		}
		line.Mend()
		began := time.Now()
		o.awaitOther(1, session)
		o.awaitTopics(1, "map[meanwhile:3 t:2]")
		t.Logf("registered again %v after the link was back; the time-out is %v", time.Since(began), timeout)
		awaitHealth(t, b, http.StatusOK, "ready")
	})
}

// TestZooKeeperAway: what happens while ZooKeeper stands still is registered when
// it is back, and produce and fetch never wait for it.
func TestZooKeeperAway(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		line := c.NewLine()
		var log sharedBuffer
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(line.Connect()), withTimeout(20*time.Second), withLog(&log))
		create(t, b, "deleted", 2)
		o.awaitTopics(1, "map[deleted:2]")
		line.Freeze()
		for i := range 20 {
			works(t, b, fmt.Sprintf("t%d", i))
		}
		remove(t, b, "deleted")
		line.Mend()
		eventually(t, "20 topics", func() bool {
			topics := o.topics(1)
			return len(topics) == 20 && topics["deleted"] == 0
		})

		// It ends within bounds, and cleanly, also while ZooKeeper does not answer, and
		// says what was not done.
		line.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("stop: %v, %v", err, ctx.Err())
		}
		if text := log.String(); !strings.Contains(text, "the session with ZooKeeper could not be ended") || strings.Contains(text, "level=ERROR") {
			t.Errorf("its log: %s", text)
		}
	})
}

// TestNodeTakenAway: a broker whose node somebody deletes registers again; whose
// node somebody else has put his own value into is not ready and says whose.
func TestNodeTakenAway(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withMetrics)
		client := o.Client()
		value, session := o.broker(1)
		if err := client.Delete(t.Context(), "/brokers/ids/1", -1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node", func() bool { now, owner := o.broker(1); return now == value && owner == session })
		awaitHealth(t, b, http.StatusOK, "ready")

		session2, err := client.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = client.Multi(t.Context(), coord.DeleteOp("/brokers/ids/1", -1), coord.CreateOp("/brokers/ids/1", []byte("x-1:elsewhere:99"), true))
		if err != nil {
			t.Fatal(err)
		}
		awaitHealth(t, b, http.StatusServiceUnavailable, "taken by the broker at elsewhere port 99")
		if now, owner := o.broker(1); now != "x-1:elsewhere:99" || owner != session2.ID() {
			t.Errorf("the other's node has become %q", now)
		}
		works(t, b, "t")
		if err := client.Delete(t.Context(), "/brokers/ids/1", -1); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node", func() bool { now, _ := o.broker(1); return now == value })
		awaitHealth(t, b, http.StatusOK, "ready")
	})
}

// TestTopicNodeTakenAway: a broker registers a topic again whose node somebody
// deletes or writes over, and all that it has when everything is deleted: else it
// would be ready, and nobody would find its partitions.
func TestTopicNodeTakenAway(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withMetrics)
		create(t, b, "a", 1)
		create(t, b, "b", 2)
		const both = "map[a:1 b:2]"
		o.awaitTopics(1, both)
		client := o.Client()
		if err := client.Delete(t.Context(), "/brokers/topics/a/1", -1); err != nil {
			t.Fatal(err)
		}
		o.awaitTopics(1, both)
		if _, err := client.Set(t.Context(), "/brokers/topics/b/1", []byte("3"), -1); err != nil {
			t.Fatal(err)
		}
		o.awaitTopics(1, both)
		// All at once: else the broker registers again while it is being deleted, and the
		// two may go on like that for minutes.
		var all []coord.Op
		for _, path := range []string{"/brokers/topics/a/1", "/brokers/topics/a", "/brokers/topics/b/1", "/brokers/topics/b", "/brokers/topics", "/brokers/ids/1", "/brokers/ids", "/brokers"} {
			all = append(all, coord.DeleteOp(path, -1))
		}
		if err := client.Multi(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		o.awaitTopics(1, both)
		eventually(t, "the broker's node", func() bool { value, _ := o.broker(1); return value != "" })
		awaitHealth(t, b, http.StatusOK, "ready")

		remove(t, b, "a")
		o.awaitTopics(1, "map[b:2]")
		create(t, b, "a", 1)
		o.awaitTopics(1, both)
	})
}

// TestNodesTakenAwayAgainAndAgain: a broker registers again, however soon after its
// registration a node is deleted: a deletion that it learns of before it knows
// that its registration was done is not taken for an older one.
func TestNodesTakenAwayAgainAndAgain(t *testing.T) {
	t.Parallel()
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		o := observe(t, c)
		b := kafkatest.Start(t, kafkatest.WithID(1), kafkatest.WithZooKeeper(c.Connect()), withMetrics)
		create(t, b, "a", 1)
		o.awaitTopics(1, "map[a:1]")
		client := o.Client()
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			for _, path := range []string{"/brokers/topics/a/1", "/brokers/ids/1"} {
				if err := client.Delete(t.Context(), path, -1); err != nil && !errors.Is(err, coord.ErrNoNode) {
					t.Fatal(err)
				}
			}
		}
		o.awaitTopics(1, "map[a:1]")
		eventually(t, "the broker's node", func() bool { value, _ := o.broker(1); return value != "" })
		awaitHealth(t, b, http.StatusOK, "ready")
	})
}

// A broker that cannot register does not start, and says what to do; nothing of it
// stays.
func TestStartWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := broker.DefaultConfig()
	cfg.Listen, cfg.LogDir = "127.0.0.1:0", dir
	cfg.ZooKeeper.Servers, cfg.ZooKeeper.ConnectTimeout = "127.0.0.1:1", 300*time.Millisecond
	if _, err := broker.Start(t.Context(), cfg); !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "--zk-connect") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "broker.creator")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file of creators: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cfg.ZooKeeper.ConnectTimeout = patience
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := broker.Start(canceled, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	cfg.ZooKeeper.Servers = ""
	s, err := broker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRegistrationConfig(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*broker.Config){
		"no ZooKeeper":     func(c *broker.Config) { c.AdvertisedHost = "h" },
		"give a host name": func(c *broker.Config) { c.AdvertisedHost, c.ZooKeeper.Servers = "fe80::1", "h:1" },
		"neither a name":   func(c *broker.Config) { c.AdvertisedHost, c.ZooKeeper.Servers = "a b", "h:1" },
		"port":             func(c *broker.Config) { c.ZooKeeper.Servers = "h:x" },
		"time-out":         func(c *broker.Config) { c.ZooKeeper.Servers, c.ZooKeeper.SessionTimeout = "h:1", -1 },
	} {
		cfg := broker.DefaultConfig()
		cfg.LogDir = "x"
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
