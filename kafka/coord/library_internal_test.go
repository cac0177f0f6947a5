package coord

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// TestLibraryQueue: what the library has queued when its session ends is dropped.
// By itself it would make a new session and carry it out there.
func TestLibraryQueue(t *testing.T) {
	zktest.EachShared(t, func(t *testing.T, cl *zktest.Cluster) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := Connect(ctx, Config{Servers: cl.Connect(), SessionTimeout: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		s, err := c.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cl.Cut()
		for s.OutOfTouch() == 0 {
			sleep(ctx, time.Millisecond)
		}
		var wg sync.WaitGroup
		for i := range 40 { // more than its queue takes
			wg.Go(func() {
				path := c.full(fmt.Sprintf("/q%d", i))
				if _, err := s.conn.Create(path, nil, 0, openACL); err == nil {
					t.Errorf("%s was made", path)
				}
			})
		}
		for s.queued() < 16 {
			sleep(ctx, time.Millisecond)
		}
		if err := cl.Expire(s.ID()); err != nil {
			t.Fatal(err)
		}
		cl.Mend()
		<-s.ctx.Done()
		wg.Wait()
		next, err := c.Session(ctx)
		if err != nil || next == s {
			t.Fatalf("next session: %v", err)
		}
		if names, _, err := next.Children(ctx, "/"); len(names) > 0 || err != nil {
			t.Errorf("nodes %v, %v", names, err)
		}
	})
}
