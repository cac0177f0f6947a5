package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/registry"
)

// workerVariable names the environment variable that makes the test's program one
// consumer. Its value is a WorkerConfig.
const workerVariable = "KAFKALAB_CHAOS_WORKER"

// WorkerConfig is what a consumer in a process of its own is told.
type WorkerConfig struct {
	ZooKeeper string
	Group     string
	ID        string // of the consumer in its group
	Topic     string
	Streams   int
	Journal   string // path
	Seed      uint64

	SessionTimeout, AutoCommit, Backoff time.Duration
	// ByHand commits by hand, as often as AutoCommit says, and when a partition is
	// released.
	ByHand bool
}

// RunAsWorker turns the process into a consumer, if its environment says so, and
// ends it. A test program calls it before anything else.
func RunAsWorker() { kafkatest.RunAsWorker(workerVariable, "consumer", WorkerConfig.run) }

// worker is a consumer at work.
type worker struct {
	cfg     WorkerConfig
	journal *Journal
	failed  chan error // of capacity 1
}

// closeTimeout bounds how long a consumer takes to leave its group.
const closeTimeout = 30 * time.Second

// run consumes until ctx ends, and leaves the group.
func (c WorkerConfig) run(ctx context.Context) error {
	journal, err := CreateJournal(c.Journal)
	if err != nil {
		return err
	}
	w := &worker{cfg: c, journal: journal, failed: make(chan error, 1)}
	return errors.Join(w.consume(ctx), journal.Close())
}

func (w *worker) consume(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	auto := w.cfg.AutoCommit
	if w.cfg.ByHand {
		auto = -1
	}
	var g *consumer.Group
	ready := make(chan struct{}) // closed when g is set
	g, err := consumer.OpenGroup(ctx, consumer.GroupConfig{
		ZooKeeper:        coord.Config{Servers: w.cfg.ZooKeeper, SessionTimeout: w.cfg.SessionTimeout, ConnectTimeout: closeTimeout, Logger: log},
		Group:            w.cfg.Group,
		ConsumerID:       w.cfg.ID,
		Topics:           map[string]int{w.cfg.Topic: w.cfg.Streams},
		OffsetReset:      consumer.ResetSmallest,
		AutoCommit:       auto,
		RebalanceBackoff: w.cfg.Backoff,
		OnAssigned: func(_ context.Context, assigned []consumer.TopicPartition) {
			w.notePartitions(Assigned, assigned, false)
		},
		OnRelease: func(ctx context.Context, released []consumer.TopicPartition, lost bool) error {
			w.notePartitions(Released, released, lost)
			if !w.cfg.ByHand || lost {
				return nil
			}
			select {
			case <-ready:
				return g.Commit(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Logger: log,
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to end before it was in
		}
		return err
	}
	close(ready)
	w.note(Event{Kind: Joined})
	return w.work(ctx, g)
}

// work handles messages until ctx ends or something fails.
func (w *worker) work(ctx context.Context, g *consumer.Group) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var streams sync.WaitGroup
	for i, s := range g.Streams(w.cfg.Topic) {
		streams.Go(func() { w.fail(w.read(reading, i, s)) })
	}
	if w.cfg.ByHand {
		streams.Go(func() { w.commit(reading, g) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-w.failed:
	}
	stop()
	streams.Wait()
	for _, s := range g.Streams(w.cfg.Topic) {
		s.Done()
	}
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if closeErr := g.Close(closing); closeErr != nil {
		// ZooKeeper may be away just now: then this is no clean end, and not noted
		// as one.
		fmt.Fprintln(os.Stderr, "close:", closeErr)
	} else if err == nil {
		w.note(Event{Kind: Left})
	}
	return err
}

// read handles the messages of one stream, some of them slowly.
func (w *worker) read(ctx context.Context, stream int, s *consumer.GroupStream) error {
	rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(stream)))
	for {
		m, err := s.Next(ctx)
		if ctx.Err() != nil && err != nil {
			return nil
		}
		var partition *consumer.PartitionError
		if errors.As(err, &partition) && partition.Temporary {
			continue // its broker is away
		}
		if err != nil {
			return err
		}
		sequence, err := parsePayload(m.Payload)
		if err != nil {
			return fmt.Errorf("%d-%d, offset %d: %w", m.Broker, m.Partition, m.Offset, err)
		}
		e := Event{
			Kind: Handed, Stream: uint16(stream), Partition: Partition{m.Broker, m.Partition},
			Offset: m.Offset, Next: m.NextOffset, Sequence: sequence,
		}
		if err := w.journal.Note(e); err != nil {
			return err
		}
		handle(ctx, rng)
		e.Kind = Done
		if err := w.journal.Note(e); err != nil {
			return err
		}
	}
}

// handle takes the time that handling a message takes: mostly none, sometimes
// some, seldom longer than several tries of a rebalance together.
func handle(ctx context.Context, rng *rand.Rand) {
	var d time.Duration
	switch n := rng.IntN(2000); {
	case n == 0:
		d = time.Duration(rng.Int64N(int64(3 * time.Second)))
	case n < 20:
		d = time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
	default:
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// commit commits by hand until ctx ends. That a commit fails while ZooKeeper is
// away is as it should be.
func (w *worker) commit(ctx context.Context, g *consumer.Group) {
	tick := time.NewTicker(w.cfg.AutoCommit)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := g.Commit(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "commit:", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *worker) notePartitions(kind Kind, partitions []consumer.TopicPartition, lost bool) {
	for _, tp := range partitions {
		w.note(Event{Kind: kind, Lost: lost, Partition: ofRegistry(tp.Partition)})
	}
}

func ofRegistry(p registry.Partition) Partition { return Partition{p.Broker, p.Partition} }

func (w *worker) note(e Event) { w.fail(w.journal.Note(e)) }

func (w *worker) fail(err error) {
	if err == nil {
		return
	}
	select {
	case w.failed <- err:
	default: // the first counts
	}
}
