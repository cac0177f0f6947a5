package consumer

import (
	"context"
	"fmt"
	"time"

	"kafkalab/kafka/message"
)

// Defaults of [feedConfig].
const (
	defaultAwayAfter  = 10 * time.Second
	defaultErrorEvery = 10 * time.Second
)

// feedConfig describes a partition that a member of a group owns.
type feedConfig struct {
	partition PartitionConfig // its hooks are the feed's own
	broker    int32           // id of the partition's broker

	// failed, if set, is why the partition cannot be read: the application is told
	// so, and nothing is asked of the broker until seek.
	failed error
	// lease says whether the member still owns the partition. It is asked before
	// each message that is handed out, under the lock of the stream.
	lease func() bool
	// onReset is called when the policy of resetting has moved the feed, and when
	// the broker has said which offset a start at Earliest or Latest is: from is
	// then that. It must not block. It is not called after revoke has returned,
	// unless it is being called then. May be nil.
	onReset func(from, to int64)

	awayAfter  time.Duration // how long a broker may be away until the application is told; 0: 10 s
	errorEvery time.Duration // the least time until an error that stays is told again; 0: 10 s
}

// feed pulls the messages of one partition for a stream of a group ("start a
// thread to pull data", NetDB'11 §3.2, Algorithm 1). Its goroutine owns a [Stream]
// and hands each chunk over as it lies in memory. It asks for the next one when the
// application is done with all of this one, so no payload is ever overwritten in
// the application's hands; what was asked for ahead gathers in the socket
// meanwhile. A feed so holds one chunk at most.
//
// The methods may be called from any goroutine.
type feed struct {
	cfg  feedConfig
	to   *GroupStream
	life context.Context // ends with revoke
	end  context.CancelFunc
	done chan struct{} // closed when the goroutine has ended
	turn chan struct{} // says that the goroutine may have something to do

	pull pull // the goroutine's own

	// All below is guarded by the stream's lock, but what it and the buffers point
	// to: that belongs to the goroutine in Next while chunk is set or the feed is the
	// stream's hand, and otherwise to the feed's goroutine.
	it     message.Iterator
	chunk  bool // it has, or may have, messages to hand out
	drawn  bool // it stands at a message that was not handed out, as there was no lease
	err    *PartitionError
	queued bool // in the stream's queue
	paused bool // to be kept out of it

	position  int64 // consumed
	revoked   bool
	seekTo    int64  // where the goroutine is to go on, -1: where it is
	addr      string // where it is to read from
	interrupt context.CancelFunc
	settled   chan struct{} // closed when the application has nothing in hand; nil: nobody waits
	messages  int64         // handed out
	bytes     int64
	reading   *Stream // for stats
}

// newFeed starts a feed. It does not wait for the broker: one that cannot be
// reached is tried again until the feed is stopped.
func newFeed(cfg feedConfig, to *GroupStream) *feed {
	if cfg.awayAfter == 0 {
		cfg.awayAfter = defaultAwayAfter
	}
	if cfg.errorEvery == 0 {
		cfg.errorEvery = defaultErrorEvery
	}
	f := &feed{
		cfg: cfg, to: to,
		done: make(chan struct{}), turn: make(chan struct{}, 1),
		position: max(cfg.partition.Start, -1), seekTo: -1, addr: cfg.partition.Broker,
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.pull = pull{start: cfg.partition.Start, addr: f.addr}
	go f.run()
	return f
}

// consumed returns the offset from which on the application is not done with the
// messages, as far as is known: it holds one there, or will get it next. Of a
// compressed message it is the beginning until the last message inside is done
// with. It is -1 until the broker has said where a start at Earliest or Latest is.
func (f *feed) consumed() int64 {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	return f.position
}

// counts returns how many messages were handed out, and the bytes of their
// payloads. Those of a chunk count once the application is done with it.
func (f *feed) counts() (messages, bytes int64) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	return f.messages, f.bytes
}

