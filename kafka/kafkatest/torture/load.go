package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// maxSets bounds the requests that a stream has on their way.
const maxSets = 4

// codecs are those that streams choose from.
var codecs = []message.Codec{message.CodecNone, message.CodecNone, message.CodecGzip, message.CodecSnappy}

// LoadConfig says how a broker is loaded. Zero fields take the defaults named.
type LoadConfig struct {
	// Streams is the number of connections that send at each level. Default: 1.
	Streams int
	// MaxPayloadBytes bounds a payload. Default: 1000.
	MaxPayloadBytes int
	// MaxMessages bounds the messages of a set. Default: 10.
	MaxMessages int
	// Pause is how long a stream rests between two writes, on average. Default: 1 ms.
	Pause time.Duration
	// Scratch makes and deletes topics too.
	Scratch bool
	// Seed decides sizes, partitions and pauses.
	Seed uint64
}

func (c LoadConfig) withDefaults() LoadConfig {
	fill := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	fill(&c.Streams, 1)
	fill(&c.MaxPayloadBytes, 1000)
	fill(&c.MaxMessages, 10)
	if c.Pause == 0 {
		c.Pause = time.Millisecond
	}
	return c
}

// Load is producers and consumers at work.
type Load struct {
	ledger *Ledger
	addr   string
	cfg    LoadConfig

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	crash atomic.Bool
	dark  atomic.Bool          // the power is gone: no answer counts
	acked [levels]atomic.Int64 // messages
}

// ackTimeout is how long a broker may hold an acknowledgement back. It is longer
// than a load runs, so that none runs out before the crash.
const ackTimeout = 20 * time.Second

// readWait is how long a consumer's fetch waits at the broker.
const readWait = 500 * time.Millisecond

// StartLoad begins to load the broker at an address, until Stop: with producers,
// and with one consumer of each partition.
func (l *Ledger) StartLoad(addr string, cfg LoadConfig) *Load {
	ld := &Load{ledger: l, addr: addr, cfg: cfg.withDefaults()}
	ld.ctx, ld.cancel = context.WithCancel(context.Background())
	partitions := l.partitions()
	seeds := rand.New(rand.NewPCG(cfg.Seed, 11))
	start := func(what string, run func(c *client.Conn, rng *rand.Rand) error) {
		rng := rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
		ld.wg.Go(func() { ld.run(what, rng, run) })
	}
	for range ld.cfg.Streams {
		for _, level := range Levels() {
			p := partitions[seeds.IntN(len(partitions))]
			codec := codecs[seeds.IntN(len(codecs))]
			start(fmt.Sprintf("producer of %v, acks %v", p, level), func(c *client.Conn, rng *rand.Rand) error {
				return ld.produce(c, rng, l.OpenStream(p, level), codec)
			})
		}
	}
	for _, p := range partitions {
		start(fmt.Sprintf("consumer of %v", p), func(c *client.Conn, rng *rand.Rand) error {
			return ld.consume(c, rng, p)
		})
	}
	if ld.cfg.Scratch {
		start("maker of topics", ld.makeTopics)
	}
	return ld
}

// CrashAhead says that from now on the broker may do as it likes: no error of a
// connection is a problem any more.
func (ld *Load) CrashAhead() { ld.crash.Store(true) }

// PowerLossAhead says that the power is about to be cut. It is CrashAhead, and
// what is answered from now on is no promise: with a machine that loses its power
// no answer would leave it any more. Without that a sync that is under way when a
// file system is shut down, and succeeds nevertheless, would be held against the
// broker. Damage still is.
func (ld *Load) PowerLossAhead() {
	ld.crash.Store(true)
	ld.dark.Store(true)
}

// Stop ends the load and waits for its goroutines.
func (ld *Load) Stop() {
	ld.cancel()
	ld.wg.Wait()
}

// Acked returns how many messages have been acknowledged at a level.
func (ld *Load) Acked(level Level) int64 { return ld.acked[level].Load() }

