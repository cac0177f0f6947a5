package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"kafkalab/harness/workload"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/producer"
)

// traffic sends messages to all partitions at a steady pace.
type traffic struct {
	cluster *producer.Cluster
	abort   context.CancelFunc // breaks a Send off
	stop    chan struct{}      // closed when no more is to be sent
	done    chan struct{}
	sent    atomic.Int64
	err     error // set before done is closed
}

// paceInterval is the time between two looks at what is due.
const paceInterval = 5 * time.Millisecond

// startTraffic begins to send. died is called if it ends with an error.
func startTraffic(ctx context.Context, zooKeeper, topic string, opts options, runID uint64, payloadBytes int, most int64, died func(error)) (*traffic, error) {
	generator, err := workload.NewGenerator(runID, payloadBytes)
	if err != nil {
		return nil, err
	}
	cfg := opts.producer("")
	cfg.Brokers = nil
	cluster, err := producer.OpenCluster(ctx, producer.ClusterConfig{
		Config: cfg, ZooKeeper: coord.Config{Servers: zooKeeper, SessionTimeout: opts.cluster.session},
	})
	if err != nil {
		return nil, err
	}
	t := &traffic{cluster: cluster, stop: make(chan struct{}), done: make(chan struct{})}
	ctx, t.abort = context.WithCancel(ctx)
	go func() {
		defer close(t.done)
		if err := t.send(ctx, topic, generator, opts.cluster.pace, most); err != nil && ctx.Err() == nil {
			t.err = fmt.Errorf("sending message %d: %w", t.sent.Load(), err)
			died(t.err)
		}
	}()
	return t, nil
}

// send sends what is due at the pace until most are sent or it is to stop.
func (t *traffic) send(ctx context.Context, topic string, g *workload.Generator, pace int, most int64) error {
	tick := time.NewTicker(paceInterval)
	defer tick.Stop()
	began := time.Now()
	for t.sent.Load() < most {
		due := min(most, int64(time.Since(began).Seconds()*float64(pace)))
		for t.sent.Load() < due {
			if err := t.cluster.Send(ctx, topic, nil, g.Next()); err != nil {
				return err
			}
			t.sent.Add(1)
		}
		select {
		case <-tick.C:
		case <-t.stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// end stops the sending, waits until the brokers have all of it, and returns
// how many messages that are. When ctx ends it waits for nothing.
func (t *traffic) end(ctx context.Context) (int64, error) {
	close(t.stop)
	defer t.abort()
	defer context.AfterFunc(ctx, t.abort)()
	<-t.done
	err := errors.Join(t.err, t.cluster.Flush(ctx))
	return t.sent.Load(), errors.Join(err, t.cluster.Close(ctx))
}