// stats returns the counts of the stream that the feed reads from at present.
func (f *feed) stats() Stats {
	f.to.mu.Lock()
	s := f.reading
	f.to.mu.Unlock()
	if s == nil {
		return Stats{}
	}
	return s.Stats()
}

// revoke ends the handing out of the partition's messages: from its return on the
// stream gives out none and no error of it, also not from a Next that is in
// progress. What the application holds stays as it is. The feed ends.
func (f *feed) revoke() {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked {
		return
	}
	f.revoked = true
	f.to.drop(f)
	f.end()
}

// settle waits until the application is done with what it holds of the partition,
// and reports whether it is; false when ctx has ended first. It is for after
// revoke: before, the application may have the next message in hand at once.
func (f *feed) settle(ctx context.Context) bool {
	f.to.mu.Lock()
	if f.to.hand != f {
		f.to.mu.Unlock()
		return true
	}
	if f.settled == nil {
		f.settled = make(chan struct{})
	}
	settled := f.settled
	f.to.mu.Unlock()
	select {
	case <-settled:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop revokes, and waits until the goroutine and its connection have ended, or
// ctx.
func (f *feed) stop(ctx context.Context) error {
	f.revoke()
	select {
	case <-f.done:
		return nil
	default:
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("consume %s-%d of broker %d: its connection has not ended: %w",
			f.cfg.partition.Topic, f.cfg.partition.Partition, f.cfg.broker, ctx.Err())
	}
}

// seek lets the feed go on at an offset, which is also what is consumed from its
// return on: being done with a message that is in hand changes it no more. What
// was fetched is given up, and an error that waits to be told, too.
func (f *feed) seek(offset int64) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked {
		return
	}
	f.to.drop(f)
	f.position, f.seekTo = offset, offset
	if f.to.hand == f {
		f.to.handStale = true
	}
	f.wake()
}

// move lets the feed go on at another address of the broker, where it is. What was
// fetched is handed out all the same.
func (f *feed) move(addr string) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked || f.addr == addr {
		return
	}
	f.addr = addr
	if f.err != nil && f.err.Temporary {
		f.err = nil // of the old address
	}
	f.wake()
}

// wake makes the goroutine look at what it is to do. The lock is held.
func (f *feed) wake() {
	if f.interrupt != nil {
		f.interrupt()
	}
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.turn <- struct{}{}:
	default:
	}
}

// handedBack is called when the application is done with what it had in hand, with
// the lock held.
func (f *feed) handedBack() {
	if f.settled != nil {
		close(f.settled)
		f.settled = nil
	}
	if !f.chunk {
		f.signal() // it was the last of the chunk
	}
}

// next moves to the next message of the chunk, or gives the chunk back and reports
// false. The lock is held.
func (f *feed) next() bool {
	if f.drawn || f.it.Next() {
		f.drawn = true
		return true
	}
	// Behind compressed messages without any inside, before damage: of that the
	// Stream is told by the iterator.
	f.handBack()
	return false
}

// handBack gives the chunk back, which has been walked to its end. The lock is held.
func (f *feed) handBack() {
	f.position, f.chunk, f.it = f.it.NextOffset(), false, message.Iterator{}
	f.signal()
}

// take gives the rest of the chunk as one that the application walks itself, and
// where it ends. It reports false if there is none, having given the chunk back.
// The lock is held.
func (f *feed) take() (it message.Iterator, end int64, ok bool) {
	if !f.drawn && (f.it.Err() != nil || len(f.it.Rest()) == 0) {
		f.handBack()
		return message.Iterator{}, 0, false
	}
	it = f.it
	it.ReuseBuffer(nil) // all its messages are valid until the next call
	return it, it.NextOffset() + int64(len(it.Rest())), true
}

// damage returns the offset of the damage that the application met in the chunk
// that it walked, or end. The feed is in the stream's hand.
func (f *feed) damage(end int64) int64 {
	if corrupt, ok := f.reading.chunkErr.(*message.CorruptError); ok {
		return corrupt.Offset
	}
	return end
}
