package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/registry"
)

// TestNodesByteForByte looks at the nodes of every registry with ZooKeeper's own
// command-line client: values, kinds, and what stands above them.
func TestNodesByteForByte(t *testing.T) {
	c := zktest.Shared(t, zktest.Real)
	ctx := limited(t)
	m := join(t, c)
	p := registry.Partition{Broker: 3, Partition: 0}
	must(t, m.RegisterBroker(ctx, m.session, registry.Broker{ID: 3, Creator: "10.0.0.1-1312242084000", Host: "10.0.0.1", Port: 9092}, nil))
	must(t, m.RegisterTopic(ctx, m.session, "clicks", 3, 4))
	static, err := registry.Static(map[string]int{"topic2": 1, "topic1": 2})
	must(t, err)
	white, err := registry.WhiteList("white.*", 4)
	must(t, err)
	black, err := registry.BlackList("a, b", 1)
	must(t, err)
	must(t, m.RegisterConsumer(ctx, m.session, "g", "g_host-1-0a0b0c0d", static))
	must(t, m.RegisterConsumer(ctx, m.session, "g", "g_white", white))
	must(t, m.RegisterConsumer(ctx, m.session, "g", "g_black", black))
	claim := registry.Claim{Topic: "clicks", Partition: p, Thread: "g_host-1-0a0b0c0d-1"}
	claims, err := m.ClaimAll(ctx, m.session, "g", []registry.Claim{claim})
	must(t, err)
	_, err = m.Commit(ctx, m.session, "g", claims[0], 4294967296, registry.NoVersion)
	must(t, err)

	const none, persistent, ephemeral = "null", false, true
	for _, n := range []struct {
		path, value string
		ephemeral   bool
	}{
		{"/brokers", none, persistent},
		{"/brokers/ids", none, persistent},
		{"/brokers/ids/3", "10.0.0.1-1312242084000:10.0.0.1:9092", ephemeral},
		{"/brokers/topics/clicks", none, persistent},
		{"/brokers/topics/clicks/3", "4", ephemeral},
		{"/consumers/g/ids", none, persistent},
		{"/consumers/g/ids/g_host-1-0a0b0c0d", `{ "topic1": 2,"topic2": 1 }`, ephemeral},
		{"/consumers/g/ids/g_white", "*4*white.*", ephemeral},
		{"/consumers/g/ids/g_black", "!1!a|b", ephemeral},
		{"/consumers/g/owners/clicks/3-0", "g_host-1-0a0b0c0d-1", ephemeral},
		{"/consumers/g/offsets/clicks/3-0", "4294967296", persistent},
	} {
		value, stat, _ := strings.Cut(c.CLI(t, "get", "-s", n.path), "\n")
		owner := "ephemeralOwner = 0x0\n"
		if n.ephemeral {
			owner = fmt.Sprintf("ephemeralOwner = %#x\n", m.session.ID())
		}
		if value != n.value || !strings.Contains(stat, owner) {
			t.Errorf("%s: %q, want %q, and in %q want %q", n.path, value, n.value, stat, owner)
		}
		// A value without a newline has exactly its bytes.
		length := fmt.Sprintf("dataLength = %d\n", len(n.value))
		if n.value == none {
			length = "dataLength = 0\n"
		}
		if !strings.Contains(stat, length) {
			t.Errorf("%s: %q, want %q", n.path, stat, length)
		}
	}
	for path, names := range map[string]string{
		"/": "[brokers, consumers]", "/brokers": "[ids, topics]", "/consumers/g": "[ids, offsets, owners]",
	} {
		if got := c.CLI(t, "ls", path); got != names {
			t.Errorf("below %s: %s, want %s", path, got, names)
		}
	}
}

// What ZooKeeper's own client has written, as tools do, is read.
func TestNodesOfOthers(t *testing.T) {
	c := zktest.Shared(t, zktest.Real)
	m := join(t, c)
	for _, n := range [][2]string{
		{"/brokers", ""}, {"/brokers/ids", ""}, {"/brokers/ids/1", "10.0.0.2-1:10.0.0.2:6667"},
		{"/brokers/topics", ""}, {"/brokers/topics/t", ""}, {"/brokers/topics/t/1", "2"},
	} {
		c.CLI(t, "create", n[0], n[1])
	}
	ctx := limited(t)
	brokers, err := m.Brokers(ctx)
	if err != nil || len(brokers) != 1 || brokers[0].Addr() != "10.0.0.2:6667" {
		t.Errorf("brokers %v, %v", brokers, err)
	}
	partitions, err := m.Partitions(ctx, "t")
	if err != nil || fmt.Sprint(partitions) != "[1-0 1-1]" {
		t.Errorf("partitions %v, %v", partitions, err)
	}
}

