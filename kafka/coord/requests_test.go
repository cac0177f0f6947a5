package coord_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

func TestRequests(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect()})
		ctx := testContext(t)
		must(t, c.Create(ctx, "/a/b/c", []byte("v")))
		wantValue(t, c, "/a/b/c", "v")
		wantErr(t, "second create", c.Create(ctx, "/a/b/c", nil), coord.ErrExists)
		if data, st, err := c.Get(ctx, "/a"); data != nil || st.NumChildren != 1 || st.EphemeralOwner != 0 || err != nil {
			t.Errorf("parent: %v, %+v, %v", data, st, err)
		}
		_, _, err := c.Get(ctx, "/x")
		wantErr(t, "get", err, coord.ErrNoNode)
		if err == nil || !strings.Contains(err.Error(), "/x") {
			t.Errorf("error without its path: %v", err)
		}
		if st, ok, err := c.Exists(ctx, "/x"); st != (coord.Stat{}) || ok || err != nil {
			t.Errorf("exists: %+v, %v, %v", st, ok, err)
		}
		st, err := c.Set(ctx, "/a/b/c", []byte("w"), 0)
		if err != nil || st.Version != 1 {
			t.Errorf("set: %+v, %v", st, err)
		}
		_, err = c.Set(ctx, "/a/b/c", nil, 0)
		wantErr(t, "set", err, coord.ErrBadVersion)
		_, err = c.Set(ctx, "/x", nil, -1)
		wantErr(t, "set", err, coord.ErrNoNode)
		wantErr(t, "delete", c.Delete(ctx, "/a/b/c", 0), coord.ErrBadVersion)
		wantErr(t, "delete", c.Delete(ctx, "/a", -1), coord.ErrNotEmpty)
		wantErr(t, "delete", c.Delete(ctx, "/x", -1), coord.ErrNoNode)
		must(t, c.Delete(ctx, "/a/b/c", 1))
		_, _, err = c.Children(ctx, "/x")
		wantErr(t, "children", err, coord.ErrNoNode)
		for _, name := range []string{"2", "10", "1"} {
			must(t, c.Put(ctx, "/a/b/"+name, nil))
		}
		if names, st, err := c.Children(ctx, "/a/b"); !slices.Equal(names, []string{"1", "10", "2"}) || st.NumChildren != 3 || err != nil {
			t.Errorf("children: %v, %+v, %v", names, st, err)
		}
		if names, _, err := c.Children(ctx, "/"); !slices.Equal(names, []string{"a"}) || err != nil {
			t.Errorf("children of the root: %v, %v", names, err)
		}
		must(t, c.DeleteTree(ctx, "/a"))
		must(t, c.DeleteTree(ctx, "/a"))
		if _, ok, err := c.Exists(ctx, "/a"); ok || err != nil {
			t.Errorf("after the deletion: %v, %v", ok, err)
		}
		for _, path := range []string{"", "a", "/a/", "/a//b", "/../a"} {
			wantErr(t, "put "+path, c.Put(ctx, path, nil), coord.ErrArgument)
		}
		wantErr(t, "large value", c.Put(ctx, "/l", make([]byte, 1<<20)), coord.ErrArgument)
		must(t, c.Put(ctx, "/l", make([]byte, 1_000_000)))
		if data, _, err := c.Get(ctx, "/l"); len(data) != 1_000_000 || err != nil {
			t.Errorf("large value: %d bytes, %v", len(data), err)
		}
	})
}

// TestChroot: paths are below the chroot, which is made, and made again for who
// makes something in it.
func TestChroot(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect() + "/k/l"})
		outside := connect(t, coord.Config{Servers: cl.Direct()})
		ctx := testContext(t)
		if _, ok, err := outside.Exists(ctx, "/k/l"); !ok || err != nil {
			t.Errorf("chroot: %v, %v", ok, err)
		}
		must(t, c.Put(ctx, "/a/b", []byte("1")))
		wantValue(t, outside, "/k/l/a/b", "1")
		if names, _, err := c.Children(ctx, "/"); !slices.Equal(names, []string{"a"}) || err != nil {
			t.Errorf("children: %v, %v", names, err)
		}
		must(t, c.Multi(ctx, coord.CheckOp("/", -1), coord.SetOp("/a/b", []byte("2"), 0)))
		wantValue(t, outside, "/k/l/a/b", "2")
		must(t, outside.DeleteTree(ctx, "/k"))
		_, err := session(t, c).CreateEphemeral(ctx, "/e/f", nil)
		must(t, err)
		if _, ok, err := outside.Exists(ctx, "/k/l/e/f"); !ok || err != nil {
			t.Errorf("made again: %v, %v", ok, err)
		}
		must(t, c.DeleteTree(ctx, "/"))
		if names, _, err := outside.Children(ctx, "/k/l"); len(names) > 0 || err != nil {
			t.Errorf("after the deletion of all: %v, %v", names, err)
		}
	})
}

// TestLeaveRoot: a chroot that is missing is not made for who only looks, and is
// there for him once somebody has made it.
func TestLeaveRoot(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		ctx := testContext(t)
		outside := connect(t, coord.Config{Servers: cl.Direct()})
		c := connect(t, coord.Config{Servers: cl.Connect() + "/look/only", LeaveRoot: true})
		if _, ok, err := c.Exists(ctx, "/"); ok || err != nil {
			t.Errorf("root: %v, %v", ok, err)
		}
		_, _, err := c.Children(ctx, "/")
		wantErr(t, "children of the root", err, coord.ErrNoNode)
		if _, ok, err := outside.Exists(ctx, "/look"); ok || err != nil {
			t.Errorf("made by who only looks: %v, %v", ok, err)
		}
		must(t, outside.Put(ctx, "/look/only/a", []byte("1")))
		wantValue(t, c, "/a", "1")
	})
}

