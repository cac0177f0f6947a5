package producer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"kafkalab/kafka/producer"
)

// TestB16ClusterOneBrokerStopped: one of two brokers is stopped by a signal. More is
// sent than its queue and its sockets hold, and goes to the other one: no policy has
// to do anything. When it goes on all is delivered (fault B16).
func TestB16ClusterOneBrokerStopped(t *testing.T) {
	first, process := startProcess(t)
	second, _ := startProcess(t)
	for _, cfg := range []producer.Config{
		{QueueFull: producer.QueueError}, {QueueFull: producer.QueueDrop},
		{QueueFull: producer.QueueError, Async: true, BatchMessages: 3},
		{QueueFull: producer.QueueError, Async: true, BatchMessages: 3, Acks: producer.AcksAppended, MaxInFlight: 64},
	} {
		t.Run(kindName(cfg)+" "+cfg.QueueFull.String(), func(t *testing.T) {
			cfg.MaxBufferBytes, cfg.QueueInterval = 100_000, 10*time.Millisecond
			before := [...]int64{countLog(t, first), countLog(t, second)}
			c := openCluster(t, producer.ClusterConfig{Config: cfg, StaticBrokers: []string{first, second}})
			payload := noise(10_000)
			mustPublish(t, c, "t", nil, payload)
			mustSignal(t, process, syscall.SIGSTOP)
			// Until so much has gone to the second one that the first has had its fill.
			sent := int64(1)
			for range 3000 {
				await(t, "room", func() bool { // the other one may be slower than this loop
					sent++
					dropped := c.Stats().Dropped
					err := c.Send(testContext(t), "t", nil, payload)
					if err != nil && !errors.Is(err, producer.ErrQueueFull) {
						t.Fatal(err)
					}
					return err == nil && c.Stats().Dropped == dropped
				})
			}
			mustSignal(t, process, syscall.SIGCONT)
			mustEnd(t, c)
			st := c.Stats()
			if balanced(t, st); st.Sent != sent || st.Pending != 0 {
				t.Errorf("%d sent: stats %+v", sent, st)
			}
			stopped, other := countLog(t, first)-before[0], countLog(t, second)-before[1]
			if stopped+other != st.Delivered || other <= stopped {
				t.Errorf("%d messages at the stopped broker, %d at the other one: stats %+v", stopped, other, st)
			}
		})
	}
}

// TestB16ClusterQueueFull: all brokers are stopped by a signal. Each policy does what
// it says over the cluster, nothing is missing that no counter shows, and who waits
// goes on when one broker does (fault B16).
func TestB16ClusterQueueFull(t *testing.T) {
	addrs, processes := make([]string, 2), make([]*os.Process, 2)
	for i := range addrs {
		addrs[i], processes[i] = startProcess(t)
	}
	for _, policy := range []producer.QueuePolicy{producer.QueueWait, producer.QueueWaitAtMost, producer.QueueDrop, producer.QueueError} {
		for _, cfg := range []producer.Config{{}, {Async: true, BatchMessages: 3}, {Async: true, BatchMessages: 3, Acks: producer.AcksAppended, MaxInFlight: 4}} {
			t.Run(fmt.Sprintf("%v async %v acks %v", policy, cfg.Async, cfg.Acks), func(t *testing.T) {
				cfg.QueueFull, cfg.MaxBufferBytes, cfg.QueueInterval = policy, 100_000, time.Hour
				if policy == producer.QueueWaitAtMost {
					cfg.QueueTimeout = 20 * time.Millisecond
				}
				testClusterQueueFull(t, cfg, addrs, processes)
			})
		}
	}
}

func testClusterQueueFull(t *testing.T, cfg producer.Config, addrs []string, processes []*os.Process) {
	before := countLog(t, addrs[0]) + countLog(t, addrs[1])
	c := openCluster(t, producer.ClusterConfig{Config: cfg, StaticBrokers: addrs})
	payload := noise(10_000)
	var l ledger
	if err := l.send(testContext(t), c, nil, payload); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		mustSignal(t, p, syscall.SIGSTOP)
	}
	dropped := int64(0)
	for full := 0; full < 3; {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if cfg.QueueFull == producer.QueueWait { // would wait for ever
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		}
		err := l.send(ctx, c, nil, payload)
		cancel()
		want := producer.ErrQueueFull
		if cfg.QueueFull == producer.QueueWait {
			want = context.DeadlineExceeded
		}
		if errors.Is(err, want) && cfg.QueueFull != producer.QueueDrop {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
		if n := c.Stats().Dropped; n > dropped {
			full, dropped = full+1, n
		}
	}
	waiting := make(chan error, 1)
	if cfg.QueueFull == producer.QueueWait {
		go func() { waiting <- l.send(testContext(t), c, nil, payload) }()
	} else {
		waiting <- nil
	}
	mustSignal(t, processes[1], syscall.SIGCONT)
	if cfg.QueueFull != producer.QueueWait {
		await(t, "room", func() bool {
			dropped := c.Stats().Dropped
			return l.send(testContext(t), c, nil, payload) == nil && c.Stats().Dropped == dropped
		})
	}
	if err := <-waiting; err != nil {
		t.Errorf("who waited: %v", err)
	}
	mustSignal(t, processes[0], syscall.SIGCONT)
	if err := c.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := l.send(testContext(t), c, nil, payload); err != nil {
		t.Errorf("with room again: %v", err)
	}
	mustEnd(t, c)
	st := c.Stats()
	if balanced(t, st); st.Sent != l.sent.Load() || st.Failed != l.failed.Load() || st.Pending != 0 {
		t.Errorf("%d sent, %d failed: stats %+v", l.sent.Load(), l.failed.Load(), st)
	}
	if got := countLog(t, addrs[0]) + countLog(t, addrs[1]) - before; got != st.Delivered {
		t.Errorf("%d messages in the logs, stats %+v", got, st)
	}
}
