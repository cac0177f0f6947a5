package zkserver_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"kafkalab/kafka/kafkatest/zktest"
)

// library is a session of go-zookeeper/zk below the chroot of its cluster.
type library struct {
	*zk.Conn
	t *testing.T
	c *zktest.Cluster

	mu     sync.Mutex
	states []zk.State // in the order in which they came
}

// quietLogger keeps the library's chatter out of the output.
type quietLogger struct{}

func (quietLogger) Printf(string, ...any) {}

// connect makes a session through the cluster's line, or another one.
func connect(t *testing.T, c *zktest.Cluster, line *zktest.Line, timeout time.Duration) *library {
	t.Helper()
	l := &library{t: t, c: c}
	servers := strings.Split(strings.TrimSuffix(line.Connect(), c.Root()), ",")
	conn, events, err := zk.Connect(servers, timeout, zk.WithLogger(quietLogger{}), zk.WithLogInfo(false), zk.WithEventCallback(l.note))
	if err != nil {
		t.Fatal(err)
	}
	l.Conn = conn
	t.Cleanup(func() {
		l.Conn.Close()
		for range events { // closed when all has ended
		}
	})
	eventually(t, "the session is there", func() bool { return conn.State() == zk.StateHasSession })
	return l
}

func (l *library) note(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	l.mu.Lock()
	l.states = append(l.states, e.State)
	l.mu.Unlock()
}

// count returns how often the connection came into a state.
func (l *library) count(s zk.State) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, have := range l.states {
		if have == s {
			n++
		}
	}
	return n
}

func (l *library) path(p string) string { return l.c.Root() + p }

var everybody = zk.WorldACL(zk.PermAll)

func (l *library) create(p, data string, flags int32) string {
	l.t.Helper()
	made, err := l.Create(l.path(p), []byte(data), flags, everybody)
	if err != nil {
		l.t.Fatalf("create %s: %v", p, err)
	}
	return strings.TrimPrefix(made, l.c.Root())
}

// next returns what a watch tells.
func (l *library) next(watch <-chan zk.Event) zk.Event {
	l.t.Helper()
	select {
	case e := <-watch:
		e.Path = strings.TrimPrefix(e.Path, l.c.Root())
		return e
	case <-time.After(patience):
		l.t.Fatal("a watch tells nothing")
		return zk.Event{}
	}
}

func (l *library) wantEvent(watch <-chan zk.Event, kind zk.EventType, path string) {
	l.t.Helper()
	if e := l.next(watch); e.Type != kind || e.Path != path || e.Err != nil {
		l.t.Errorf("event %v of %s, %v; want %v of %s", e.Type, e.Path, e.Err, kind, path)
	}
}

