package kafka

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/kafka/registry"
)

// groupOptions are a small cluster and short times. A session lasts for longer
// than a busy machine keeps a consumer from proving it, and quiet is longer than
// the third of it that lies between two proofs.
func groupOptions(zooKeeper string) driver.Options {
	return driver.Options{
		"brokers": "2", "partitions": "3", "zookeeper": zooKeeper, "flush-interval": "10ms",
		"session-timeout": "5s", "commit-interval": "100ms", "quiet": "2s", "pace": "2000",
	}
}

func groupPlan(t *testing.T, consumers int) driver.RebalancePlan {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return driver.RebalancePlan{
		RunID: 7, PayloadBytes: 200, Messages: 1_000_000, Consumers: consumers, Seed: 1,
		Helper: []string{program, "helper"}, Stall: 30 * time.Second,
	}
}

// A group settles after each change, asks nothing of ZooKeeper but commits and
// proofs while nothing changes, loses nothing, and repeats only what a killed
// consumer had not committed.
func TestRebalance(t *testing.T) {
	for zooKeeper, consumers := range map[string]int{"embedded": 3, "real": 2} {
		t.Run(zooKeeper, func(t *testing.T) {
			t.Parallel() // it waits for a session to end
			h, o := openHost(t), groupOptions(zooKeeper)
			if err := New().Check(t.Context(), h, o); errors.Is(err, driver.ErrNotInstalled) && os.Getenv("CI") != "true" {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			s := startServer(t, h, o)
			if len(s.Processes()) != 3 || len(s.Logs()) != 3 {
				t.Errorf("%d processes with logs %v, want 2 brokers and a ZooKeeper", len(s.Processes()), s.Logs())
			}
			plan := groupPlan(t, consumers)
			var moved atomic.Int64
			plan.Moved = func(n int64) { moved.Store(n) }
			r, err := New().(driver.Grouper).Rebalance(t.Context(), s.Target(), o, plan)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", r)
			// All join, all but one leave and are replaced, one is killed, and all but one leave.
			changes := consumers + 2*(consumers-1) + consumers - 2
			if r.Partitions != 6 || len(r.Settles) != changes || len(r.Tries) != changes || len(r.KillSettles) != 1 {
				t.Errorf("%d partitions, times %v, tries %v, after the kill %v", r.Partitions, r.Settles, r.Tries, r.KillSettles)
			}
			for i, seconds := range r.Settles {
				if seconds <= 0 || r.Tries[i] < 1 {
					t.Errorf("change %d: %v s, %d tries", i, seconds, r.Tries[i])
				}
			}
			if r.Exhausted {
				t.Error("nothing was sent any more when a consumer was killed")
			}
			if r.KillSettles[0] < 0.1 {
				t.Errorf("the killed one's session had ended after %v s", r.KillSettles[0])
			}
			if r.QuietSeconds < 2 || r.QuietCommits == 0 || r.QuietProofs == 0 || r.QuietRequests != r.QuietCommits+r.QuietProofs {
				t.Errorf("quiet for %v s: %d requests, %d commits, %d proofs", r.QuietSeconds, r.QuietRequests, r.QuietCommits, r.QuietProofs)
			}
			if r.Sent == 0 || r.Lost != 0 || r.Damaged != 0 || r.Consumed != r.Sent+r.RepeatsClean+r.RepeatsUnclean || moved.Load() != r.Consumed {
				t.Errorf("%d sent, %d consumed (%d told), %d lost, %d damaged", r.Sent, r.Consumed, moved.Load(), r.Lost, r.Damaged)
			}
			if r.RepeatsClean != 0 || r.RepeatsUnclean > r.Uncommitted {
				t.Errorf("repeats: %d clean, %d unclean of %d uncommitted", r.RepeatsClean, r.RepeatsUnclean, r.Uncommitted)
			}
			parts := s.(driver.StoreSplitter).StoreParts()
			if len(parts) != 2 {
				t.Errorf("parts %v", parts)
			}
		})
	}
}

// What keeps a group from its end is told, and nothing is left running.
func TestRebalanceFails(t *testing.T) {
	h, o := openHost(t), groupOptions("embedded")
	if _, err := New().(driver.Grouper).Rebalance(t.Context(), driver.Target{Addr: "127.0.0.1:1"}, nil, groupPlan(t, 2)); err == nil || !strings.Contains(err.Error(), "brokers = 2") {
		t.Errorf("without a ZooKeeper: %v", err)
	}
	s := startServer(t, h, o)
	plan := groupPlan(t, 2)
	plan.Helper = []string{"/bin/sh", "-c", "read spec; echo 'e {\"ready\":true}'; read command; echo out of memory >&2; exit 3"}
	if _, err := New().(driver.Grouper).Rebalance(t.Context(), s.Target(), o, plan); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("with consumers that end: %v", err)
	}
	// A cluster of which one program dies has died.
	if err := s.Processes()[1].Signal(t.Context(), os.Kill); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Died():
	case <-time.After(time.Minute):
		t.Error("a broker was killed, and Died is open")
	}
}

