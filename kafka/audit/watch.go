package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/registry"
)

// DefaultSaveInterval is how often positions and counts are written, if there is
// anything new.
const DefaultSaveInterval = time.Second

// WatchConfig describes a checker that consumes a tier: the topics of a cluster, and
// its monitoring events. Zero fields take the defaults, where there are any.
type WatchConfig struct {
	CheckerConfig

	// Registry tells which brokers live and what partitions they have. It, and its
	// client, are the caller's, and must outlive the watcher.
	Registry *registry.Registry
	// Group is the consumer group, of which the watcher must be the only member.
	// Default: "audit-", the tier, and the id of the state. Nothing is committed in it:
	// positions are in the state.
	Group string
	// EventTopic is the topic of the monitoring events; empty: this cluster has none,
	// and the events come with the state of another tier.
	EventTopic string

	// SaveInterval is how often the state is written. Default: 1 s. Writing takes at
	// most a tenth of the time.
	SaveInterval time.Duration
}

// Watcher consumes the topics of a tier from all partitions and counts what comes.
// Where it begins for the first time is the beginning of the logs.
type Watcher struct {
	cfg     WatchConfig
	checker *checker
	group   *consumer.Group

	life      context.Context // ends with Close
	endLife   context.CancelFunc
	wg        sync.WaitGroup
	closeOnce sync.Once
	closeErr  error

	mu  sync.Mutex // guards err
	err error      // why a stream ended before Close

	lags lags
}

// OpenWatcher goes on with the state in the file, or begins one, and consumes until
// Close. ctx bounds only the opening.
func OpenWatcher(ctx context.Context, cfg WatchConfig) (*Watcher, error) {
	if cfg.SaveInterval == 0 {
		cfg.SaveInterval = DefaultSaveInterval
	}
	switch {
	case cfg.SaveInterval < 0:
		return nil, fmt.Errorf("audit: save the state every %v: give more than 0", cfg.SaveInterval)
	case cfg.Registry == nil:
		return nil, errors.New("audit: no registry is given")
	case slices.Contains(cfg.Topics, cfg.EventTopic):
		return nil, fmt.Errorf("audit: topic %s is that of the monitoring events, and cannot be audited itself", cfg.EventTopic)
	}
	c, err := openChecker(cfg.CheckerConfig)
	if err != nil {
		return nil, err
	}
	cfg.CheckerConfig = c.cfg
	if cfg.Group == "" {
		cfg.Group = "audit-" + cfg.Tier + "-" + c.state.ID
	}
	w := &Watcher{cfg: cfg, checker: c}
	// The id, and with it the group, is to outlive a crash from the first message on.
	if err := c.save(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if w.group, err = consumer.OpenGroup(ctx, w.groupConfig()); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: %w", err), c.close())
	}
	w.life, w.endLife = context.WithCancel(context.Background())
	for _, topic := range cfg.Topics {
		w.wg.Go(func() { w.consume(topic, w.readMessages()) })
	}
	if cfg.EventTopic != "" {
		w.wg.Go(func() { w.consume(cfg.EventTopic, readEvents) })
	}
	w.wg.Go(w.keepSaving)
	w.wg.Go(w.watchEnds)
	return w, nil
}

// topics are all that are consumed.
func (w *Watcher) topics() []string {
	if w.cfg.EventTopic == "" {
		return w.cfg.Topics
	}
	return append(slices.Clone(w.cfg.Topics), w.cfg.EventTopic)
}

func (w *Watcher) groupConfig() consumer.GroupConfig {
	streams := map[string]int{}
	for _, t := range w.topics() {
		streams[t] = 1
	}
	return consumer.GroupConfig{
		Registry: w.cfg.Registry, Group: w.cfg.Group, Topics: streams, OffsetReset: consumer.ResetSmallest, AutoCommit: -1, Logger: w.cfg.Logger,
		StartOffset: func(topic string, p registry.Partition) (int64, bool) {
			return w.checker.start(partitionKey{topic, p.Broker, p.Partition})
		},
	}
}

// reader reads the messages of a chunk.
type reader func(ctx context.Context, payload []byte) counted

func (w *Watcher) readMessages() reader {
	header := w.cfg.Header
	if header == nil {
		header = plainReader()
	}
	return func(ctx context.Context, payload []byte) (m counted) {
		m.header, m.err = header(ctx, payload)
		return m
	}
}

