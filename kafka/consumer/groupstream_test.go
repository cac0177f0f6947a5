package consumer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
)

// startFeed lets a stream of a group read partition 0 of topic "t" at addr. Tests
// tell feeds by the broker's id.
func startFeed(t *testing.T, s *consumer.GroupStream, addr string, id int32, change func(*consumer.FeedConfig)) *consumer.Feed {
	t.Helper()
	cfg := consumer.FeedConfig{
		PartitionConfig: consumer.PartitionConfig{Broker: addr, Topic: "t"},
		BrokerID:        id,
		Lease:           func() bool { return true },
	}
	if change != nil {
		change(&cfg)
	}
	f := consumer.NewFeed(cfg, s)
	t.Cleanup(func() { stopFeed(t, f) })
	return f
}

func stopFeed(t *testing.T, f *consumer.Feed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func fetchBytes(n int) func(*consumer.FeedConfig) {
	return func(c *consumer.FeedConfig) { c.FetchBytes = n }
}

func next(t *testing.T, s *consumer.GroupStream) consumer.GroupMessage {
	t.Helper()
	m, err := s.Next(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ended is the context of a call that is to hand back, and to wait for nothing.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func testRand(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("KAFKALAB_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// reading is how far a test has come in what a feed is to hand out.
type reading struct {
	feed *consumer.Feed
	want []delivery
	next int
	end  int64 // of the log
}

// got checks the next message of the feed, which the application has in hand.
func (r *reading) got(t *testing.T, payload []byte, offset, nextOffset int64) {
	t.Helper()
	if r.next == len(r.want) {
		t.Fatalf("message %q at offset %d behind the end", payload, offset)
	}
	w := r.want[r.next]
	if got := (delivery{string(payload), offset, nextOffset}); got != w {
		t.Fatalf("message %d: %v, want %v", r.next, got, w)
	}
	r.next++
}

// checkConsumed holds the feed to be done with all up to message number n, and no
// more: compressed messages without any inside may be passed over or not.
func (r *reading) checkConsumed(t *testing.T, n int) {
	t.Helper()
	low, high := int64(0), r.end
	if n > 0 {
		low = r.want[n-1].next
	}
	if n < len(r.want) {
		high = r.want[n].offset
	}
	if c := r.feed.Consumed(); c < low || c > high {
		t.Fatalf("done with %d messages, consumed up to %d, want %d up to %d", n, c, low, high)
	}
}

// A stream hands out all messages of all its partitions, those inside compressed
// ones too, each partition's in order, one by one and as chunks, and at each moment
// exactly those are consumed that the application is done with.
func TestGroupStreamOfSeveralPartitions(t *testing.T) {
	rng := testRand(t)
	for _, fetch := range []int{40, 200, 1 << 20} {
		s := consumer.NewGroupStream()
		readings := map[int32]*reading{}
		left := 0
		for id := range int32(4) {
			log, want := mixedLog(t)
			if id == 3 {
				log, want = nil, nil
			}
			f := newFake(t, func(f *fakeBroker) { f.log = log })
			r := &reading{want: want, end: int64(len(log))}
			r.feed = startFeed(t, s, f.addr, id, func(c *consumer.FeedConfig) { c.FetchBytes, c.Partition = fetch, 0 })
			readings[id], left = r, left+len(want)
		}
		for left > 0 {
			if rng.IntN(3) > 0 {
				m := next(t, s)
				r := readings[m.Broker]
				r.checkConsumed(t, r.next)
				r.got(t, m.Payload, m.Offset, m.NextOffset)
				left--
				continue
			}
			c, err := s.NextChunk(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			r := readings[c.Broker]
			before := r.next
			var payloads [][]byte
			for c.Next() {
				r.got(t, c.Message().Payload, c.Offset(), c.NextOffset())
				payloads = append(payloads, c.Message().Payload)
				left--
			}
			if c.Err() != nil {
				t.Fatal(c.Err())
			}
			for i, payload := range payloads {
				if string(payload) != r.want[before+i].payload {
					t.Fatalf("message %d of a chunk is %q at its end", i, payload)
				}
			}
			r.checkConsumed(t, before)
		}
		if m, err := s.Next(endedContext()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %v", m, err)
		}
		for id, r := range readings {
			r.checkConsumed(t, len(r.want))
			messages, bytes := r.feed.Counts()
			var size int64
			for _, d := range r.want {
				size += int64(len(d.payload))
			}
			if messages != int64(len(r.want)) || bytes != size {
				t.Errorf("feed %d counts %d messages of %d bytes, want %d of %d", id, messages, bytes, len(r.want), size)
			}
		}
	}
}

// A partition that always has messages keeps one that has few waiting for no more
// than its chunk.
func TestBusyPartitionStarvesNone(t *testing.T) {
	const perChunk = 60 // of 1000 bytes
	busy := newFake(t, func(f *fakeBroker) { f.log = encode(0, 20_000, numbered) })
	slow := newFake(t, nil)
	s := consumer.NewGroupStream()
	startFeed(t, s, busy.addr, 0, fetchBytes(1000))
	f := startFeed(t, s, slow.addr, 1, nil)
	for i := range 20 {
		next(t, s) // of the busy one: the slow one's last message is done with
		slow.append(encode(i, 1, numbered))
		await(t, "the message", f.Waiting)
		for waited := 0; next(t, s).Broker != 1; waited++ {
			if waited > perChunk {
				t.Fatalf("message %d: after %d others", i, waited)
			}
		}
	}
}

// After a revocation nothing more of the partition is handed out, not even of the
// chunk that the stream is in the middle of. What is in hand stays valid, and
// holds the settling up until the application comes back, or says that it is done.
func TestRevoke(t *testing.T) {
	for _, how := range []string{"next", "chunk", "done"} {
		gone := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1000, numbered) })
		other := newFake(t, nil)
		s := consumer.NewGroupStream()
		f := startFeed(t, s, gone.addr, 0, fetchBytes(1000))
		startFeed(t, s, other.addr, 1, nil)
		var held [][]byte
		var at int64
		if how == "chunk" {
			c, err := s.NextChunk(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for c.Next() {
				held, at = append(held, c.Message().Payload), c.NextOffset()
			}
		} else {
			m := next(t, s)
			held, at = append(held, m.Payload), m.NextOffset
		}
		f.Revoke()
		if f.Settle(endedContext()) {
			t.Errorf("%s: settled with a message in hand", how)
		}
		stopFeed(t, f)
		if f.Consumed() != 0 {
			t.Errorf("%s: consumed up to %d with the first message in hand", how, f.Consumed())
		}
		for i, payload := range held {
			if string(payload) != string(numbered(i)) {
				t.Errorf("%s: message %d in hand is %q", how, i, payload)
			}
		}
		settled := make(chan bool)
		go func() { settled <- f.Settle(testContext(t)) }()
		if how == "done" {
			s.Done()
		}
		other.append(encode(0, 1, numbered))
		if m := next(t, s); m.Broker != 1 {
			t.Errorf("%s: handed out after the revocation: %q", how, m.Payload)
		}
		if !<-settled || !f.Settle(endedContext()) || f.Consumed() != at {
			t.Errorf("%s: consumed up to %d, want %d", how, f.Consumed(), at)
		}
	}
}

// A revocation reaches a Next that waits, whatever it waits for.
func TestRevokeWhileNextWaits(t *testing.T) {
	f := newFake(t, nil)
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, f.addr, 0, nil)
	got := make(chan error)
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		m, err := s.Next(ctx)
		if err == nil {
			t.Errorf("handed out %q", m.Payload)
		}
		got <- err
	}()
	await(t, "the first request", func() bool { return len(f.asked()) > 0 })
	feed.Revoke()
	f.append(encode(0, 1, numbered))
	stopFeed(t, feed)
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Without a lease nothing of the partition is handed out, while others go on; with
// it again the partition goes on where it was, also inside a compressed message.
func TestLease(t *testing.T) {
	log, want := mixedLog(t)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	other := newFake(t, nil)
	for _, chunks := range []bool{false, true} {
		for n := range want {
			lease := true
			s := consumer.NewGroupStream()
			r := &reading{want: want, end: int64(len(log))}
			r.feed = startFeed(t, s, f.addr, 0, func(c *consumer.FeedConfig) { c.Lease = func() bool { return lease } })
			for range n {
				m := next(t, s)
				r.got(t, m.Payload, m.Offset, m.NextOffset)
			}
			lease = false
			if m, err := s.Next(endedAfter(t, time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("without a lease: %q, %v", m.Payload, err)
			}
			if n == 0 || n == len(want)-1 {
				o := startFeed(t, s, other.addr, 1, nil)
				other.append(encode(0, 1, numbered))
				if m := next(t, s); m.Broker != 1 {
					t.Fatalf("without a lease: %q", m.Payload)
				}
				stopFeed(t, o)
			}
			r.checkConsumed(t, n)
			lease = true
			if chunks {
				c, err := s.NextChunk(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				for c.Next() {
					r.got(t, c.Message().Payload, c.Offset(), c.NextOffset())
				}
			}
			for r.next < len(want) {
				m := next(t, s)
				r.got(t, m.Payload, m.Offset, m.NextOffset)
			}
			stopFeed(t, r.feed)
		}
	}
}

// A feed that is given up while it is put aside is forgotten.
func TestRevokeWithoutALease(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1, numbered) })
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, f.addr, 0, func(c *consumer.FeedConfig) { c.Lease = func() bool { return false } })
	await(t, "the message", feed.Waiting)
	await(t, "the putting aside", func() bool {
		if m, err := s.Next(endedAfter(t, 5*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", m.Payload, err)
		}
		return s.Held() == 1
	})
	feed.Revoke()
	if s.Held() != 0 {
		t.Errorf("%d put aside", s.Held())
	}
}

// Compressed messages without any inside are consumed with what comes before them.
func TestGroupStreamEndsWithEmptyMessages(t *testing.T) {
	log := slices.Concat(encode(0, 1, numbered), compressed(t, nil, 0))
	for _, chunks := range []bool{false, true} {
		f := newFake(t, func(f *fakeBroker) { f.log = log })
		s := consumer.NewGroupStream()
		feed := startFeed(t, s, f.addr, 0, nil)
		next(t, s)
		if chunks {
			if c, err := s.NextChunk(testContext(t)); err != nil || c.Next() || c.Err() != nil {
				t.Errorf("%v, %v: want an empty chunk", err, c.Err())
			}
			s.Done()
		}
		await(t, "the end of the log", func() bool {
			if m, err := s.Next(endedAfter(t, 5*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q, %v", m.Payload, err)
			}
			return feed.Consumed() == int64(len(log))
		})
	}
}

func endedAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// A seek takes effect with the next message, and being done with the one in hand,
// which stays valid, does not undo it.
func TestGroupSeek(t *testing.T) {
	log := encode(0, 1000, numbered)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, f.addr, 0, fetchBytes(1000))
	offset := func(i int) int64 { return int64(len(encode(0, i, numbered))) }
	for _, to := range []int{500, 0, 0, 999, 3} {
		m := next(t, s)
		for range 30 {
			m = next(t, s)
			if m.NextOffset == int64(len(log)) {
				break
			}
		}
		inHand := string(m.Payload)
		feed.SeekTo(offset(to))
		if feed.Consumed() != offset(to) {
			t.Errorf("consumed up to %d after a seek to %d", feed.Consumed(), offset(to))
		}
		if string(m.Payload) != inHand {
			t.Errorf("in hand is %q, was %q", m.Payload, inHand)
		}
		s.Done()
		if feed.Consumed() != offset(to) {
			t.Errorf("consumed up to %d after a seek to %d and another message", feed.Consumed(), offset(to))
		}
		m = next(t, s)
		if m.Offset != offset(to) || string(m.Payload) != string(numbered(to)) {
			t.Errorf("after a seek to %d: %q at %d", offset(to), m.Payload, m.Offset)
		}
		feed.SeekTo(0)
	}
	// From the end of the log, where the broker holds a request back.
	feed.SeekTo(int64(len(log)))
	if m, err := s.Next(endedAfter(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("at the end: %q, %v", m.Payload, err)
	}
	feed.SeekTo(0)
	if m := next(t, s); m.Offset != 0 {
		t.Errorf("offset %d", m.Offset)
	}
}

// Close ends a Next that waits and all later ones, and the message in hand is done
// with when the application comes back.
func TestGroupStreamClose(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 2, numbered) })
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, f.addr, 0, nil)
	m := next(t, s)
	s.End()
	s.End()
	if feed.Consumed() != 0 {
		t.Errorf("consumed up to %d with the first message in hand", feed.Consumed())
	}
	if _, err := s.Next(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.NextChunk(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Error(err)
	}
	if feed.Consumed() != m.NextOffset {
		t.Errorf("consumed up to %d, want %d", feed.Consumed(), m.NextOffset)
	}

	for range 20 { // so that some are waiting by then
		s = consumer.NewGroupStream()
		ended := make(chan error)
		go func() {
			_, err := s.Next(testContext(t))
			ended <- err
		}()
		for range 100 {
			runtime.Gosched()
		}
		s.End()
		if err := <-ended; !errors.Is(err, consumer.ErrClosed) || !strings.Contains(err.Error(), "g_c-0") {
			t.Error(err)
		}
	}
}