func TestConformanceLibrary(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		l := connect(t, c, c.Line, anyone)
		l.create("/a", "one", zk.FlagPersistent)
		data, st, err := l.Get(l.path("/a"))
		if err != nil || string(data) != "one" || st.Version != 0 || st.DataLength != 3 || st.EphemeralOwner != 0 || st.NumChildren != 0 || st.Czxid != st.Mzxid || st.Pzxid != st.Czxid || st.Ctime != st.Mtime {
			t.Fatalf("get: %q, %+v, %v", data, st, err)
		}
		st, err = l.Set(l.path("/a"), []byte("two"), 0)
		if err != nil || st.Version != 1 || st.Mzxid <= st.Czxid {
			t.Fatalf("set: %+v, %v", st, err)
		}
		first := l.create("/a/s-", "", zk.FlagEphemeral|zk.FlagSequence)
		second := l.create("/a/s-", "", zk.FlagSequence)
		if first != "/a/s-0000000000" || second != "/a/s-0000000001" {
			t.Errorf("sequential nodes %s, %s", first, second)
		}
		children, st, err := l.Children(l.path("/a"))
		slices.Sort(children)
		if err != nil || !slices.Equal(children, []string{"s-0000000000", "s-0000000001"}) || st.NumChildren != 2 || st.Cversion != 2 {
			t.Errorf("children %v, %+v, %v", children, st, err)
		}
		if _, st, err := l.Exists(l.path(first)); err != nil || st.EphemeralOwner != l.SessionID() {
			t.Errorf("owner %#x of a node of session %#x, %v", st.EphemeralOwner, l.SessionID(), err)
		}
		for what, try := range map[string]struct{ got, want error }{
			"create again":                  {errOf(l.Create(l.path("/a"), nil, 0, everybody)), zk.ErrNodeExists},
			"create without a parent":       {errOf(l.Create(l.path("/b/c"), nil, 0, everybody)), zk.ErrNoNode},
			"create below an ephemeral one": {errOf(l.Create(l.path(first+"/c"), nil, 0, everybody)), zk.ErrNoChildrenForEphemerals},
			"set at another version":        {errOf(l.Set(l.path("/a"), nil, 0)), zk.ErrBadVersion},
			"set nothing":                   {errOf(l.Set(l.path("/b"), nil, -1)), zk.ErrNoNode},
			"delete at another version":     {l.Delete(l.path("/a"), 0), zk.ErrBadVersion},
			"delete with children":          {l.Delete(l.path("/a"), -1), zk.ErrNotEmpty},
			"delete nothing":                {l.Delete(l.path("/b"), -1), zk.ErrNoNode},
			"sync":                          {errOf(l.Sync(l.path("/a"))), nil},
			"create with no ACL":            {errOf(l.Create(l.path("/b"), nil, 0, nil)), zk.ErrInvalidACL},
		} {
			if !errors.Is(try.got, try.want) {
				t.Errorf("%s: %v, want %v", what, try.got, try.want)
			}
		}
		if acl, _, err := l.GetACL(l.path("/a")); err != nil || !slices.Equal(acl, everybody) {
			t.Errorf("ACL %v, %v", acl, err)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestConformanceLibraryMulti(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		l := connect(t, c, c.Line, anyone)
		owner, offset := l.path("/owner"), l.path("/offset")
		res, err := l.Multi(
			&zk.CreateRequest{Path: owner, Data: []byte("thread"), Acl: everybody, Flags: zk.FlagEphemeral},
			&zk.CreateRequest{Path: offset, Data: []byte("0"), Acl: everybody},
			&zk.SetDataRequest{Path: offset, Data: []byte("100"), Version: 0},
			&zk.CheckVersionRequest{Path: owner, Version: 0},
		)
		if err != nil || len(res) != 4 || res[0].String != owner || res[1].String != offset || res[2].Stat.Version != 1 || res[2].Stat.DataLength != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
		if err := l.Delete(owner, 0); err != nil {
			t.Fatal(err)
		}
		res, err = l.Multi(
			&zk.SetDataRequest{Path: offset, Data: []byte("50"), Version: 1},
			&zk.CheckVersionRequest{Path: owner, Version: 0},
			&zk.DeleteRequest{Path: offset, Version: -1},
		)
		if !errors.Is(err, zk.ErrNoNode) || len(res) != 3 || res[0].Error != nil || !errors.Is(res[1].Error, zk.ErrNoNode) || res[2].Error == nil {
			t.Errorf("%+v, %v", res, err)
		}
		if data, st, err := l.Get(offset); err != nil || string(data) != "100" || st.Version != 1 {
			t.Errorf("a multi that failed left %q at %+v, %v", data, st, err)
		}
	})
}

func TestConformanceLibraryWatches(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		l, other := connect(t, c, c.Line, anyone), connect(t, c, c.Line, anyone)
		_, _, created, err := l.ExistsW(l.path("/n"))
		if err != nil {
			t.Fatal(err)
		}
		other.create("/n", "1", 0)
		l.wantEvent(created, zk.EventNodeCreated, "/n")
		_, _, changed, err := l.GetW(l.path("/n"))
		if err != nil {
			t.Fatal(err)
		}
		_, _, children, err := l.ChildrenW(l.path("/n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Set(l.path("/n"), []byte("2"), -1); err != nil {
			t.Fatal(err)
		}
		l.wantEvent(changed, zk.EventNodeDataChanged, "/n")
		other.create("/n/c", "", zk.FlagEphemeral)
		l.wantEvent(children, zk.EventNodeChildrenChanged, "/n")
		_, _, gone, err := l.ExistsW(l.path("/n/c"))
		if err != nil {
			t.Fatal(err)
		}
		_, _, children, err = l.ChildrenW(l.path("/n"))
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
		l.wantEvent(gone, zk.EventNodeDeleted, "/n/c")
		l.wantEvent(children, zk.EventNodeChildrenChanged, "/n")
	})
}

