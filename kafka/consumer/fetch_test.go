package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/zktest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Runner{M: m}) }

// TestB10MessageLargerThanTheFetch: messages larger than the fetch size come all
// the same, up to the limit; one above it is an error at once (fault B10).
func TestB10MessageLargerThanTheFetch(t *testing.T) {
	const fetch = 10 << 10
	sizes := []int{1 << 10, fetch - 1, fetch, 1 << 20, 1 << 10}
	payload := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, sizes[i]) }
	for _, old := range []bool{false, true} {
		f := newFake(t, func(f *fakeBroker) { f.old, f.log = old, encode(0, len(sizes), payload) })
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = fetch })
		expect(t, s, 0, len(sizes), payload, 0)
		if n := len(f.asked()); n > 30 {
			t.Errorf("old %v: %d requests", old, n)
		}

		s = open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes, c.MaxFetchBytes = fetch, 1<<20 })
		at := expect(t, s, 0, 3, payload, 0)
		before := len(f.asked())
		for range 3 {
			_, err := s.Next(testContext(t))
			if !errors.Is(err, consumer.ErrTooLarge) || !strings.Contains(err.Error(), "message of 1048585 bytes at offset 21530 exceeds fetch size") || at != 21530 {
				t.Errorf("old %v: offset %d: error %v", old, at, err)
			}
		}
		if n := len(f.asked()) - before; n > 3 {
			t.Errorf("old %v: %d requests for an error", old, n)
		}
		// The application can go on behind it.
		at += int64(message.EntrySize(1 << 20))
		if err := s.SeekTo(at); err != nil {
			t.Fatal(err)
		}
		expect(t, s, 4, 1, payload, at)
	}
}

// TestB10AnswersCutAnywhere: wherever an answer is cut, partial bytes are never
// parsed and the next request starts at the right byte (fault B10).
func TestB10AnswersCutAnywhere(t *testing.T) {
	const n = 50
	log := encode(0, n, numbered)
	entry := message.EntrySize(len(numbered(0)))
	for _, old := range []bool{false, true} {
		for _, rest := range []int{1, 2, 3, 4, 8} {
			f := newFake(t, func(f *fakeBroker) {
				f.old, f.log = old, log
				// Each answer that could be whole ends rest bytes into an entry.
				f.cut = func(_ int64, n int) int { return min(n, entry+rest) }
			})
			s := open(t, f.addr, nil)
			expect(t, s, 0, n, numbered, 0)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		fetch := 1 + rng.IntN(100)
		f := newFake(t, func(f *fakeBroker) { // from here on rng is the fake's
			f.log = log
			f.cut = func(_ int64, n int) int { return min(n, 1+rng.IntN(60)) }
		})
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = fetch })
		expect(t, s, 0, n, numbered, 0)
	}
}

// While there is enough to read, the next range is on its way before the last
// one has been handed out (NetDB'11 §3.1).
func TestRangesAreAskedForAhead(t *testing.T) {
	const fetch, n = 1000, 1000
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, n, numbered) })
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = fetch })
	expect(t, s, 0, n, numbered, 0)
	st := s.Stats()
	if st.Messages != n || st.Bytes != int64(len(f.log)) || st.Discarded > 1 {
		t.Errorf("stats %+v", st)
	}
	want := int64(0)
	for i, r := range f.asked()[:len(f.log)/fetch] {
		if r.offset != want {
			t.Fatalf("request %d begins at %d, want %d", i, r.offset, want)
		}
		want += fetch
	}
}

// TestB08LogIsCutUnderTheReader: retention removes what was to be read next. What
// has come is handed out whole, the policy is followed once, and the bytes that
// were skipped are counted (fault B08, at the consumer).
func TestB08LogIsCutUnderTheReader(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1000, numbered) })
	s := open(t, f.addr, func(p *consumer.PartitionConfig) { p.FetchBytes = 100 })
	expect(t, s, 0, 20, numbered, 0)
	f.mu.Lock()
	f.first = int64(len(encode(0, 500, numbered)))
	f.log = f.log[f.first:]
	f.mu.Unlock()
	i := 20 // what has come already, or is on its way, is whole
	for ; ; i++ {
		m, err := s.Next(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Offset == f.first {
			break
		}
		if string(m.Payload) != string(numbered(i)) {
			t.Fatalf("message %d is %q", i, m.Payload)
		}
	}
	if st := s.Stats(); st.Resets != 1 || st.SkippedBytes != f.first-int64(len(encode(0, i, numbered))) {
		t.Errorf("before message %d: stats %+v", i, st)
	}
	expect(t, s, 501, 499, numbered, int64(len(encode(0, 501, numbered))))
}