// run runs a client on a connection of its own. That it ends before the load
// does is a problem, unless a crash is ahead.
func (ld *Load) run(what string, rng *rand.Rand, work func(*client.Conn, *rand.Rand) error) {
	c, err := client.Dial(ld.ctx, ld.addr, client.Config{RequestTimeout: ackTimeout})
	if err == nil {
		err = work(c, rng)
		_ = c.Close() // it may have ended before
	}
	if ld.ctx.Err() == nil && !ld.crash.Load() {
		ld.ledger.Problem("%s: %v", what, err)
	}
}

// rest waits for d, or until the load ends.
func (ld *Load) rest(d time.Duration) {
	select {
	case <-ld.ctx.Done():
	case <-time.After(d):
	}
}

// pause waits as long as a stream rests, which varies much.
func (ld *Load) pause(rng *rand.Rand) {
	if d := time.Duration(rng.ExpFloat64() * float64(ld.cfg.Pause)); d > 10*time.Microsecond {
		ld.rest(d)
	}
}

// produce sends sets, several requests with one write, and takes their answers,
// until something ends.
func (ld *Load) produce(c *client.Conn, rng *rand.Rand, s *Stream, codec message.Codec) error {
	var frames, set, answer []byte
	for ld.ctx.Err() == nil {
		var sets []int
		var answers []client.Answer
		frames = frames[:0]
		for range 1 + rng.IntN(maxSets) {
			sizes := make([]int, 1+rng.IntN(ld.cfg.MaxMessages))
			for i := range sizes {
				sizes[i] = payloadHeaderBytes + rng.IntN(max(ld.cfg.MaxPayloadBytes-payloadHeaderBytes, 1))
			}
			var n int
			var err error
			if set, n, err = s.AppendSet(set[:0], sizes, codec); err != nil {
				return err
			}
			sets = append(sets, n)
			if s.Level == None {
				frames = wire.AppendProduce(frames, s.Partition.Topic, s.Partition.Partition, set)
				continue
			}
			frames = wire.AppendAckedProduce(frames, s.Partition.Topic, s.Partition.Partition, set, s.Level.acks(), client.Millis(ackTimeout))
			answers = append(answers, client.Answer{MaxPayload: client.AckedProduceMaxPayload, Wait: ackTimeout})
		}
		if _, err := c.Send(ld.ctx, frames, answers...); err != nil {
			return err
		}
		for i := range answers {
			var err error
			if answer, err = ld.takeAnswer(c, s, sets[i], answer); err != nil {
				return err
			}
		}
		ld.pause(rng)
	}
	return nil
}

// takeAnswer takes the answer to an acknowledged produce.
func (ld *Load) takeAnswer(c *client.Conn, s *Stream, set int, buf []byte) ([]byte, error) {
	code, buf, err := c.Receive(ld.ctx, buf[:0])
	if err != nil {
		return buf, err
	}
	if code != wire.CodeNone {
		s.Refused(set)
		if !ld.crash.Load() {
			ld.ledger.Problem("produce to %v, acks %v: %v", s.Partition, s.Level, code)
		}
		return buf, nil
	}
	if ld.dark.Load() {
		return buf, nil
	}
	r, err := wire.ParseAckedRange(buf)
	if err != nil {
		return buf, err
	}
	s.Acked(set, r)
	ld.acked[s.Level].Add(int64(s.sets[set].count))
	return buf, nil
}

