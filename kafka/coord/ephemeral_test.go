package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest/zktest"
)

// TestEphemeral: the node is made, made again after deletion and in each new
// session with a new value, and deleted by Close.
func TestEphemeral(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c, other := connect(t, coord.Config{Servers: cl.Connect()}), connect(t, coord.Config{Servers: cl.Direct()})
		ctx := testContext(t)
		var made atomic.Int64
		e := c.Ephemeral("/e/f", func() []byte { return fmt.Append(nil, made.Add(1)) })
		must(t, e.Wait(ctx))
		wantValue(t, other, "/e/f", "1")
		owned := func() bool {
			st, ok, err := other.Exists(ctx, "/e/f")
			return ok && err == nil && st.EphemeralOwner == session(t, c).ID()
		}
		must(t, other.Delete(ctx, "/e/f", -1))
		eventually(t, "node made again after its deletion", owned)
		must(t, cl.Expire(session(t, c).ID()))
		eventually(t, "node made again in the next session", owned)
		must(t, e.Wait(ctx))
		cl.DropConnections()
		must(t, e.Wait(ctx))
		if !owned() || made.Load() != 3 {
			t.Errorf("owned %v, made %d times", owned(), made.Load())
		}
		must(t, e.Close())
		must(t, e.Close())
		if _, ok, err := other.Exists(ctx, "/e/f"); ok || err != nil {
			t.Errorf("after close: %v, %v", ok, err)
		}
		wantErr(t, "wait after close", e.Wait(ctx), coord.ErrClosed)
		wantErr(t, "bad path", c.Ephemeral("e", func() []byte { return nil }).Wait(ctx), coord.ErrArgument)
	})
}

// TestEphemeralConflict: while another node is in the way, Wait says which, and
// when it vanishes the node is made. So it is with a node of the client's own
// earlier session that the server has not deleted yet.
func TestEphemeralConflict(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		c, other := connect(t, coord.Config{Servers: cl.Connect()}), connect(t, coord.Config{Servers: cl.Direct()})
		ctx := testContext(t)
		// Stands for the old session: a node of the same value, which lives on.
		_, err := session(t, other).CreateEphemeral(ctx, "/e", []byte("v"))
		must(t, err)
		e := c.Ephemeral("/e", func() []byte { return []byte("v") })
		for wait := 100 * time.Millisecond; ; wait *= 2 {
			short, cancel := context.WithTimeout(ctx, wait)
			err = e.Wait(short)
			cancel()
			var conflict *coord.ConflictError
			if errors.As(err, &conflict) {
				wantErr(t, "wait", err, context.DeadlineExceeded)
				if conflict.Stat.EphemeralOwner != session(t, other).ID() || conflict.Path != "/e" || string(conflict.Data) != "v" {
					t.Errorf("conflict %v", conflict)
				}
				break
			}
			if err == nil || ctx.Err() != nil {
				t.Fatalf("wait: %v", err)
			}
		}
		must(t, other.Close()) // the server deletes the node now
		must(t, e.Wait(ctx))
		if st, ok, err := c.Exists(ctx, "/e"); !ok || st.EphemeralOwner != session(t, c).ID() || err != nil {
			t.Errorf("%+v, %v, %v", st, ok, err)
		}
	})
}