// TestB09Reset: an offset out of range is reset once, and then there is progress;
// under the policy fail there is an error, and no request until the stream is
// moved (fault B09).
func TestB09Reset(t *testing.T) {
	const n = 10
	log := encode(0, n, numbered)
	end := 1000 + int64(len(log))
	for _, c := range []struct {
		name    string
		start   int64
		reset   consumer.Reset
		at      int64
		skipped int64
	}{
		{"below, smallest", 100, consumer.ResetSmallest, 1000, 900},
		{"below, largest", 100, consumer.ResetLargest, end, end - 100},
		{"beyond, smallest", 1 << 40, consumer.ResetSmallest, 1000, 0},
		{"beyond, largest", 1 << 40, consumer.ResetLargest, end, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, func(f *fakeBroker) { f.log, f.first = log, 1000 })
			s := open(t, f.addr, func(p *consumer.PartitionConfig) { p.Start, p.Reset = c.start, c.reset })
			got := make(chan error)
			go func() {
				m, err := s.Next(testContext(t))
				if err == nil && m.Offset != c.at {
					t.Errorf("first message at %d, want %d", m.Offset, c.at)
				}
				got <- err
			}()
			if c.at == end {
				await(t, "the reset", func() bool { return s.Stats().Resets > 0 })
				f.append(encode(n, 1, numbered))
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			if st := s.Stats(); st.Resets != 1 || st.SkippedBytes != c.skipped {
				t.Errorf("stats %+v", st)
			}
			outOfRange := 0
			for _, r := range f.asked() {
				if r.typ != wire.TypeOffsets && r.offset == c.start {
					outOfRange++
				}
			}
			if outOfRange != 1 {
				t.Errorf("%d requests for the offset out of range", outOfRange)
			}
		})
	}
	t.Run("fail", func(t *testing.T) {
		f := newFake(t, func(f *fakeBroker) { f.log, f.first = log, 1000 })
		s := open(t, f.addr, func(p *consumer.PartitionConfig) { p.Start, p.Reset = 100, consumer.ResetFail })
		for range 3 {
			_, err := s.Next(testContext(t))
			if !errors.Is(err, wire.CodeOffsetOutOfRange) || !strings.Contains(err.Error(), "offset 100") || !strings.Contains(err.Error(), "1000 up to") {
				t.Errorf("error %v", err)
			}
		}
		if n := len(f.asked()); n != 3 {
			t.Errorf("%d requests, want a fetch and two for the bounds", n)
		}
		if err := s.SeekTo(1000); err != nil {
			t.Fatal(err)
		}
		expect(t, s, 0, n, numbered, 1000)
	})
}

// TestB09QuietWhileNothingCanBeRead: there are at most two requests a second,
// whatever keeps the stream from reading (fault B09).
func TestB09QuietWhileNothingCanBeRead(t *testing.T) {
	for name, configure := range map[string]func(*fakeBroker){
		"always out of range": func(f *fakeBroker) {
			f.code = func(int64) wire.Code { return wire.CodeOffsetOutOfRange }
		},
		"error code": func(f *fakeBroker) {
			f.code = func(int64) wire.Code { return wire.CodeWrongPartition }
		},
		"end of the log, no WaitFetch": func(f *fakeBroker) { f.old = true },
		"end of the log":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, configure)
			s := open(t, f.addr, nil)
			ctx, cancel := context.WithTimeout(context.Background(), 1900*time.Millisecond)
			defer cancel()
			for ctx.Err() == nil {
				if _, err := s.Next(ctx); err == nil {
					t.Error("got a message")
				}
			}
			// The first second may have what finding out takes beside its two.
			if asked := f.asked(); len(asked) > 5 {
				for _, r := range asked {
					t.Logf("%v at offset %d, %v", r.typ, r.offset, r.at.Sub(asked[0].at))
				}
				t.Errorf("%d requests in 1.9 s", len(asked))
			}
		})
	}
}