// TestUnreached: the error of a connection that is refused names the server once.
func TestUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close())
	_, err = coord.Connect(testContext(t), coord.Config{Servers: addr, ConnectTimeout: 200 * time.Millisecond})
	wantErr(t, "connect", err, coord.ErrUnavailable)
	if text := err.Error(); strings.Count(text, addr) != 1 || !strings.HasSuffix(text, "connection refused") {
		t.Errorf("error %q", text)
	}
	_, err = coord.Connect(testContext(t), coord.Config{Servers: addr + ",127.0.0.1:1", ConnectTimeout: 200 * time.Millisecond})
	if text := err.Error(); !strings.Contains(text, "last attempt to connect: 127.0.0.1:") {
		t.Errorf("error %q of two servers", text)
	}
}

func TestMulti(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c := connect(t, coord.Config{Servers: cl.Connect()})
		ctx := testContext(t)
		must(t, c.Multi(ctx))
		must(t, c.Multi(ctx, coord.CreateOp("/m", []byte("1"), false), coord.CreateOp("/m/e", nil, true), coord.CreateOp("/m/p", []byte("x"), false)))
		if st, ok, err := c.Exists(ctx, "/m/e"); !ok || st.EphemeralOwner != session(t, c).ID() || err != nil {
			t.Errorf("ephemeral: %+v, %v, %v", st, ok, err)
		}
		must(t, c.Multi(ctx, coord.CheckOp("/m", 0), coord.SetOp("/m/p", []byte("y"), 0), coord.DeleteOp("/m/e", 0), coord.CreateOp("/m/e", nil, false)))
		wantValue(t, c, "/m/p", "y")
		for _, op := range []struct {
			op   coord.Op
			want error
		}{
			{coord.CheckOp("/m/p", 7), coord.ErrBadVersion},
			{coord.CheckOp("/n", -1), coord.ErrNoNode},
			{coord.SetOp("/m/p", nil, 7), coord.ErrBadVersion},
			{coord.DeleteOp("/m", -1), coord.ErrNotEmpty},
			{coord.CreateOp("/m/p", nil, false), coord.ErrExists},
			{coord.CreateOp("/n/p", nil, false), coord.ErrNoNode},
			{coord.CreateOp("n", nil, false), coord.ErrArgument},
			{coord.Op{}, coord.ErrArgument},
		} {
			err := c.Multi(ctx, coord.SetOp("/m", []byte("no"), -1), coord.CheckOp("/m/p", 1), op.op, coord.DeleteOp("/m/e", -1))
			wantErr(t, fmt.Sprintf("%+v", op.op), err, op.want)
			var refused *coord.MultiError
			if !errors.As(err, &refused) || refused.Index != 2 {
				t.Errorf("%+v: error %v", op.op, err)
			}
		}
		wantValue(t, c, "/m", "1")
		half := make([]byte, 600_000)
		wantErr(t, "large", c.Multi(ctx, coord.SetOp("/m", half, -1), coord.SetOp("/m/p", half, -1)), coord.ErrArgument)
	})
}

// TestRaces: those who put, create and delete the same nodes at once get no error
// but the one that their request has.
func TestRaces(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		ctx := testContext(t)
		var clients [3]*coord.Client
		for i := range clients {
			clients[i] = connect(t, coord.Config{Servers: cl.Connect()})
		}
		var wg sync.WaitGroup
		for i := range 12 {
			c := clients[i%len(clients)]
			wg.Go(func() {
				for n := range 20 {
					if err := c.Put(ctx, "/r/s/t", fmt.Append(nil, i, n)); err != nil {
						t.Errorf("put: %v", err)
					}
					if err := c.DeleteTree(ctx, "/r"); err != nil {
						t.Errorf("delete: %v", err)
					}
					if err := c.Create(ctx, fmt.Sprintf("/u/v/%d-%d", i, n), nil); err != nil {
						t.Errorf("create: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if names, _, err := clients[0].Children(ctx, "/u/v"); len(names) != 240 || err != nil {
			t.Errorf("%d nodes, %v", len(names), err)
		}
	})
}

func TestCreateEphemeral(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		ctx := testContext(t)
		c, other := connect(t, coord.Config{Servers: cl.Connect()}), connect(t, coord.Config{Servers: cl.Connect()})
		s := session(t, c)
		st, err := s.CreateEphemeral(ctx, "/e/f/g", []byte("v"))
		if err != nil || st.EphemeralOwner != s.ID() {
			t.Fatalf("%+v, %v", st, err)
		}
		// As after a lost answer.
		if again, err := s.CreateEphemeral(ctx, "/e/f/g", []byte("v")); err != nil || again != st {
			t.Errorf("again: %+v, %v", again, err)
		}
		for name, try := range map[string]func() error{
			"other value": func() error { _, err := s.CreateEphemeral(ctx, "/e/f/g", []byte("w")); return err },
			"other session": func() error {
				_, err := session(t, other).CreateEphemeral(ctx, "/e/f/g", []byte("v"))
				return err
			},
		} {
			err := try()
			wantErr(t, name, err, coord.ErrExists)
			var conflict *coord.ConflictError
			if !errors.As(err, &conflict) || conflict.Path != "/e/f/g" || string(conflict.Data) != "v" || conflict.Stat.EphemeralOwner != s.ID() {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, c.Put(ctx, "/p", []byte("v")))
		_, err = s.CreateEphemeral(ctx, "/p", []byte("v"))
		wantErr(t, "persistent node", err, coord.ErrExists)
		must(t, c.Close())
		if _, ok, err := other.Exists(ctx, "/e/f/g"); ok || err != nil {
			t.Errorf("after close: %v, %v", ok, err)
		}
	})
}
