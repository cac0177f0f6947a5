package producer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// ledger counts what an application is told.
type ledger struct {
	sent, failed, unconfirmed atomic.Int64
}

// send sends n messages and notes what comes of it.
func (l *ledger) send(ctx context.Context, c *producer.Cluster, key []byte, payloads ...[]byte) error {
	l.sent.Add(int64(len(payloads)))
	err := c.Send(ctx, "t", key, payloads...)
	var partial *producer.PartialError
	switch {
	case errors.As(err, &partial):
		l.failed.Add(int64(len(payloads) - partial.Taken))
	case err != nil:
		l.failed.Add(int64(len(payloads)))
	}
	l.report(err)
	return err
}

// report notes the losses that an error tells of.
func (l *ledger) report(err error) {
	var lost *producer.NotSentError
	if errors.As(err, &lost) {
		l.failed.Add(lost.Messages)
		l.unconfirmed.Add(lost.Unconfirmed)
	}
}

// check compares the counts of the application, of the cluster, which is closed,
// and of the logs.
func (l *ledger) check(t *testing.T, c *producer.Cluster, inLogs int64) {
	t.Helper()
	st := c.Stats()
	balanced(t, st)
	if st.Sent != l.sent.Load() || st.Failed != l.failed.Load() || st.Pending != 0 {
		t.Errorf("%d sent, %d failed: stats %+v", l.sent.Load(), l.failed.Load(), st)
	}
	// What was refused after its acknowledgement got lost may be there as well.
	if inLogs < st.Delivered || inLogs > st.Delivered+st.Failed {
		t.Errorf("%d messages in the logs: stats %+v", inLogs, st)
	}
}

// inLogs counts the messages, and restarts the brokers so that all are visible.
func inLogs(t *testing.T, brokers ...*kafkatest.Broker) (n int64) {
	t.Helper()
	for _, b := range brokers {
		b.Restart()
	}
	return visible(t, brokers...)
}

// visible counts the messages that consumers can get.
func visible(t *testing.T, brokers ...*kafkatest.Broker) (n int64) {
	t.Helper()
	for _, b := range brokers {
		for p := range b.Config.Storage.DefaultPartitions {
			n += int64(len(payloadsOf(t, b.HostPort(), "t", p)))
		}
	}
	return n
}

// kinds are the ways to send.
var kinds = []producer.Config{
	{}, {NoCoalesce: true}, {Acks: producer.AcksReceived}, {Acks: producer.AcksAppended}, {Acks: producer.AcksFlushed},
	{Async: true, BatchMessages: 7}, {Async: true, BatchMessages: 7, Acks: producer.AcksAppended},
	{Async: true, BatchMessages: 7, Acks: producer.AcksFlushed, Codec: message.CodecSnappy},
}

func kindName(cfg producer.Config) string {
	return fmt.Sprintf("async %v acks %v noCoalesce %v codec %v", cfg.Async, cfg.Acks, cfg.NoCoalesce, cfg.Codec)
}

// One of two brokers stops: messages go to the other one, and to both when it is
// back; whether the registry says that it has gone, says that it is there, or there
// is none.
func TestClusterFailover(t *testing.T) {
	for _, source := range []string{"static", "still registered", "gone"} {
		for _, cfg := range kinds {
			t.Run(source+" "+kindName(cfg), func(t *testing.T) {
				cfg.QueueInterval = 10 * time.Millisecond
				brokers := []*kafkatest.Broker{kafkatest.Start(t, partitions(2)), kafkatest.Start(t, partitions(2))}
				var c *producer.Cluster
				var f *fleet
				if source == "static" {
					c = openCluster(t, producer.ClusterConfig{Config: cfg, StaticBrokers: []string{brokers[0].HostPort(), brokers[1].HostPort()}})
				} else {
					f = newFleet(t)
					for i, b := range brokers {
						f.enter(int32(i), b.HostPort(), map[string]int32{"t": 2})
					}
					c = f.open(cfg)
				}
				var l ledger
				publish := func(n int) {
					for i := range n {
						var key []byte
						if source == "gone" && i%3 == 0 {
							key = strconv.AppendInt(nil, int64(i), 10)
						}
						_ = l.send(testContext(t), c, key, []byte("payload"))
					}
				}
				publish(100)
				l.report(c.Flush(testContext(t)))
				brokers[1].Stop()
				if source == "gone" {
					f.leave(1)
				}
				publish(100)
				l.report(c.Flush(testContext(t)))
				// All that could be in doubt is known to be by now.
				failed := l.failed.Load()
				publish(100)
				if err := c.Flush(testContext(t)); err != nil {
					t.Errorf("flush with one broker: %v", err)
				}
				if got := l.failed.Load() - failed; got > 0 {
					t.Errorf("%d messages failed with one broker", got)
				}
				brokers[1].Restart()
				if source == "gone" {
					f.enter(1, brokers[1].HostPort(), map[string]int32{"t": 2})
				}
				before := visible(t, brokers[1])
				await(t, "messages at the broker that is back", func() bool {
					publish(10)
					l.report(c.Flush(testContext(t)))
					return visible(t, brokers[1]) > before
				})
				l.report(c.Close(testContext(t)))
				l.check(t, c, inLogs(t, brokers...))
			})
		}
	}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if given := os.Getenv("KAFKALAB_SEED"); given != "" {
		var err error
		if n, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d does the same again", n)
	return n
}

// Whatever brokers do, every message is accounted for, at any moment and in the
// end, and none is in the logs twice.
func TestClusterBrokersComeAndGo(t *testing.T) {
	for _, cfg := range []producer.Config{
		{MaxBufferBytes: 20_000},
		{Acks: producer.AcksAppended},
		{Async: true, BatchMessages: 20, QueueInterval: 5 * time.Millisecond, MaxBufferBytes: 5000},
		{Async: true, BatchMessages: 20, QueueInterval: 5 * time.Millisecond, Acks: producer.AcksAppended, MaxInFlight: 4, QueueFull: producer.QueueDrop},
		{Async: true, BatchMessages: 20, QueueInterval: 5 * time.Millisecond, QueueFull: producer.QueueError, MaxBufferBytes: 5000, Codec: message.CodecSnappy},
	} {
		t.Run(fmt.Sprintf("%s %v", kindName(cfg), cfg.QueueFull), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed(t), 1))
			cfg.DialTimeout = time.Second
			f := newFleet(t)
			var brokers []*kafkatest.Broker
			for i := range 3 {
				// Flushes would take most of the time.
				b := kafkatest.Start(t, partitions(2), func(c *broker.Config) { c.Storage.FlushMessages, c.Storage.FlushInterval = 1000, 10*time.Millisecond })
				brokers = append(brokers, b)
				f.enter(int32(i), b.HostPort(), map[string]int32{"t": 2})
			}
			c := f.open(cfg)
			var l ledger
			var senders sync.WaitGroup
			stop := make(chan struct{})
			for i := range 4 {
				senders.Go(func() { publishUntil(stop, &l, c, i) })
			}
			for range 40 {
				disturb(f, brokers, rnd)
				for range 20 {
					balanced(t, c.Stats())
				}
			}
			close(stop)
			senders.Wait()
			for i, b := range brokers {
				if f.entries[int32(i)] == nil {
					b.Restart()
					f.enter(int32(i), b.HostPort(), map[string]int32{"t": 2})
				}
			}
			l.report(c.Close(testContext(t)))
			l.check(t, c, inLogs(t, brokers...))
			seen := map[string]bool{}
			for _, b := range brokers {
				for p := range int32(2) {
					for _, payload := range payloadsOf(t, b.HostPort(), "t", p) {
						if seen[payload] {
							t.Errorf("%s is there twice", payload)
						}
						seen[payload] = true
					}
				}
			}
			t.Logf("%d unconfirmed, stats %+v", l.unconfirmed.Load(), c.Stats())
		})
	}
}