// consume reads a partition, from its begin or from its end.
func (ld *Load) consume(c *client.Conn, rng *rand.Rand, p TopicPartition) error {
	st, err := stateOf(ld.ctx, c, p)
	if err != nil {
		return err
	}
	offset := st.First
	if rng.IntN(2) == 0 {
		offset = st.Watermark
	}
	r := &reader{load: ld, reading: ld.ledger.OpenReading(p), next: map[uint32]uint32{}}
	size := int32(100 + rng.IntN(100_000))
	for ld.ctx.Err() == nil {
		results, err := c.WaitFetch(ld.ctx, []wire.FetchEntry{{Topic: p.Topic, Partition: p.Partition, Offset: offset, MaxBytes: size}}, readWait, 1)
		if err != nil {
			return err
		}
		set, code := message.Set(results[0].Set), results[0].Code
		if code == wire.CodeOffsetOutOfRange {
			now, err := stateOf(ld.ctx, c, p)
			if err != nil {
				return err
			}
			if offset >= now.First && offset <= now.Watermark {
				return fmt.Errorf("offset %d is out of range, and the log goes from %d to %d", offset, now.First, now.Watermark)
			}
			offset = now.First // retention was faster
			continue
		}
		if code != wire.CodeNone {
			return code
		}
		n, err := r.take(set, offset)
		if err != nil {
			return err
		}
		if offset += int64(n); n == 0 && len(set) > 0 {
			size *= 2
		}
	}
	return nil
}

// reader checks what a consumer gets as far as it can be checked at once.
type reader struct {
	load    *Load
	reading *Reading
	next    map[uint32]uint32 // of each stream, the sequence that may come next
}

// take notes the messages of a set and returns how many bytes they are.
func (r *reader) take(set message.Set, offset int64) (int, error) {
	it := set.Iterate(offset)
	for it.Next() {
		f, err := r.load.ledger.parse(it.Message(), it.Offset(), it.NextOffset())
		if err != nil {
			r.load.ledger.Problem("a consumer of %v got at offset %d: %v", r.reading.Partition, it.Offset(), err)
		}
		if f.Sequence < r.next[f.Stream] {
			r.load.ledger.Problem("a consumer of %v got %v, and %d was to come", r.reading.Partition, f, r.next[f.Stream])
		}
		r.next[f.Stream] = f.Sequence + 1
		if !r.load.dark.Load() {
			r.reading.Saw(f)
		}
	}
	if it.Err() != nil {
		r.load.ledger.Problem("a consumer of %v got damage: %v", r.reading.Partition, it.Err())
	}
	return it.ValidBytes(), it.Err()
}

// makeTopics makes topics, writes to some, and deletes some.
func (ld *Load) makeTopics(c *client.Conn, rng *rand.Rand) error {
	there := ld.ledger.scratchTopics()
	for ld.ctx.Err() == nil {
		if len(there) > 5 || len(there) > 0 && rng.IntN(2) == 0 {
			name := there[0]
			there = there[1:]
			ld.ledger.setTopic(name, topicFact{})
			if err := c.DeleteTopic(ld.ctx, name); err != nil || ld.dark.Load() {
				return err
			}
			ld.ledger.setTopic(name, topicFact{gone: true})
		} else {
			name := ld.ledger.scratchName()
			partitions := int32(1 + rng.IntN(3))
			ld.ledger.setTopic(name, topicFact{})
			if err := c.CreateTopic(ld.ctx, name, partitions); err != nil || ld.dark.Load() {
				return err
			}
			ld.ledger.setTopic(name, topicFact{partitions: partitions})
			there = append(there, name)
			acks := []wire.Acks{wire.AcksReceived, wire.AcksAppended, wire.AcksFlushed}[rng.IntN(3)]
			set := message.Append(nil, []byte(name))
			if _, err := c.AckedProduce(ld.ctx, name, partitions-1, set, acks, ackTimeout); err != nil {
				return err
			}
		}
		ld.rest(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
	}
	return nil
}

// WaitAcked waits until n messages have been acknowledged at a level, or
// something has gone wrong, or ctx has ended.
func (ld *Load) WaitAcked(ctx context.Context, level Level, n int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ld.Acked(level) < n {
		if err := ld.ledger.noticed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d messages acknowledged as %v, %d awaited: %w", ld.Acked(level), level, n, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// noticed returns what was noticed since the last check.
func (l *Ledger) noticed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) == 0 {
		return nil
	}
	return errors.New(l.problems[0])
}
