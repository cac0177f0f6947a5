package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/coord"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
)

// source is a cluster that is copied from, and the mirror's member of the group there.
// One goroutine reads, one commits, and each partition owned has a lane.
type source struct {
	m        *Mirror
	name     string // the connection string
	log      *slog.Logger
	client   *coord.Client
	registry *registry.Registry
	group    *consumer.Group // set before ready is closed
	ready    chan struct{}
	life     context.Context // ends when the source does
	end      context.CancelFunc
	workers  sync.WaitGroup

	commits    chan struct{} // has room for one: a commit is wanted soon
	committing chan struct{} // holds a token during a commit, so that none goes back
	laneCount  atomic.Int64

	mu     sync.Mutex
	lanes  map[consumer.TopicPartition]*lane
	counts map[string]map[int32]int32 // partitions of topics by broker, as last read
	// undelivered is what partitions were given up with, while the mirror is closing.
	closing     bool
	undelivered []Undelivered
}

// Undelivered is what was sent of a partition when it was given up, and is not known to
// be safe: its next owner, or this mirror when it is started again, sends it again.
type Undelivered struct {
	Source string
	consumer.TopicPartition
	// Messages from Committed on come again. Up to Flushed the target has acknowledged
	// them, and SentBytes behind that were sent.
	Committed, Flushed int64 // -1: nothing was
	SentBytes          int
}

func (u Undelivered) String() string {
	return fmt.Sprintf("%v of %s: committed is offset %d, the target has flushed up to %d, and %d bytes behind that were sent: what comes behind %d comes again",
		u.TopicPartition, u.Source, u.Committed, u.Flushed, u.SentBytes, u.Committed)
}

func openSource(ctx context.Context, m *Mirror, zk coord.Config) (*source, error) {
	s := &source{
		m: m, name: zk.Servers, log: m.cfg.Logger.With("source", zk.Servers),
		ready: make(chan struct{}), commits: make(chan struct{}, 1), committing: make(chan struct{}, 1),
		lanes: map[consumer.TopicPartition]*lane{}, counts: map[string]map[int32]int32{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	var err error
	if s.client, err = coord.Connect(ctx, zk); err != nil {
		s.end()
		return nil, fmt.Errorf("source cluster %s: %w", s.name, err)
	}
	s.registry = registry.New(s.client)
	cfg := m.cfg.groupConfig(s.registry, s.log)
	cfg.OnAssigned, cfg.OnRelease = s.assigned, s.released
	if s.group, err = consumer.OpenGroup(ctx, cfg); err != nil {
		s.end()
		return nil, errors.Join(fmt.Errorf("source cluster %s: %w", s.name, err), s.client.Close())
	}
	close(s.ready)
	s.workers.Go(s.read)
	s.workers.Go(s.runCommits)
	return s, nil
}

// close leaves the group, which gives its partitions up, and ends everything. The error
// says what was not delivered and what could not be left cleanly.
func (s *source) close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	errs := []error{s.group.Close(ctx)}
	s.end()
	s.workers.Wait()
	for _, l := range s.takeLanes(nil) { // those that the group could not release
		s.giveUp(l)
	}
	s.mu.Lock()
	for _, u := range s.undelivered {
		errs = append(errs, errors.New(u.String()))
	}
	s.mu.Unlock()
	return errors.Join(append(errs, s.client.Close())...)
}

// assigned makes lanes for partitions that the mirror has come to own.
func (s *source) assigned(_ context.Context, assigned []consumer.TopicPartition) {
	// None is left, unless the group had no time to tell of a release.
	for _, l := range s.takeLanes(assigned) {
		s.giveUp(l)
	}
	var fresh []*lane
	s.mu.Lock()
	for _, tp := range assigned {
		delete(s.counts, tp.Topic) // it may have more partitions than when it was read
		if !s.m.copies(tp.Topic) {
			continue
		}
		l := newLane(s, tp)
		s.lanes[tp] = l
		fresh = append(fresh, l)
	}
	s.laneCount.Store(int64(len(s.lanes)))
	s.mu.Unlock()
	for _, l := range fresh {
		go l.run() // finish waits for it
	}
	if len(fresh) > 0 {
		s.log.Info("partitions taken over", "partitions", len(fresh))
	}
}

// takeLanes takes lanes from the list, all if partitions is nil.
func (s *source) takeLanes(partitions []consumer.TopicPartition) []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []*lane
	if partitions == nil {
		for tp := range s.lanes {
			partitions = append(partitions, tp)
		}
	}
	for _, tp := range partitions {
		if l := s.lanes[tp]; l != nil {
			taken = append(taken, l)
			delete(s.lanes, tp)
		}
	}
	s.laneCount.Store(int64(len(s.lanes)))
	return taken
}

// released is called before partitions go to another member: what is on its way is
// waited for, and what is flushed is committed (fault B20). With lost they belong to
// another one already, and nothing is waited for.
func (s *source) released(ctx context.Context, partitions []consumer.TopicPartition, lost bool) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	lanes := s.takeLanes(partitions)
	if !lost {
		s.drain(ctx, lanes)
		if err := s.commit(ctx, lanes); err != nil {
			s.log.Warn("partitions are given up without a commit: what was flushed since the last one comes twice", "partitions", len(lanes), "error", err)
		}
	}
	for _, l := range lanes {
		s.giveUp(l)
	}
	if len(lanes) > 0 {
		s.log.Info("partitions given up", "partitions", len(lanes), "lost", lost)
	}
	return nil
}