// TestBadNodes: each is named with its path, and takes none of the good ones down.
func TestBadNodes(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		for _, n := range [][2]string{
			{"/brokers/ids/1", "c:h:1"}, {"/brokers/ids/x", "c:h:1"}, {"/brokers/ids/02", "c:h:1"}, {"/brokers/ids/3", "fe80::1"}, {"/brokers/ids/4", ""},
			{"/brokers/topics/t/1", "2"}, {"/brokers/topics/t/2", "0"}, {"/brokers/topics/t/3", "100001"}, {"/brokers/topics/t/4", "two"}, {"/brokers/topics/t/-1", "2"},
			{"/consumers/g/ids/good", `{ "t": 1 }`}, {"/consumers/g/ids/bad", `{ "t": 10001 }`}, {"/consumers/g/ids/lookahead", `*1*a(?=b)`},
			{"/consumers/g/owners/t/1-0", "thread-0"}, {"/consumers/g/owners/t/1-x", "thread-0"}, {"/consumers/g/owners/t/1-1", strings.Repeat("x", 1000)},
			{"/consumers/g/offsets/t/1-0", "7"}, {"/consumers/g/offsets/t/1-1", "seven"}, {"/consumers/g/offsets/t/1-2", ""}, {"/consumers/g/offsets/t/1-3", "-1"},
		} {
			m.put(t, n[0], n[1])
		}
		same := func(what string, got any, want string, err error, badPaths ...string) {
			t.Helper()
			if fmt.Sprint(got) != want {
				t.Errorf("%s: %v, want %s", what, got, want)
			}
			if paths := bad(t, err); fmt.Sprint(paths) != fmt.Sprint(badPaths) {
				t.Errorf("%s: bad nodes %v, want %v", what, paths, badPaths)
			}
			if !strings.Contains(err.Error(), badPaths[0]) {
				t.Errorf("%s: error %v does not name %s", what, err, badPaths[0])
			}
		}
		brokers, err := m.Brokers(ctx)
		same("brokers", brokers, "[c:h:1]", err, "/brokers/ids/02", "/brokers/ids/3", "/brokers/ids/4", "/brokers/ids/x")
		counts, err := m.TopicBrokers(ctx, "t")
		same("brokers of the topic", counts, "map[1:2]", err, "/brokers/topics/t/-1", "/brokers/topics/t/2", "/brokers/topics/t/3", "/brokers/topics/t/4")
		partitions, err := m.Partitions(ctx, "t")
		same("partitions", partitions, "[1-0 1-1]", err, "/brokers/topics/t/-1", "/brokers/topics/t/2", "/brokers/topics/t/3", "/brokers/topics/t/4")
		consumers, err := m.Consumers(ctx, "g")
		same("consumers", consumers, `map[good:{ "t": 1 }]`, err, "/consumers/g/ids/bad", "/consumers/g/ids/lookahead")
		owners, err := m.Owners(ctx, "g", "t")
		same("owners", owners, "map[1-0:thread-0]", err, "/consumers/g/owners/t/1-1", "/consumers/g/owners/t/1-x")
		offsets, err := m.Offsets(ctx, "g", "t")
		same("offsets", offsets, "map[1-0:7 1-3:-1]", err, "/consumers/g/offsets/t/1-1", "/consumers/g/offsets/t/1-2")
		_, version, ok, err := m.Offset(ctx, "g", "t", registry.Partition{Broker: 1, Partition: 1})
		same("offset", fmt.Sprint(version, ok), "0 false", err, "/consumers/g/offsets/t/1-1")
	})
}