// At the end of the log a message is there as soon as it is visible, and the
// iterator ends with its context and goes on with another.
func TestNextWaitsAtTheEnd(t *testing.T) {
	f := newFake(t, nil)
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.MaxWait = time.Minute })
	offset := int64(0)
	for i := range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		cancel()
		f.append(encode(i, 1, numbered))
		offset = expect(t, s, i, 1, numbered, offset)
	}
	if n := len(f.asked()); n > 7 {
		t.Errorf("%d requests", n)
	}
	if st := s.Stats(); st.Reconnects != 0 {
		t.Errorf("stats %+v", st)
	}
	go func() {
		await(t, "the next request", func() bool { return len(f.asked()) >= 6 })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Next(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("next while closing: %v", err)
	}
	if _, err := s.Next(testContext(t)); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("next after close: %v", err)
	}
}

func TestBrokerWithoutWaitFetch(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.old, f.log = true, encode(0, 3, numbered) })
	s := open(t, f.addr, nil)
	offset := expect(t, s, 0, 3, numbered, 0)
	go f.append(encode(3, 2, numbered))
	expect(t, s, 3, 2, numbered, offset)
	waits := 0
	for _, r := range f.asked() {
		if r.typ == wire.TypeWaitFetch {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("asked with WaitFetch %d times", waits)
	}
}

// Damage is reported with its offset, after all messages before it; the stream
// stays there until it is moved.
func TestDamage(t *testing.T) {
	for name, damage := range map[string]struct {
		do  func(entry []byte)
		err error
	}{
		"checksum": {func(e []byte) { e[len(e)-1] ^= 1 }, message.ErrCRC},
		"magic":    {func(e []byte) { e[4] = 7 }, message.ErrMagic},
		"length 0": {func(e []byte) { copy(e, "\x00\x00\x00\x00") }, message.ErrLength},
		"negative": {func(e []byte) { copy(e, "\xff\xff\xff\xff") }, message.ErrLength},
		"huge":     {func(e []byte) { copy(e, "\x7f\xff\xff\xff") }, consumer.ErrTooLarge},
		"too long": {func(e []byte) { copy(e, "\x00\x00\x10\x00") }, consumer.ErrTorn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := encode(0, 10, numbered)
			size := message.EntrySize(len(numbered(0)))
			damage.do(log[5*size : 6*size])
			f := newFake(t, func(f *fakeBroker) { f.log = log })
			s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.MaxWait = quick })
			at := expect(t, s, 0, 5, numbered, 0)
			for range 2 {
				_, err := s.Next(testContext(t))
				if !errors.Is(err, damage.err) || !strings.Contains(err.Error(), "offset 90") || at != 90 || !strings.Contains(err.Error(), "t-0") {
					t.Errorf("at %d: error %v", at, err)
				}
			}
			if s.ConsumedOffset() != at {
				t.Errorf("consumed offset %d, want %d", s.ConsumedOffset(), at)
			}
			if err := s.SeekTo(at + int64(size)); err != nil {
				t.Fatal(err)
			}
			expect(t, s, 6, 4, numbered, at+int64(size))
		})
	}
}

// TestDamageInAChunk: what NextChunk hands out behind damage is nothing, until
// the stream is moved.
func TestDamageInAChunk(t *testing.T) {
	log := encode(0, 10, numbered)
	size := message.EntrySize(len(numbered(0)))
	log[6*size-1] ^= 1
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.MaxWait, c.FetchBytes = quick, 7*size })
	it, err := s.NextChunk(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for it.Next() {
	}
	at := it.NextOffset()
	if !errors.Is(it.Err(), message.ErrCRC) || at != int64(5*size) {
		t.Fatalf("the chunk ends at %d with %v", at, it.Err())
	}
	for range 2 {
		if it, err := s.NextChunk(testContext(t)); !errors.Is(err, message.ErrCRC) {
			t.Errorf("a chunk from offset %d, error %v", it.Offset(), err)
		}
		if _, err := s.Next(testContext(t)); !errors.Is(err, message.ErrCRC) {
			t.Errorf("Next: %v", err)
		}
	}
	if s.ConsumedOffset() != at {
		t.Errorf("consumed offset %d, want %d", s.ConsumedOffset(), at)
	}
	if err := s.SeekTo(at + int64(size)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, 6, 4, numbered, at+int64(size))
}

// quick is the shortest wait that a stream asks a broker for.
const quick = 500 * time.Millisecond

