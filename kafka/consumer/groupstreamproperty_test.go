package consumer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kafkalab/kafka/consumer"
)

// model is a stream of a group with what it should hand out of each partition.
type model struct {
	t        *testing.T
	addrs    []string
	log      []byte
	want     []delivery
	stream   *consumer.GroupStream
	owned    map[int32]*owned // by the feed's number
	feeds    int32
	hand     *owned // of which the application has something in hand
	handDone int    // how far that is when it is done with
	closed   bool
}

// owned is a partition that the model's stream has, or had.
type owned struct {
	reading
	partition int
	lease     atomic.Bool
	revoked   bool
	done      int // messages that the application is done with
}

func (m *model) claim(rt *rapid.T) {
	partition := rapid.IntRange(0, len(m.addrs)-1).Draw(rt, "partition")
	o := &owned{partition: partition}
	o.want, o.end = m.want, int64(len(m.log))
	for _, other := range m.owned {
		if other.partition != partition {
			continue
		}
		if !other.revoked {
			return
		}
		o.next, o.done = max(o.next, other.done), max(o.done, other.done)
	}
	// Who comes to own a partition begins where the last owner has committed: at
	// the first message of a compressed one.
	start := int64(0)
	if o.done > 0 {
		start = m.want[o.done-1].next
	}
	o.next, o.done = m.at(start), m.at(start)
	o.lease.Store(true)
	m.feeds++
	o.feed = startFeed(m.t, m.stream, m.addrs[partition], m.feeds, func(c *consumer.FeedConfig) {
		c.Start, c.Lease = start, o.lease.Load
		c.FetchBytes = rapid.SampledFrom([]int{40, 300, 1 << 20}).Draw(rt, "fetch bytes")
	})
	m.owned[m.feeds] = o
}

// at returns the number of the first message at or behind an offset.
func (m *model) at(offset int64) int {
	for i, d := range m.want {
		if d.offset >= offset {
			return i
		}
	}
	return len(m.want)
}