func TestGroupStreamAllocatesNothingPerMessage(t *testing.T) {
	const n = 20_000
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, n, numbered) })
	s := consumer.NewGroupStream()
	startFeed(t, s, f.addr, 0, fetchBytes(1<<20))
	ctx := testContext(t)
	next(t, s)           // the chunk is there
	const together = 100 // a single one in so many shows
	if got := testing.AllocsPerRun(n/together-2, func() {
		for range together {
			if _, err := s.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}); got != 0 {
		t.Errorf("%v allocations for %d messages", got, together)
	}
}

// A feed of a shallow group gives compressed messages as they are.
func TestGroupStreamShallow(t *testing.T) {
	entry := compressed(t, encode(0, 3, numbered), message.CodecGzip)
	f := newFake(t, func(f *fakeBroker) { f.log = slices.Concat(entry, encode(3, 1, numbered)) })
	s := consumer.NewGroupStream()
	startFeed(t, s, f.addr, 0, func(c *consumer.FeedConfig) { c.Shallow = true })
	if m := next(t, s); m.Codec != message.CodecGzip || m.NextOffset != int64(len(entry)) {
		t.Errorf("%+v", m)
	}
	if m := next(t, s); m.Codec != message.CodecNone || string(m.Payload) != string(numbered(3)) {
		t.Errorf("%+v", m)
	}
}