// Nothing is there in a cluster that is new, and that is no error.
func TestEmptyCluster(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		ctx := limited(t)
		m := join(t, c)
		for what, get := range map[string]func() (any, error){
			"brokers":    func() (any, error) { x, err := m.Brokers(ctx); return len(x), err },
			"topics":     func() (any, error) { x, err := m.Topics(ctx); return len(x), err },
			"partitions": func() (any, error) { x, err := m.Partitions(ctx, "t"); return len(x), err },
			"consumers":  func() (any, error) { x, err := m.Consumers(ctx, "g"); return len(x), err },
			"groups":     func() (any, error) { x, err := m.Groups(ctx); return len(x), err },
			"its topics": func() (any, error) { x, err := m.GroupTopics(ctx, "g"); return len(x), err },
			"owners":     func() (any, error) { x, err := m.Owners(ctx, "g", "t"); return len(x), err },
			"offsets":    func() (any, error) { x, err := m.Offsets(ctx, "g", "t"); return len(x), err },
		} {
			if n, err := get(); n != 0 || err != nil {
				t.Errorf("%s: %v, %v", what, n, err)
			}
		}
		if _, version, ok, err := m.Offset(ctx, "g", "t", registry.Partition{}); version != registry.NoVersion || ok || err != nil {
			t.Errorf("offset: version %d, %v, %v", version, ok, err)
		}
		must(t, m.DeleteGroup(ctx, "g"))
		must(t, m.UnregisterTopic(ctx, "t", 1))
		must(t, m.UnregisterConsumer(ctx, m.session, "g", "c"))
		must(t, m.Release(ctx, m.session, "g", []registry.Claim{{Topic: "t", Thread: "c-0"}}))
		if _, _, exists := m.node(t, "/consumers"); exists {
			t.Error("looking has made nodes")
		}
	})
}

// Names that would be other nodes are refused before anything is sent.
func TestNamesRefused(t *testing.T) {
	c := zktest.Shared(t, zktest.Embedded)
	ctx := limited(t)
	m := join(t, c)
	s, err := registry.Static(map[string]int{"t": 1})
	must(t, err)
	before := m.line.Requests()
	p := registry.Partition{}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00", "a\nb", "\u009f", "\xff", strings.Repeat("x", registry.MaxNameBytes+1)} {
		for what, err := range map[string]error{
			"register topic":      m.RegisterTopic(ctx, m.session, name, 1, 1),
			"unregister topic":    m.UnregisterTopic(ctx, name, 1),
			"brokers of topic":    second(m.TopicBrokers(ctx, name)),
			"partitions":          second(m.Partitions(ctx, name)),
			"group":               m.RegisterConsumer(ctx, m.session, name, "c", s),
			"consumer":            m.RegisterConsumer(ctx, m.session, "g", name, s),
			"unregister":          m.UnregisterConsumer(ctx, m.session, "g", name),
			"consumers":           second(m.Consumers(ctx, name)),
			"delete group":        m.DeleteGroup(ctx, name),
			"topics of group":     second(m.GroupTopics(ctx, name)),
			"owners":              second(m.Owners(ctx, "g", name)),
			"owners of group":     second(m.Owners(ctx, name, "t")),
			"offsets":             second(m.Offsets(ctx, name, "t")),
			"set offset":          m.SetOffset(ctx, "g", name, p, 1),
			"set offset of group": m.SetOffset(ctx, name, "t", p, 1),
			"claim":               second(m.ClaimAll(ctx, m.session, "g", []registry.Claim{{Topic: name, Thread: "c-0"}})),
			"claim in group":      second(m.ClaimAll(ctx, m.session, name, []registry.Claim{{Topic: "t", Thread: "c-0"}})),
			"commit":              second(m.Commit(ctx, m.session, name, registry.Claim{Topic: "t", Thread: "c-0"}, 1, -1)),
			"release":             m.Release(ctx, m.session, "g", []registry.Claim{{Topic: name, Thread: "c-0"}}),
		} {
			if err == nil || strings.Contains(err.Error(), coord.ErrArgument.Error()) {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	for what, err := range map[string]error{
		"no partitions":   m.RegisterTopic(ctx, m.session, "t", 1, 0),
		"too many":        m.RegisterTopic(ctx, m.session, "t", 1, registry.MaxPartitions+1),
		"negative broker": m.RegisterTopic(ctx, m.session, "t", -1, 1),
		"no thread":       second(m.ClaimAll(ctx, m.session, "g", []registry.Claim{{Topic: "t"}})),
		"long thread":     second(m.ClaimAll(ctx, m.session, "g", []registry.Claim{{Topic: "t", Thread: strings.Repeat("x", 1000)}})),
		"partition":       m.SetOffset(ctx, "g", "t", registry.Partition{Broker: -1}, 1),
		"broker":          m.RegisterBroker(ctx, m.session, registry.Broker{Creator: "c", Host: "::1", Port: 1}, nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if after := m.line.Requests(); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
}

func second[T any](_ T, err error) error { return err }
