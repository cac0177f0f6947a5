package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/wire"
)

// PartitionLag says how far a consumer is behind in a partition.
type PartitionLag struct {
	TopicPartition
	Consumed int64 // offset behind what the application is done with
	End      int64 // offset behind the last message that can be fetched
	Lag      int64 // bytes of log between them, 0 or more
}

// Lag asks the brokers of the partitions that this consumer owns for the ends of
// their logs, each over a connection of its own. Those whose start is not known yet
// are left out. The result holds what was answered also if there is an error.
func (g *Group) Lag(ctx context.Context) ([]PartitionLag, error) {
	byAddr := make(map[string][]PartitionLag)
	for _, o := range g.ownerships() {
		at := g.consumed(o)
		if at < 0 {
			continue
		}
		g.mu.Lock()
		addr := o.addr
		g.mu.Unlock()
		byAddr[addr] = append(byAddr[addr], PartitionLag{TopicPartition: o.TopicPartition, Consumed: at})
	}
	var mu sync.Mutex
	var lags []PartitionLag
	var errs []error
	var wg sync.WaitGroup
	for addr, list := range byAddr {
		wg.Go(func() {
			answered, err := g.lagAt(ctx, addr, list)
			mu.Lock()
			defer mu.Unlock()
			lags = append(lags, answered...)
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return lags, errors.Join(errs...)
}

// lagAt asks one broker. It returns the answers until the first error.
func (g *Group) lagAt(ctx context.Context, addr string, list []PartitionLag) (answered []PartitionLag, err error) {
	conn, err := client.Dial(ctx, addr, client.Config{DialTimeout: g.cfg.Feed.DialTimeout, RequestTimeout: g.cfg.Feed.RequestTimeout})
	if err != nil {
		return nil, fmt.Errorf("ends of logs: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, l := range list {
		ends, err := conn.Offsets(ctx, l.Topic, l.Partition.Partition, wire.TimeLatest, 1)
		if err != nil {
			return answered, fmt.Errorf("end of the log of %v: %w", l.TopicPartition, err)
		}
		if len(ends) == 1 {
			l.End = ends[0]
			l.Lag = max(l.End-l.Consumed, 0)
			answered = append(answered, l)
		}
	}
	return answered, nil
}

// lagTimeout bounds the wait for brokers when metrics are collected.
const lagTimeout = 2 * time.Second

func (g *Group) lagForMetrics() []PartitionLag {
	ctx, cancel := context.WithTimeout(g.life, lagTimeout)
	defer cancel()
	lags, err := g.Lag(ctx)
	if err != nil && g.life.Err() == nil {
		g.log.Warn("lag is not known of all partitions", "error", err)
	}
	return lags
}