// pick returns one of the partitions that are not given up, or nil.
func (m *model) pick(rt *rapid.T) *owned {
	var live []int32
	for id := int32(1); id <= m.feeds; id++ {
		if o := m.owned[id]; o != nil && !o.revoked {
			live = append(live, id)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return m.owned[rapid.SampledFrom(live).Draw(rt, "feed")]
}

func (m *model) backFromHand() {
	if m.hand != nil {
		m.hand.done = m.handDone
		m.hand = nil
	}
}

// call asks for a message or a chunk: where there must be one it has to come, and
// where there can be none only the end of the context.
func (m *model) call(rt *rapid.T, chunk bool) {
	m.backFromHand()
	some := false
	for _, o := range m.owned {
		some = some || !o.revoked && o.lease.Load() && o.next < len(o.want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !some {
		ctx = endedContext()
	}
	var id int32
	var got []delivery
	var err error
	if chunk {
		var c consumer.Chunk
		if c, err = m.stream.NextChunk(ctx); err == nil {
			for id = c.Broker; c.Next(); {
				got = append(got, delivery{string(c.Message().Payload), c.Offset(), c.NextOffset()})
			}
			if err := c.Err(); err != nil {
				rt.Fatal(err)
			}
		}
	} else {
		var msg consumer.GroupMessage
		if msg, err = m.stream.Next(ctx); err == nil {
			id, got = msg.Broker, []delivery{{string(msg.Payload), msg.Offset, msg.NextOffset}}
		}
	}
	switch {
	case m.closed:
		if !errors.Is(err, consumer.ErrClosed) {
			rt.Fatalf("after the close: %v, %v", got, err)
		}
		return
	case !some:
		if !errors.Is(err, context.Canceled) {
			rt.Fatalf("feed %d: %v, %v, where there is nothing to hand out", id, got, err)
		}
		return
	case err != nil:
		rt.Fatal(err)
	}
	o := m.owned[id]
	if o.revoked || !o.lease.Load() {
		rt.Fatalf("feed %d: handed out, revoked %v, lease %v: %v", id, o.revoked, o.lease.Load(), got)
	}
	for _, d := range got {
		if o.next == len(o.want) || d != o.want[o.next] {
			rt.Fatalf("feed %d: %v, want number %d of %d", id, d, o.next, len(o.want))
		}
		o.next++
	}
	m.hand, m.handDone = o, o.next
}

// check holds what the feeds say to be consumed against what the application is
// done with.
func (m *model) check(rt *rapid.T) {
	for id, o := range m.owned {
		low, high := int64(0), o.end
		if o.done > 0 {
			low = o.want[o.done-1].next
		}
		if o.done < len(o.want) {
			high = o.want[o.done].offset
		}
		if c := o.feed.Consumed(); c < low || c > high {
			rt.Fatalf("feed %d: done with %d messages, consumed up to %d, want %d up to %d", id, o.done, c, low, high)
		}
		if o.feed.Settle(endedContext()) != (m.hand != o) {
			rt.Fatalf("feed %d: settled %v", id, m.hand == o)
		}
	}
}

// Whatever is revoked, sought, claimed anew or without a lease, a stream hands out
// of each partition that may be handed out its next message, and of no other any;
// and what is consumed is what the application is done with.
func TestHandingOutProperty(t *testing.T) {
	log, want := mixedLog(t)
	var addrs []string
	for range 3 {
		addrs = append(addrs, newFake(t, func(f *fakeBroker) { f.log = log }).addr)
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: t, addrs: addrs, log: log, want: want, stream: consumer.NewGroupStream(), owned: map[int32]*owned{}}
		defer func() {
			for _, o := range m.owned {
				stopFeed(t, o.feed)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"claim":  m.claim,
			"next":   func(rt *rapid.T) { m.call(rt, false) },
			"next 2": func(rt *rapid.T) { m.call(rt, false); m.call(rt, false) },
			"chunk":  func(rt *rapid.T) { m.call(rt, true) },
			"done": func(*rapid.T) {
				m.stream.Done()
				m.backFromHand()
			},
			"revoke": func(rt *rapid.T) {
				if o := m.pick(rt); o != nil {
					o.feed.Revoke()
					o.revoked = true
				}
			},
			"stop": func(rt *rapid.T) {
				if o := m.pick(rt); o != nil {
					stopFeed(t, o.feed)
					o.revoked = true
				}
			},
			"lease": func(rt *rapid.T) {
				if o := m.pick(rt); o != nil {
					o.lease.Store(!o.lease.Load())
				}
			},
			"seek": func(rt *rapid.T) {
				o := m.pick(rt)
				if o == nil {
					return
				}
				offset := rapid.SampledFrom(want).Draw(rt, "message").offset
				o.feed.SeekTo(offset)
				o.next, o.done = m.at(offset), m.at(offset)
				if m.hand == o {
					m.handDone = o.done
				}
			},
			"close": func(rt *rapid.T) {
				if rapid.IntRange(0, 20).Draw(rt, "close") == 0 {
					m.stream.End()
					m.closed = true
				}
			},
			"": m.check,
		})
	})
}

// Partitions go from stream to stream while all of them are read: with each
// handing over as a group does it (revoke, settle, go on at what is consumed), each
// message is handed out once, in order, never while another has one of the same
// partition in hand, and never is more consumed than the application is done with.
func TestPartitionsThatChangeTheirStream(t *testing.T) {
	const partitions, streams, n = 4, 3, 20_000
	rng := testRand(t)
	log := encode(0, n, numbered)
	var offsets [n + 1]int64
	for i := range n {
		offsets[i+1] = offsets[i] + int64(len(encode(i, 1, numbered)))
	}
	var brokers [2]string
	for i := range brokers {
		brokers[i] = newFake(t, func(f *fakeBroker) { f.log = log }).addr
	}
	type state struct {
		inHand atomic.Int32 // streams with a message of it
		next   atomic.Int64 // number of the message that is to come
		done   atomic.Int64 // offset up to which the application is done
	}
	var of [partitions]state
	var gone sync.Map // feed's number: it has settled
	var left atomic.Int64
	left.Store(partitions * n)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()

	var group [streams]*consumer.GroupStream
	partitionOf := func(id int32) int { return int(id) % partitions }
	var readers sync.WaitGroup
	for i := range group {
		s := consumer.NewGroupStream()
		group[i] = s
		readers.Go(func() {
			var hand *state
			var done int64
			for {
				if hand != nil {
					hand.done.Store(done)
					hand.inHand.Add(-1)
				}
				m, err := s.Next(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				p := &of[partitionOf(m.Broker)]
				if _, is := gone.Load(m.Broker); is {
					t.Errorf("feed %d: handed out after it was given up: %q", m.Broker, m.Payload)
				}
				if p.inHand.Add(1) != 1 {
					t.Errorf("feed %d: another has a message of its partition in hand", m.Broker)
				}
				number := p.next.Add(1) - 1
				if number >= n || m.Offset != offsets[number] || string(m.Payload) != string(numbered(int(number))) {
					t.Errorf("feed %d: %q at offset %d, want number %d", m.Broker, m.Payload, m.Offset, number)
					cancel()
				}
				hand, done = p, m.NextOffset
				if left.Add(-1) == 0 {
					cancel()
				}
			}
		})
	}

	var feeds [partitions]*consumer.Feed
	var ids [partitions]int32
	var leases [partitions]*atomic.Bool
	claim := func(p int, start int64) {
		lease := new(atomic.Bool)
		lease.Store(true)
		leases[p] = lease
		feeds[p] = startFeed(t, group[rng.IntN(streams)], brokers[p%2], ids[p], func(c *consumer.FeedConfig) {
			c.Start, c.FetchBytes, c.Lease = start, 500+rng.IntN(3000), lease.Load
		})
	}
	for p := range partitions {
		ids[p] = int32(p)
		claim(p, 0)
	}
	handovers := 0
	for ; ctx.Err() == nil; handovers++ {
		p := rng.IntN(partitions)
		if rng.IntN(4) == 0 {
			leases[p].Store(false)
		}
		// done is set before the call that hands back: what is consumed cannot be
		// beyond what it is after.
		if c := feeds[p].Consumed(); c > of[p].done.Load() {
			t.Errorf("partition %d: consumed up to %d, done up to %d", p, c, of[p].done.Load())
		}
		feeds[p].Revoke()
		if !feeds[p].Settle(ctx) {
			break
		}
		gone.Store(ids[p], true)
		start := feeds[p].Consumed()
		stopFeed(t, feeds[p])
		ids[p] += partitions
		claim(p, start)
		upTo := left.Load() - int64(rng.IntN(100))
		await(t, "messages", func() bool { return left.Load() <= upTo || ctx.Err() != nil })
	}
	cancel()
	readers.Wait()
	t.Logf("%d times handed over", handovers)
	if left.Load() != 0 {
		t.Errorf("%d messages were not handed out", left.Load())
	}
}
