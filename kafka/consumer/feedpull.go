package consumer

import (
	"context"
	"fmt"
	"time"

	"kafkalab/kafka/message"
)

// pull is what the goroutine of a feed works with.
type pull struct {
	stream *Stream // nil: to be opened
	addr   string  // of the broker that it reads from
	start  int64   // where it is to be opened
	failed error   // why it is not to be opened

	backoff   time.Duration // until what has failed for the moment is tried again
	fetches   int64         // answered until the broker went away
	downSince time.Time     // when it went away; zero: it has not
	toldAt    time.Time     // when the application was told last that it is away
}

// run gets one chunk after another until the feed is revoked.
func (f *feed) run() {
	defer close(f.done)
	defer f.closeStream()
	f.pull.failed = f.cfg.failed
	if _, err := f.cfg.partition.withDefaults(); err != nil && f.pull.failed == nil {
		f.pull.failed = err
	}
	for {
		err := f.pullChunk()
		if err != nil {
			f.tell(err, !f.failedForGood())
		}
		if !f.await() {
			return
		}
		if err != nil && !f.pause() {
			return
		}
	}
}

// failedForGood reports whether a further try meets the same error.
func (f *feed) failedForGood() bool {
	return f.pull.failed != nil || f.pull.stream != nil && f.pull.stream.failed != nil
}

// pullChunk hands one chunk over. It returns an error that the application is to
// know of, and nil when the feed is to look anew at what it is to do.
func (f *feed) pullChunk() error {
	ctx, cancel := context.WithCancel(f.life)
	defer cancel()
	if err := f.turnTo(cancel); err != nil {
		return err
	}
	it, err := f.fetch(ctx)
	if err == nil {
		f.pull.backoff = 0
		f.offer(it)
		return nil
	}
	if ctx.Err() != nil {
		return nil // revoked, or to go on elsewhere
	}
	return err
}

// turnTo does what seek and move have asked for since the last pull, and lets them
// interrupt the next one. The application has nothing of the feed in hand.
func (f *feed) turnTo(interrupt context.CancelFunc) error {
	f.to.mu.Lock()
	f.interrupt = interrupt
	seekTo, addr, position := f.seekTo, f.addr, f.position
	f.seekTo = -1
	f.to.mu.Unlock()
	p := &f.pull
	if addr != p.addr {
		f.closeStream()
		p.addr, p.downSince, p.toldAt, p.backoff = addr, time.Time{}, time.Time{}, 0
		if position >= 0 {
			p.start = position
		}
	}
	if seekTo < 0 {
		return nil
	}
	p.failed, p.start, p.backoff = nil, seekTo, 0
	if p.stream == nil {
		return nil
	}
	return p.stream.SeekTo(seekTo)
}

// fetch returns the next chunk.
func (f *feed) fetch(ctx context.Context) (message.Iterator, error) {
	if f.pull.failed != nil {
		return message.Iterator{}, f.pull.failed
	}
	if f.pull.stream == nil {
		if err := f.open(ctx); err != nil {
			return message.Iterator{}, err
		}
	}
	return f.pull.stream.NextChunk(ctx)
}

