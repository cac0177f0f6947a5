package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"kafkalab/kafka/client"
)

const (
	// endsInterval is how often it is looked how far the logs reach.
	endsInterval = 500 * time.Millisecond
	// endsTimeout bounds one look.
	endsTimeout = 10 * time.Second
	// silentLimit is how long looks may fail until that is told, and tellEndsInterval the
	// least time until it is told again: meanwhile all windows stay open.
	silentLimit      = 10 * time.Second
	tellEndsInterval = time.Minute
	// absentLimit is how long a partition that was counted may be registered nowhere
	// until it is taken as gone for good. Before that its broker may come back with
	// messages that nobody has seen.
	absentLimit = 10 * time.Minute
)

// lags are what is known of the ends of the logs.
type lags struct {
	mu     sync.Mutex
	bytes  map[partitionKey]int64 // visible and not counted, at the last look
	absent map[partitionKey]time.Time
}

// watchEnds finds out when everything was counted that the tier held at a time: it asks
// each broker for the watermarks of its partitions, and compares the positions with
// them until they are there.
func (w *Watcher) watchEnds() {
	conns := map[int32]*client.Conn{}
	defer func() {
		for _, c := range conns {
			_ = c.Close() // nothing is under way on it
		}
	}()
	var ends map[partitionKey]logEnds
	var asked time.Time
	var trouble trouble
	for {
		if ends == nil {
			at := w.cfg.Clock.Now()
			ctx, cancel := context.WithTimeout(w.life, endsTimeout)
			before := w.checker.counted()
			found, err := w.ends(ctx, conns)
			cancel()
			if err == nil {
				err = shorter(found, before)
			}
			if err == nil {
				ends, asked = found, at
			}
			if trouble.toBeTold(err, w.cfg.Clock.Elapsed()) && w.life.Err() == nil {
				w.cfg.Logger.Warn("how far the logs reach is not known: windows stay open until it is", "error", err)
			}
		}
		if ends != nil && w.reached(ends) {
			w.checker.caughtUp(asked)
			ends = nil
		}
		select {
		case <-time.After(endsInterval):
		case <-w.life.Done():
			return
		}
		if ends != nil && w.cfg.Clock.Now().Sub(asked) > endsTimeout {
			ends = nil // a partition may be gone: look again
		}
	}
}

// trouble says when it is told of what goes on failing.
type trouble struct {
	failing     bool
	since, told time.Duration // when that began, and was told last
	everTold    bool
}

// toBeTold is told how a look has ended, and says whether the user is to hear of its error.
func (t *trouble) toBeTold(err error, now time.Duration) bool {
	switch {
	case err == nil:
		t.failing = false
		return false
	case !t.failing:
		t.failing, t.since = true, now
	}
	if now-t.since < silentLimit || t.everTold && now-t.told < tellEndsInterval {
		return false
	}
	t.told, t.everTold = now, true
	return true
}

// logEnds is where a log begins and ends. There is nothing in it where both are the same.
type logEnds struct{ first, end int64 }

// shorter returns an error if a log ends before what was counted of it had come to: it
// began anew, and the consumer has not found out yet. An empty one has nothing to be counted.
func shorter(ends map[partitionKey]logEnds, counted map[partitionKey]int64) error {
	for key, e := range ends {
		if next := counted[key]; e.first < e.end && e.end < next {
			return fmt.Errorf("partition %v is counted up to offset %d, and ends at %d", key, next, e.end)
		}
	}
	return nil
}

// reached says whether all is counted up to some ends, and notes what is not.
func (w *Watcher) reached(ends map[partitionKey]logEnds) bool {
	lag := map[partitionKey]int64{}
	all := true
	for key, n := range w.checker.behind(ends) {
		lag[key] = n
		all = all && n == 0
	}
	w.lags.mu.Lock()
	w.lags.bytes = lag
	w.lags.mu.Unlock()
	return all
}

// ends asks for the beginning and the watermark of every partition.
func (w *Watcher) ends(ctx context.Context, conns map[int32]*client.Conn) (map[partitionKey]logEnds, error) {
	brokers, err := w.cfg.Registry.Brokers(ctx)
	if err != nil {
		return nil, err
	}
	addrs := map[int32]string{}
	for _, b := range brokers {
		addrs[b.ID] = b.Addr()
	}
	wanted := map[int32][]string{} // topics by broker
	registered := map[partitionKey]bool{}
	for _, topic := range w.topics() {
		partitions, err := w.cfg.Registry.Partitions(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			registered[partitionKey{topic, p.Broker, p.Partition}] = true
			if topics := wanted[p.Broker]; len(topics) == 0 || topics[len(topics)-1] != topic {
				wanted[p.Broker] = append(topics, topic)
			}
		}
	}
	if err := w.awaitAbsent(registered); err != nil {
		return nil, err
	}
	ends := map[partitionKey]logEnds{}
	for id, topics := range wanted {
		if addrs[id] == "" {
			return nil, fmt.Errorf("broker %d has topics and is not registered", id)
		}
		if err := w.askEnds(ctx, conns, id, addrs[id], topics, ends); err != nil {
			return nil, fmt.Errorf("broker %d: %w", id, err)
		}
	}
	for key := range registered {
		if _, known := ends[key]; !known {
			return nil, fmt.Errorf("the broker does not know partition %v", key)
		}
	}
	return ends, nil
}

// askEnds asks one broker.
func (w *Watcher) askEnds(ctx context.Context, conns map[int32]*client.Conn, id int32, addr string, topics []string, ends map[partitionKey]logEnds) error {
	conn := conns[id]
	if conn != nil && conn.Addr() != addr {
		_ = conn.Close() // it leads to where the broker was before
		conn = nil
	}
	if conn == nil {
		var err error
		if conn, err = client.Dial(ctx, addr, client.Config{}); err != nil {
			delete(conns, id)
			return err
		}
		conns[id] = conn
	}
	states, err := conn.Topics(ctx, topics...)
	if err != nil {
		delete(conns, id)
		return errors.Join(err, conn.Close())
	}
	for _, s := range states {
		ends[partitionKey{s.Topic, id, s.Partition}] = logEnds{s.First, s.Watermark}
	}
	return nil
}

// awaitAbsent returns an error while a partition that was counted is registered nowhere,
// and has not been for longer than absentLimit.
func (w *Watcher) awaitAbsent(registered map[partitionKey]bool) error {
	now := w.cfg.Clock.Now()
	w.checker.mu.Lock()
	positions := map[partitionKey]bool{}
	for key := range w.checker.positions {
		positions[key] = true
	}
	w.checker.mu.Unlock()
	w.lags.mu.Lock()
	defer w.lags.mu.Unlock()
	maps.DeleteFunc(w.lags.absent, func(key partitionKey, _ time.Time) bool { return registered[key] })
	for key := range positions {
		if registered[key] {
			continue
		}
		since, known := w.lags.absent[key]
		if !known {
			if w.lags.absent == nil {
				w.lags.absent = map[partitionKey]time.Time{}
			}
			since = now
			w.lags.absent[key] = now
		}
		if now.Sub(since) < absentLimit {
			return fmt.Errorf("partition %v was counted, and its broker is not registered since %v", key, since.Format(time.RFC3339))
		}
	}
	return nil
}
