package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kafkalab/kafka/message"
)

// leaseInterval is how often a stream that waits looks whether the lease on a
// partition with messages holds again.
const leaseInterval = 20 * time.Millisecond

// streamConfig describes one stream of a member of a group.
type streamConfig struct {
	thread string       // id of the stream in the group: that of its member, and a number
	logger *slog.Logger // lost leases, never messages; nil: nothing is logged
}

// GroupStream is a never-ending iterator over the messages of those partitions of
// a group that are its own at the time (NetDB'11 §3, §3.2). Within a partition they
// come in order; partitions take turns, a chunk each, so none keeps others waiting
// for more than its chunk.
//
// It is for one goroutine: Next, NextChunk and Done must not be called at the same
// time. What a call hands out is in the application's hand until the next call,
// which says that it is done with; until then it is valid, also when the partition
// has been given up meanwhile, and is not counted as consumed. A rebalance waits
// for what is in hand only for so long, so who handles a message for longer may
// handle it at the same time as another member that has got its partition.
//
// # Errors
//
// What is wrong with a partition is returned as a [*PartitionError] once, when all
// before it has been handed out; the others go on. The application calls Next again
// as it would after a message. Of an error that is not Temporary (damage, a message
// above a limit, an offset out of range under [ResetFail]), the partition rests
// where it is until Group.Seek moves it elsewhere or it is given to another
// member; the error comes again every 10 seconds, so that it is not overlooked, and
// costs the broker no request. After a Temporary one the feed goes on trying by
// itself; that a broker cannot be reached is told when it has been away for 10
// seconds, as its partitions may then have an owner that sees no messages.
type GroupStream struct {
	cfg   streamConfig
	wake  chan struct{} // there may be something to hand out
	ended chan struct{} // closed by close

	mu      sync.Mutex // held over the handing out of each message
	closed  bool
	current *feed   // whose chunk is being handed out
	ready   []*feed // with a chunk or an error, each once, in the order of their coming
	held    []*feed // with a chunk, but no lease

	hand      *feed // of which the application has something in hand
	handNext  int64 // what is consumed once it is done with
	handStale bool  // it is no more, as the feed was moved elsewhere
	handChunk bool  // a chunk, which the application walks
	walked    walked

	// inflated is what the current feed decompresses into: one buffer for all, since
	// they take turns.
	inflated []byte

	// large holds something while one of the feeds has a message that is larger than
	// its fetch may be.
	large chan struct{}
}

func newGroupStream(cfg streamConfig) *GroupStream {
	if cfg.logger == nil {
		cfg.logger = slog.New(slog.DiscardHandler)
	}
	return &GroupStream{cfg: cfg, wake: make(chan struct{}, 1), ended: make(chan struct{}), large: make(chan struct{}, 1)}
}

// Next returns the next message of any of the stream's partitions. It blocks until
// there is one, ctx ends or the group is closed; after ctx has ended it may be
// called again. In any case the message of the last call is done with.
//
// Errors are a [*PartitionError], after which the stream goes on, [ErrClosed], and
// that of ctx.
func (s *GroupStream) Next(ctx context.Context) (GroupMessage, error) {
	s.mu.Lock()
	s.handBack()
	for {
		if s.closed {
			break
		}
		if err := ctx.Err(); err != nil {
			s.mu.Unlock()
			return GroupMessage{}, err
		}
		if f := s.current; f == nil {
			if err := s.choose(ctx); err != nil {
				s.mu.Unlock()
				return GroupMessage{}, err
			}
		} else if !f.next() {
			s.current = nil
		} else if s.mayHandOut(f) {
			m := s.handOut(f)
			s.mu.Unlock()
			return m, nil
		}
	}
	s.mu.Unlock()
	return GroupMessage{}, s.errClosed()
}

// handOut gives the message that a feed stands at into the application's hand.
func (s *GroupStream) handOut(f *feed) GroupMessage {
	m := f.it.Message()
	f.drawn = false
	f.messages++
	f.bytes += int64(len(m.Payload))
	s.hand, s.handNext = f, f.it.NextOffset()
	return GroupMessage{
		Topic: f.cfg.partition.Topic, Broker: f.cfg.broker, Partition: f.cfg.partition.Partition,
		Offset: f.it.Offset(), NextOffset: s.handNext, Payload: m.Payload, Codec: m.Codec(),
	}
}