// publishUntil sends messages, each different, until stop is closed.
func publishUntil(stop chan struct{}, l *ledger, c *producer.Cluster, sender int) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		var key []byte
		if i%2 == 0 {
			key = strconv.AppendInt(nil, int64(i%10), 10)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = l.send(ctx, c, key, fmt.Appendf(nil, "message %d of %d", i, sender), fmt.Appendf(nil, "another %d of %d", i, sender))
		cancel()
		time.Sleep(100 * time.Microsecond) // else it is all about speed
	}
}

// disturb stops a broker, lets it come back, or has the registry say so.
func disturb(f *fleet, brokers []*kafkatest.Broker, rnd *rand.Rand) {
	i := rnd.IntN(len(brokers))
	id, b := int32(i), brokers[i]
	topics := map[string]int32{"t": 2}
	switch {
	case f.entries[id] == nil: // it is stopped
		b.Restart()
		f.enter(id, b.HostPort(), topics)
	case rnd.IntN(4) == 0: // its session expires
		f.leave(id)
		f.enter(id, b.HostPort(), topics)
	case rnd.IntN(3) == 0: // a restart that the registry does not notice
		b.Restart()
	case rnd.IntN(2) == 0:
		f.leave(id)
		b.Stop()
	default:
		b.Stop()
		f.leave(id)
	}
}

// TestB15ClusterCloseDelivers: 10,000 messages are sent and the cluster is closed at
// once; then all are in the logs. With the brokers stopped Close returns within its
// time and reports how many were not sent (fault B15).
func TestB15ClusterCloseDelivers(t *testing.T) {
	const n = 10_000
	for _, cfg := range kinds {
		if !cfg.Async && cfg.Acks != producer.AcksNone {
			continue // each has been answered
		}
		t.Run(kindName(cfg), func(t *testing.T) {
			brokers := []*kafkatest.Broker{kafkatest.Start(t), kafkatest.Start(t)}
			addrs := []string{brokers[0].HostPort(), brokers[1].HostPort()}
			c := openCluster(t, producer.ClusterConfig{Config: cfg, StaticBrokers: addrs})
			payload := make([]byte, 91)
			for range n {
				mustPublish(t, c, "t", nil, payload)
			}
			mustEnd(t, c)
			mustEnd(t, c)
			if got := inLogs(t, brokers...); got != n {
				t.Errorf("%d messages in the logs: stats %+v", got, c.Stats())
			}

			c = openCluster(t, producer.ClusterConfig{Config: cfg, StaticBrokers: addrs})
			var l ledger
			_ = l.send(testContext(t), c, nil, payload) // the first connection
			l.report(c.Flush(testContext(t)))
			for _, b := range brokers {
				b.Stop()
			}
			for range 400 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_ = l.send(ctx, c, nil, payload)
				cancel()
				if !cfg.Async && cfg.NoCoalesce {
					break // there is no queue
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			err := c.Close(ctx)
			l.report(err)
			if again := c.Close(testContext(t)); again != err {
				t.Errorf("the second close: %v, the first: %v", again, err)
			}
			l.check(t, c, 1)
			if got := inLogs(t, brokers...); got != n+1 {
				t.Errorf("%d messages in the logs, %d were sent while the brokers were there", got, n+1)
			}
		})
	}
}