func TestReconnect(t *testing.T) {
	const n = 2000
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, n, numbered) })
	s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = 1000 })
	offset := int64(0)
	for i := range n {
		if i%500 == 250 {
			f.hangUp()
		}
		offset = expect(t, s, i, 1, numbered, offset)
	}
	if st := s.Stats(); st.Reconnects != 4 {
		t.Errorf("stats %+v", st)
	}
	// With nobody there, the context ends the attempts, and says what is wrong.
	f.listener.Close()
	f.hangUp()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Next(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), f.addr) {
		t.Errorf("error %v", err)
	}
}

// TestAnswersBrokenOff: a broker that breaks off each answer from some offset on
// is no reason to try for ever. A further call tries again.
func TestAnswersBrokenOff(t *testing.T) {
	const n = 20
	bad := int64(len(encode(0, 10, numbered)))
	times, healed := 0, false
	f := newFake(t, func(f *fakeBroker) {
		f.log = encode(0, n, numbered)
		f.cut = func(offset int64, n int) int {
			if offset < bad {
				return int(bad - offset)
			}
			return n
		}
		f.breakOff = func(offset int64) bool {
			if offset < bad || healed {
				return false
			}
			times++
			return true
		}
	})
	s := open(t, f.addr, nil)
	at := expect(t, s, 0, 10, numbered, 0)
	_, err := s.Next(testContext(t))
	if !errors.Is(err, client.ErrCutOff) || !strings.Contains(err.Error(), fmt.Sprintf("consume t-0: broker %s has broken off 5 answers in a row to a fetch at offset %d", f.addr, bad)) {
		t.Errorf("at %d: %v", at, err)
	}
	f.mu.Lock()
	if times != 5 {
		t.Errorf("it was asked %d times", times)
	}
	healed = true
	f.mu.Unlock()
	expect(t, s, 10, n-10, numbered, at)
}

// TestB06PeerThatIsNoBroker: the error says what the peer is not, and where it is
// (fault B06).
func TestB06PeerThatIsNoBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf := make([]byte, 100)
		nc.Read(buf)
		nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		nc.Read(buf)
	}()
	s := open(t, l.Addr().String(), nil)
	_, err = s.Next(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "not a broker") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("error %v", err)
	}
	l.Close()
	<-done
	if _, err := consumer.OpenPartition(testContext(t), consumer.PartitionConfig{Broker: l.Addr().String(), Topic: "t"}); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("open without a peer: %v", err)
	}
}

func TestArguments(t *testing.T) {
	f := newFake(t, nil)
	for name, change := range map[string]func(*consumer.PartitionConfig){
		"broker":    func(c *consumer.PartitionConfig) { c.Broker = "" },
		"topic":     func(c *consumer.PartitionConfig) { c.Topic = "a/b" },
		"partition": func(c *consumer.PartitionConfig) { c.Partition = -1 },
		"start":     func(c *consumer.PartitionConfig) { c.Start = -3 },
		"reset":     func(c *consumer.PartitionConfig) { c.Reset = 7 },
		"fetch":     func(c *consumer.PartitionConfig) { c.FetchBytes = -1 },
		"max fetch": func(c *consumer.PartitionConfig) { c.FetchBytes, c.MaxFetchBytes = 100, 99 },
		"inflated":  func(c *consumer.PartitionConfig) { c.MaxDecompressedBytes = -1 },
	} {
		cfg := consumer.PartitionConfig{Broker: f.addr, Topic: "t"}
		change(&cfg)
		if _, err := consumer.OpenPartition(testContext(t), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := open(t, f.addr, nil).SeekTo(-1); err == nil {
		t.Error("seek to a negative offset accepted")
	}
	for _, r := range []consumer.Reset{consumer.ResetSmallest, consumer.ResetLargest, consumer.ResetFail} {
		if got, err := consumer.ParseReset(r.String()); err != nil || got != r {
			t.Errorf("reset %v: %v, %v", r, got, err)
		}
	}
	if _, err := consumer.ParseReset("earliest"); err == nil {
		t.Error("reset earliest accepted")
	}
}

func TestNextAllocatesNothingPerMessage(t *testing.T) {
	const n = 200_000
	log := encode(0, n, numbered)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	s := open(t, f.addr, nil)
	ctx := testContext(t)
	next := func() {
		for range 1000 {
			if _, err := s.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	next()
	// A fetch of 200 KiB holds some 9,000 of these; what is left is the fake's.
	if allocs := testing.AllocsPerRun(100, next); allocs > 20 {
		t.Errorf("%.0f allocations for 1000 messages", allocs)
	}
}