// NextChunk returns all messages that are at hand of one partition; it blocks, and
// fails, like Next. They are in the application's hand, and valid, all together
// until the next call, which counts them as consumed, up to damage that the
// application has met in them.
func (s *GroupStream) NextChunk(ctx context.Context) (Chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handBack()
	for {
		if s.closed {
			return Chunk{}, s.errClosed()
		}
		if err := ctx.Err(); err != nil {
			return Chunk{}, err
		}
		f := s.current
		if f == nil {
			if err := s.choose(ctx); err != nil {
				return Chunk{}, err
			}
			continue
		}
		it, end, ok := f.take()
		if !ok {
			s.current = nil
			continue
		}
		if !s.mayHandOut(f) {
			continue
		}
		c := Chunk{
			Topic: f.cfg.partition.Topic, Broker: f.cfg.broker, Partition: f.cfg.partition.Partition,
			it: it, drawn: f.drawn, walked: &s.walked,
		}
		f.chunk, f.drawn, f.it, s.current = false, false, message.Iterator{}, nil
		s.hand, s.handNext, s.handChunk = f, end, true
		return c, nil
	}
}

// Done says that the application is done with what it has in hand, as the next call
// would, without asking for more: before a commit that is to cover it, and before
// the group is closed. The message or chunk becomes invalid.
func (s *GroupStream) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handBack()
}

// handBack takes what the application has in hand as done with.
func (s *GroupStream) handBack() {
	f := s.hand
	if f == nil {
		return
	}
	if s.handChunk {
		s.handNext = f.damage(s.handNext)
		f.messages += s.walked.messages
		f.bytes += s.walked.bytes
		s.walked = walked{}
		s.handChunk = false
	}
	if !s.handStale {
		f.position = s.handNext
	}
	s.hand, s.handStale = nil, false
	f.handedBack()
}

// mayHandOut asks for the lease on the current feed's partition. Without one the
// feed is put aside as it is.
func (s *GroupStream) mayHandOut(f *feed) bool {
	if f.cfg.lease() {
		return true
	}
	s.putDown()
	s.held = append(s.held, f)
	s.cfg.logger.Warn("no lease on a partition, nothing of it is handed out", "stream", s.cfg.thread,
		"topic", f.cfg.partition.Topic, "broker", f.cfg.broker, "partition", f.cfg.partition.Partition)
	return false
}

// putDown leaves the current feed where it is, to go on from there later. That may be
// in the middle of what it has decompressed, so nobody else may have that memory.
func (s *GroupStream) putDown() { s.current, s.inflated = nil, nil }

// choose makes a feed with messages the current one, or returns an error of one;
// it waits until there is any. The lock is held, but while it waits.
func (s *GroupStream) choose(ctx context.Context) error {
	s.takeUp()
	for len(s.ready) > 0 {
		f := s.ready[0]
		s.ready = append(s.ready[:0], s.ready[1:]...)
		f.queued = false
		if err := f.err; err != nil {
			f.err = nil
			f.signal()
			if f.chunk {
				s.enqueue(f)
			}
			return err
		}
		if f.chunk {
			s.current = f
			return nil
		}
	}
	held := len(s.held) > 0
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.wait(ctx, held)
}

// takeUp puts those feeds back into the queue on which there is a lease again.
func (s *GroupStream) takeUp() {
	still := s.held[:0]
	for _, f := range s.held {
		if f.cfg.lease() {
			s.enqueue(f)
		} else {
			still = append(still, f)
		}
	}
	clear(s.held[len(still):])
	s.held = still
}

// wait returns when there may be something to hand out, when the stream is closed,
// and with an error when ctx has ended.
func (s *GroupStream) wait(ctx context.Context, held bool) error {
	var lease <-chan time.Time
	if held {
		timer := time.NewTimer(leaseInterval)
		defer timer.Stop()
		lease = timer.C
	}
	select {
	case <-s.wake:
	case <-lease:
	case <-s.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// enqueue puts a feed that has something to hand out at the end of the queue, unless
// it is paused. The lock is held.
func (s *GroupStream) enqueue(f *feed) {
	if f.paused {
		return
	}
	if !f.queued {
		f.queued = true
		s.ready = append(s.ready, f)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop takes from a feed what it has to hand out. The lock is held.
func (s *GroupStream) drop(f *feed) {
	f.it, f.chunk, f.drawn, f.err = message.Iterator{}, false, false, nil
	s.setAside(f)
}

// setAside takes a feed out of the queue, with what it has to hand out. The lock is
// held.
func (s *GroupStream) setAside(f *feed) {
	if s.current == f {
		s.putDown()
	}
	its := func(g *feed) bool { return g == f }
	s.ready, f.queued = slices.DeleteFunc(s.ready, its), false
	s.held = slices.DeleteFunc(s.held, its)
}

// close ends Next, also one in progress, with [ErrClosed]. What the application has
// in hand is done with when it comes back or calls Done. The feeds are to be
// stopped by their owner.
func (s *GroupStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ended)
	}
}

func (s *GroupStream) errClosed() error {
	return fmt.Errorf("consume as %s: %w", s.cfg.thread, ErrClosed)
}