// open opens the stream. It tries until it succeeds or ctx ends: a broker may be
// away when its partition is given to a member.
func (f *feed) open(ctx context.Context) error {
	cfg := f.cfg.partition
	cfg.Broker, cfg.Start = f.pull.addr, f.pull.start
	cfg.Hooks = Hooks{Disconnected: f.away, Connected: f.back, Reset: f.reset}
	cfg.large = f.to.large
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		s, err := OpenPartition(ctx, cfg)
		if err == nil {
			f.opened(s)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if cfg.Logger != nil {
			cfg.Logger.Warn("cannot open a partition", "topic", cfg.Topic, "partition", cfg.Partition,
				"broker", cfg.Broker, "error", err, "retry_in", backoff)
		}
		f.away(err)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *feed) opened(s *Stream) {
	f.pull.stream, f.pull.fetches = s, 0
	f.to.mu.Lock()
	f.reading = s
	f.to.mu.Unlock()
	f.back()
	if start := f.pull.start; start < 0 {
		f.pull.start = s.ConsumedOffset()
		f.reset(start, f.pull.start)
	}
}

func (f *feed) closeStream() {
	s := f.pull.stream
	f.pull.stream = nil
	if s == nil {
		return
	}
	s.giveBack()
	if err := s.Close(); err != nil {
		s.cfg.Logger.Debug("close of a partition", "broker", s.cfg.Broker, "error", err)
	}
}

// reset is told where the stream goes on, by the policy of resetting or as it
// begins at an end of the log.
func (f *feed) reset(from, to int64) {
	f.to.mu.Lock()
	moot := f.revoked || f.seekTo >= 0
	if !moot {
		f.position = to
	}
	f.to.mu.Unlock()
	if !moot && f.cfg.onReset != nil {
		f.cfg.onReset(from, to)
	}
}

// away is told each time that the broker cannot be reached. The application is
// told when it has not answered for long, and then now and again.
func (f *feed) away(err error) {
	p, now := &f.pull, time.Now()
	if p.downSince.IsZero() {
		p.downSince = now
	}
	if p.stream != nil {
		if n := p.stream.Stats().Fetches; n != p.fetches { // it has answered since
			p.fetches, p.downSince, p.toldAt = n, now, time.Time{}
		}
	}
	if now.Sub(p.downSince) < f.cfg.awayAfter || now.Sub(p.toldAt) < f.cfg.errorEvery {
		return
	}
	p.toldAt = now
	c := f.cfg.partition
	f.tell(fmt.Errorf("consume %s-%d: broker %s has not answered since %s: %w", c.Topic, c.Partition, p.addr,
		p.downSince.Format(time.TimeOnly), err), true)
}

// back is told that the broker can be reached again.
func (f *feed) back() {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	f.err = nil // only that it is away can be waiting to be told
}

// offer hands a chunk over to the application's stream.
func (f *feed) offer(it message.Iterator) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked || f.seekTo >= 0 {
		return
	}
	it.ReuseBuffer(&f.to.inflated)
	f.it, f.chunk, f.err = it, true, nil
	f.to.enqueue(f)
}

// tell hands an error over to the application's stream.
func (f *feed) tell(err error, temporary bool) {
	f.to.mu.Lock()
	defer f.to.mu.Unlock()
	if f.revoked || f.seekTo >= 0 {
		return
	}
	f.err = &PartitionError{
		Topic: f.cfg.partition.Topic, Broker: f.cfg.broker, Partition: f.cfg.partition.Partition,
		Offset: f.position, Temporary: temporary, Err: err,
	}
	f.to.enqueue(f)
}

// await waits until the application is done with the chunk, or knows of the error,
// that was handed over. It returns false when the feed is revoked.
func (f *feed) await() bool {
	for {
		f.to.mu.Lock()
		busy := f.chunk || f.err != nil || f.to.hand == f
		f.to.mu.Unlock()
		if f.life.Err() != nil {
			return false
		}
		if !busy {
			return true
		}
		select {
		case <-f.turn:
		case <-f.life.Done():
		}
	}
}

// pause waits after an error: an application that goes on asking is not to spin,
// nor are brokers to be asked without end. It returns false when the feed is
// revoked, and early after seek and move.
func (f *feed) pause() bool {
	d := f.cfg.errorEvery
	if !f.failedForGood() {
		f.pull.backoff = min(max(2*f.pull.backoff, quietInterval), d)
		d = f.pull.backoff
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		f.to.mu.Lock()
		elsewhere := f.seekTo >= 0 || f.addr != f.pull.addr
		f.to.mu.Unlock()
		if elsewhere {
			return true
		}
		select {
		case <-timer.C:
			return true
		case <-f.turn:
		case <-f.life.Done():
			return false
		}
	}
}