// A helper ends when its input does, and refuses what it does not know.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	err := New().(driver.Helper).Help(t.Context(), strings.NewReader(`{"zookeeper":"127.0.0.1:1","group":"g"}`+"\nsing\n"), &out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `e {"ready":true}`) {
		t.Errorf("it says %q", out.String())
	}
	for _, in := range []string{"", "no JSON\n"} {
		if err := New().(driver.Helper).Help(context.Background(), strings.NewReader(in), io.Discard); err == nil {
			t.Errorf("%q was taken for a specification", in)
		}
	}
}

// What is a repeat, and whose fault it is.
func TestGroupLedger(t *testing.T) {
	l := newGroupLedger()
	p := func(member int, offset, sequence int64) {
		l.add(handedOut{member: member, broker: 1, partition: 2, offset: offset, sequence: sequence}, 10)
	}
	p(0, 0, 0)
	p(0, 10, 1)
	p(0, 20, 2) // killed here
	p(1, 20, 2)
	p(1, 30, 3)
	p(2, 30, 3) // nobody was killed who had it
	p(2, 40, damagedSequence)
	p(2, 50, 10) // no message that was sent
	if consumed, distinct := l.counts(); consumed != 8 || distinct != 4 || l.damaged != 2 {
		t.Errorf("%d consumed, %d distinct, %d damaged", consumed, distinct, l.damaged)
	}
	if clean, unclean := l.repeats(map[int]bool{0: true}); clean != 1 || unclean != 1 {
		t.Errorf("repeats: %d clean, %d unclean", clean, unclean)
	}
	at := registry.Partition{Broker: 1, Partition: 2}
	for _, c := range []struct {
		committed map[registry.Partition]int64
		want      int64
	}{{nil, 3}, {map[registry.Partition]int64{at: 10}, 2}, {map[registry.Partition]int64{at: 30}, 0}} {
		if n := l.uncommitted(0, c.committed); n != c.want {
			t.Errorf("%d uncommitted behind %v, want %d", n, c.committed, c.want)
		}
	}
}

func TestParseHanded(t *testing.T) {
	h, ok := parseHanded([]byte("m 1 22 333 -1"), 4)
	if want := (handedOut{4, 1, 22, 333, -1}); !ok || h != want {
		t.Errorf("%+v, %v", h, ok)
	}
	for _, line := range []string{"", "m", "m 1 2 3", "m 1 2 3 4 5", "m 1 2 3 x", "m 1 2 3 ", "m 1 2 3 1234567890123456789", "n 1 2 3 4"} {
		if _, ok := parseHanded([]byte(line), 0); ok {
			t.Errorf("%q was taken for a message", line)
		}
	}
}