// Changes missed while a client was cut off are told when it is back, and the
// session is the same.
func TestConformanceLibraryMissedChanges(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		line := c.NewLine()
		l, other := connect(t, c, line, anyone), connect(t, c, c.Line, anyone)
		session := l.SessionID()
		for _, n := range []string{"/changed", "/deleted", "/parent", "/same"} {
			other.create(n, "", 0)
		}
		l.create("/mine", "", zk.FlagEphemeral)
		watch := func(_ any, _ *zk.Stat, ch <-chan zk.Event, err error) <-chan zk.Event {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return ch
		}
		get := func(p string) <-chan zk.Event {
			d, st, ch, err := l.GetW(l.path(p))
			return watch(d, st, ch, err)
		}
		changed, deleted, same := get("/changed"), get("/deleted"), get("/same")
		names, st, ch, err := l.ChildrenW(l.path("/parent"))
		parent := watch(names, st, ch, err)
		there, st, ch, err := l.ExistsW(l.path("/created"))
		created := watch(there, st, ch, err)

		line.Cut()
		eventually(t, "the client notices", func() bool { return l.State() != zk.StateHasSession })
		if _, err := other.Set(l.path("/changed"), []byte("x"), -1); err != nil {
			t.Fatal(err)
		}
		if err := other.Delete(l.path("/deleted"), -1); err != nil {
			t.Fatal(err)
		}
		other.create("/parent/c", "", 0)
		other.create("/created", "", 0)
		line.Mend()

		l.wantEvent(changed, zk.EventNodeDataChanged, "/changed")
		l.wantEvent(deleted, zk.EventNodeDeleted, "/deleted")
		l.wantEvent(parent, zk.EventNodeChildrenChanged, "/parent")
		l.wantEvent(created, zk.EventNodeCreated, "/created")
		if _, err := other.Set(l.path("/same"), []byte("x"), -1); err != nil {
			t.Fatal(err)
		}
		l.wantEvent(same, zk.EventNodeDataChanged, "/same")
		if l.SessionID() != session || l.count(zk.StateExpired) != 0 {
			t.Errorf("session %#x became %#x", session, l.SessionID())
		}
		if ok, _, err := other.Exists(l.path("/mine")); err != nil || !ok {
			t.Errorf("its ephemeral node: %v, %v", ok, err)
		}
	})
}

// A client whose session was ended learns it at its next handshake.
func TestConformanceLibraryExpiry(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		l, other := connect(t, c, c.NewLine(), anyone), connect(t, c, c.Line, anyone)
		l.create("/e", "", zk.FlagEphemeral)
		_, _, gone, err := other.ExistsW(l.path("/e"))
		if err != nil {
			t.Fatal(err)
		}
		session := l.SessionID()
		if err := c.Expire(session); err != nil {
			t.Fatal(err)
		}
		other.wantEvent(gone, zk.EventNodeDeleted, "/e")
		eventually(t, "the client learns it and has a new session", func() bool {
			return l.count(zk.StateExpired) > 0 && l.State() == zk.StateHasSession && l.SessionID() != session
		})
	})
}

// A client that is frozen for longer than its time-out has lost its session, and
// what it had sent before is not carried out in the next one.
func TestConformanceLibraryFrozen(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		line := c.NewLine()
		l, other := connect(t, c, line, time.Second), connect(t, c, c.Line, anyone)
		l.create("/e", "", zk.FlagEphemeral)
		_, _, gone, err := other.ExistsW(l.path("/e"))
		if err != nil {
			t.Fatal(err)
		}
		session := l.SessionID()
		line.Freeze()
		other.wantEvent(gone, zk.EventNodeDeleted, "/e")
		line.Mend()
		eventually(t, "it has a new session", func() bool { return l.State() == zk.StateHasSession && l.SessionID() != session })
		l.create("/e", "again", zk.FlagEphemeral)
	})
}

// The lock recipe: one holder at a time, and the next one takes over when a
// session ends.
func TestConformanceLibraryLock(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		const members = 4
		var mu sync.Mutex
		held, rounds := 0, 0
		var wg sync.WaitGroup
		for range members {
			l := connect(t, c, c.Line, anyone)
			wg.Go(func() {
				for range 5 {
					lock := zk.NewLock(l.Conn, l.path("/lock"), everybody)
					if err := lock.Lock(); err != nil {
						t.Errorf("lock: %v", err)
						return
					}
					mu.Lock()
					if held++; held != 1 {
						t.Errorf("%d hold the lock", held)
					}
					rounds++
					held--
					mu.Unlock()
					if err := lock.Unlock(); err != nil {
						t.Errorf("unlock: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		if rounds != 5*members {
			t.Errorf("%d rounds", rounds)
		}
	})
}

// The library's own reading of the four-letter words.
func TestConformanceLibraryFourLetters(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, c *zktest.Cluster) {
		connect(t, c, c.Line, anyone)
		servers := []string{c.Addr(0)}
		if ok := zk.FLWRuok(servers, patience); !slices.Equal(ok, []bool{true}) {
			t.Errorf("ruok: %v", ok)
		}
		if c.Kind == zktest.Real {
			return // some builds have no date in their answer, which the library wants
		}
		stats, ok := zk.FLWSrvr(servers, patience)
		if !ok || len(stats) != 1 || stats[0].Error != nil || stats[0].Mode != zk.ModeStandalone || stats[0].Connections < 1 || stats[0].NodeCount < 1 || stats[0].Version == "" {
			t.Errorf("srvr: %v, %+v", ok, stats)
		}
	})
}