// drain stops the sending of lanes and waits for the answers to what was sent, all
// together for ReleaseTimeout at most. A connection that ends meanwhile ends the wait
// for its lane.
func (s *source) drain(ctx context.Context, lanes []*lane) {
	ctx, cancel := context.WithTimeout(ctx, s.m.cfg.ReleaseTimeout)
	defer cancel()
	waits := make([]<-chan struct{}, len(lanes))
	for i, l := range lanes {
		waits[i] = l.stop()
	}
	for _, drained := range waits {
		select {
		case <-drained:
		case <-ctx.Done():
			return
		}
	}
}

// giveUp ends a lane and notes what of it comes again.
func (s *source) giveUp(l *lane) {
	st := l.state()
	l.finish()
	if st.onTheWay == 0 && (st.committed == st.flushed || st.flushed < 0) {
		return
	}
	u := Undelivered{Source: s.name, TopicPartition: l.tp, Committed: st.committed, Flushed: st.flushed, SentBytes: st.onTheWay}
	l.log.Warn("given up with messages that come again", "committed", u.Committed, "flushed", u.Flushed, "sent_bytes", u.SentBytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		s.undelivered = append(s.undelivered, u)
	}
}

func (s *source) lane(tp consumer.TopicPartition) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lanes[tp]
}

func (s *source) allLanes() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make([]*lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// read hands what comes of the source's partitions to their lanes, until the group is
// closed.
func (s *source) read() {
	stream := s.group.FilterStreams()[0]
	for s.m.memory.await(s.life) {
		c, err := stream.NextChunk(s.life)
		var partition *consumer.PartitionError
		switch {
		case errors.As(err, &partition):
			s.partitionFailed(partition)
		case err != nil:
			return // the group is closed
		default:
			s.take(&c)
		}
		stream.Done() // it is copied, so a partition can be given up while memory is waited for
	}
}

// take copies a chunk into the lane of its partition.
func (s *source) take(c *consumer.Chunk) {
	tp := consumer.TopicPartition{Topic: c.Topic, Partition: registry.Partition{Broker: c.Broker, Partition: c.Partition}}
	if !s.m.copies(tp.Topic) {
		// It is owned, as the list says so, and stands still.
		if err := s.group.Pause(tp.Topic, tp.Partition); err != nil {
			s.log.Debug("a partition that is left out was lost", "error", err)
		}
		return
	}
	set, offset := c.Set()
	for c.Next() { // checks each entry's CRC
	}
	set = set[:c.NextOffset()-offset]
	l := s.lane(tp)
	if l == nil || len(set) == 0 {
		return // given up meanwhile, or damaged from its first byte on, which comes as an error
	}
	l.add(message.Set(set), offset)
}

// partitionFailed deals with what is wrong with a partition of the source. The group
// goes on trying, or stands still there and tells again from time to time.
func (s *source) partitionFailed(err *consumer.PartitionError) {
	tp := consumer.TopicPartition{Topic: err.Topic, Partition: registry.Partition{Broker: err.Broker, Partition: err.Partition}}
	l := s.lane(tp)
	if l == nil {
		return
	}
	var out *consumer.OutOfRangeError
	if errors.As(err, &out) {
		l.missing(out)
		return
	}
	level := slog.LevelError
	if err.Temporary {
		level = slog.LevelWarn
	}
	s.m.counts.sourceFailed()
	l.sourceFailed(err)
	l.log.Log(s.life, level, "the source cannot be read", "offset", err.Offset, "tried_again", err.Temporary, "error", err)
}

// partitionKey tells a source partition's place at the target.
type partitionKey struct {
	index      int64
	partitions int32 // of the topic, at all brokers of the source
}

// key returns a partition's key, see the package comment.
func (s *source) key(ctx context.Context, tp consumer.TopicPartition) (partitionKey, error) {
	s.mu.Lock()
	counts := s.counts[tp.Topic]
	s.mu.Unlock()
	if counts[tp.Partition.Broker] <= tp.Partition.Partition {
		var err error
		var bad *registry.BadNodesError
		if counts, err = s.registry.TopicBrokers(ctx, tp.Topic); err != nil && !errors.As(err, &bad) {
			return partitionKey{}, err
		}
		s.mu.Lock()
		s.counts[tp.Topic] = counts
		s.mu.Unlock()
	}
	n := counts[tp.Partition.Broker]
	if n <= tp.Partition.Partition {
		return partitionKey{}, fmt.Errorf("the source's registry has %d partitions of topic %q at broker %d at present", n, tp.Topic, tp.Partition.Broker)
	}
	key := partitionKey{index: int64(tp.Partition.Broker)*int64(n) + int64(tp.Partition.Partition)}
	for _, count := range counts {
		key.partitions = min(key.partitions+count, registry.MaxPartitions)
	}
	return key, nil
}

// forget has the partitions of a topic read again.
func (s *source) forget(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.counts, topic)
}

// tellGap tells of a gap, and counts it.
func (s *source) tellGap(g Gap) {
	s.m.counts.gap(g)
	if g.To < g.From {
		s.log.Error("the source's log was made anew: all of it is copied", "topic", g.Topic, "partition", g.Partition.String(), "from", g.From, "to", g.To)
	} else {
		s.log.Error("gap: the source has deleted what was not copied yet", "topic", g.Topic, "partition", g.Partition.String(), "from", g.From, "to", g.To, "bytes", g.Bytes())
	}
	if s.m.cfg.OnGap != nil {
		s.m.cfg.OnGap(g)
	}
}