func readEvents(_ context.Context, payload []byte) (m counted) {
	m.event, m.err = ParseEvent(payload)
	return m
}

// temporaryPause is the time between two attempts to read a message.
const temporaryPause = time.Second

// consume counts what comes of a topic until Close.
func (w *Watcher) consume(topic string, read reader) {
	stream := w.group.Streams(topic)[0]
	var batch []counted
	for {
		chunk, err := stream.NextChunk(w.life)
		var of *consumer.PartitionError
		switch {
		case err == nil:
		case errors.As(err, &of):
			key := partitionKey{of.Topic, of.Broker, of.Partition}
			if of.Temporary {
				w.cfg.Logger.Warn("a partition is tried again", "partition", key.String(), "error", err)
			} else {
				w.checker.stalled(key, err)
			}
			continue
		case w.life.Err() != nil:
			return
		default:
			w.fail(fmt.Errorf("audit: topic %s: %w", topic, err))
			return
		}
		batch = batch[:0]
		key := partitionKey{chunk.Topic, chunk.Broker, chunk.Partition}
		first := chunk.NextOffset() // that of the first message, or of a compressed one that holds none
		for chunk.Next() {
			m, ok := w.read(read, key, chunk.Offset(), chunk.Message().Payload)
			if !ok {
				return // what is not counted comes again
			}
			m.offset = chunk.Offset()
			batch = append(batch, m)
		}
		if next := chunk.NextOffset(); next > first {
			w.checker.count(key, batch, first, next, topic == w.cfg.EventTopic)
		}
		clear(batch)
	}
}

// read reads a message, again while that fails for a time only. It returns false when
// Close has begun meanwhile.
func (w *Watcher) read(read reader, key partitionKey, offset int64, payload []byte) (counted, bool) {
	for told := false; ; told = true {
		m := read(w.life, payload)
		if m.err == nil {
			return m, true
		}
		if w.life.Err() != nil {
			return m, false // perhaps that is why
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(m.err, &temporary) || !temporary.Temporary() {
			return m, true
		}
		if !told {
			w.cfg.Logger.Warn("a message cannot be read now, and is tried again", "partition", key.String(), "offset", offset, "error", m.err)
		}
		select {
		case <-time.After(temporaryPause):
		case <-w.life.Done():
			return m, false
		}
	}
}

// fail notes why the watcher cannot go on.
func (w *Watcher) fail(err error) {
	w.cfg.Logger.Error("the watcher stops", "error", err)
	w.mu.Lock()
	w.err = errors.Join(w.err, err)
	w.mu.Unlock()
	w.endLife()
}

// Done is closed when the watcher has stopped, by Close or for an error that Close
// returns.
func (w *Watcher) Done() <-chan struct{} { return w.life.Done() }

// Group returns the consumer group of the watcher.
func (w *Watcher) Group() string { return w.cfg.Group }

// Report compares what has been counted with the events of this tier, as [Compare] does
// with those of several. Counting is held up meanwhile.
func (w *Watcher) Report(o ReportOptions) (*Report, error) {
	w.checker.mu.Lock()
	defer w.checker.mu.Unlock()
	w.checker.fillState(w.cfg.Clock.Now())
	return Compare([]*State{w.checker.state}, o)
}

// keepSaving writes the state until Close. One that takes long to write is written
// less often.
func (w *Watcher) keepSaving() {
	for wait := w.cfg.SaveInterval; ; {
		timer := w.cfg.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-w.life.Done():
			timer.Stop()
			return
		}
		began := w.cfg.Clock.Elapsed()
		if err := w.checker.save(); err != nil {
			w.cfg.Logger.Error("the state is not written, which is tried again", "error", err)
		}
		wait = max(w.cfg.SaveInterval, 10*(w.cfg.Clock.Elapsed()-began))
	}
}

// Close ends consuming, writes the state, and leaves the group, for which it waits until
// ctx ends. A second Close returns what the first did.
func (w *Watcher) Close(ctx context.Context) error {
	w.closeOnce.Do(func() {
		w.endLife()
		err := w.group.Close(ctx)
		w.wg.Wait()
		w.mu.Lock()
		err = errors.Join(w.err, err)
		w.mu.Unlock()
		w.closeErr = errors.Join(err, w.checker.save(), w.checker.close())
	})
	return w.closeErr
}
