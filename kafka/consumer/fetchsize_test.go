package consumer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestAdaptationChangesNoByte: whatever sizes the fetches have, from one to the next
// and wherever answers are cut, what is consumed is the log.
func TestAdaptationChangesNoByte(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		payloads := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) []byte {
			size := rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 1500)).Draw(rt, "size")
			return bytes.Repeat([]byte{rapid.Byte().Draw(rt, "of")}, size)
		}), 1, 40).Draw(rt, "payloads")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 20).Draw(rt, "sizes")
		cuts := rapid.SliceOfN(rapid.IntRange(50, 9000), 1, 20).Draw(rt, "cuts")
		f := newFake(t, func(f *fakeBroker) {
			f.log = encode(0, len(payloads), func(i int) []byte { return payloads[i] })
			answers := 0
			f.cut = func(_ int64, n int) int {
				answers++
				return min(n, cuts[answers%len(cuts)])
			}
		})
		chosen := 0
		s := open(t, f.addr, func(c *consumer.PartitionConfig) {
			c.AdaptBy(func(int, int) int {
				chosen++
				return sizes[chosen%len(sizes)]
			})
		})
		defer s.Close()
		ctx, whole := testContext(t), []byte(nil)
		take := func(m message.Message, offset int64) {
			if offset != int64(len(whole)) {
				rt.Fatalf("a message at offset %d, want %d", offset, len(whole))
			}
			whole = message.Append(whole, m.Payload)
		}
		for len(whole) < len(f.log) {
			if rapid.Bool().Draw(rt, "chunk") {
				it, err := s.NextChunk(ctx)
				for err == nil && it.Next() {
					take(it.Message(), it.Offset())
				}
				if err != nil || it.Err() != nil {
					rt.Fatal(err, it.Err())
				}
				continue
			}
			m, err := s.Next(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			take(message.Message{Payload: m.Payload}, m.Offset)
		}
		if !bytes.Equal(whole, f.log) {
			rt.Fatalf("what was consumed is not the log")
		}
	})
}

// A fetch size that is given is kept to, and one that is not goes up with a log that
// comes fast, down at its end, and is within its bounds all the time.
func TestFetchSizeIsExactWhenGiven(t *testing.T) {
	const n = 100_000
	log := encode(0, n, func(int) []byte { return make([]byte, 100) })
	sizes := func(change func(*consumer.PartitionConfig)) (map[int32]bool, consumer.Stats) {
		f := newFake(t, func(f *fakeBroker) { f.log = log })
		s := open(t, f.addr, change)
		for at := int64(0); at < int64(len(log)); {
			it, err := s.NextChunk(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
			}
			at = it.NextOffset()
		}
		seen := map[int32]bool{}
		for _, r := range f.asked() {
			seen[r.max] = true
		}
		return seen, s.Stats()
	}
	// What is larger would have been asked for as a message did not fit: none here.
	if got, st := sizes(func(c *consumer.PartitionConfig) { c.FetchBytes = 100_000 }); len(got) != 1 || !got[100_000] || st.FetchBytes != 100_000 {
		t.Errorf("asked for %v bytes, stats %+v; want 100000 each time", got, st)
	}
	adapted, _ := sizes(nil)
	for size := range adapted {
		if size < consumer.MinAdaptedFetchBytes || size > consumer.MaxAdaptedFetchBytes {
			t.Errorf("asked for %d bytes", size)
		}
	}
	if got, _ := sizes(func(c *consumer.PartitionConfig) { c.MaxFetchBytes = 1000 }); len(got) != 1 || !got[1000] {
		t.Errorf("with at most 1000 bytes it asked for %v", got)
	}
	// Nothing comes at the end: there the smallest fetch is enough.
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	idle := open(t, f.addr, func(c *consumer.PartitionConfig) { c.Start, c.MaxWait = int64(len(log)), quick })
	if got := idle.Stats().FetchBytes; got != consumer.DefaultFetchBytes {
		t.Errorf("it begins with %d", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := idle.Next(ctx)
		waiting <- err
	}()
	await(t, "the smallest fetch", func() bool { return idle.Stats().FetchBytes == consumer.MinAdaptedFetchBytes })
	cancel()
	<-waiting
}

// What a large message or a large fetch has needed is given back once it is done
// with, also while nothing comes.
func TestLargeBuffersAreGivenBack(t *testing.T) {
	const large, streams = 4 << 20, 8
	log := message.Append(message.Append(nil, make([]byte, large)), []byte("small"))
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	before := heldMemory()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	for range streams {
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.MaxWait = quick })
		for _, size := range []int{large, 5} {
			m, err := s.Next(testContext(t))
			if err != nil || len(m.Payload) != size {
				t.Fatal(len(m.Payload), err)
			}
		}
		waiting.Go(func() {
			if _, err := s.Next(ctx); err == nil {
				t.Error("a third message")
			}
		})
	}
	// The stand-in keeps nothing of what it has sent.
	await(t, "the memory that large messages needed", func() bool { return heldMemory()-before < streams*large/4 })
}

// TestThousandPartitionsAreBounded: a consumer of 1,000 partitions that all have more
// to read than it can take, and would all ask for 4 MiB at once, has a bounded
// amount of it in memory, and gets on in each.
func TestThousandPartitionsAreBounded(t *testing.T) {
	const partitions, budget = 1000, 8 << 20
	addr := lean(t, encode(0, 40_000, func(int) []byte { return make([]byte, 200) }))
	before := heldMemory()
	s, memory := consumer.NewGroupStream(), consumer.NewFetchMemory(budget)
	for i := range partitions {
		startFeed(t, s, addr, int32(i), func(c *consumer.FeedConfig) {
			c.ShareMemory(memory)
			c.AdaptBy(func(_, most int) int { return most })
		})
	}
	chunks, next := make([]int, partitions), make([]int64, partitions)
	for behind := partitions; behind > 0; {
		c, err := s.NextChunk(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		for c.Next() {
			if c.Offset() != next[c.Broker] {
				t.Fatalf("partition %d: a message at offset %d, want %d", c.Broker, c.Offset(), next[c.Broker])
			}
			next[c.Broker] = c.NextOffset()
		}
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		if chunks[c.Broker]++; chunks[c.Broker] == 4 {
			behind--
		}
	}
	// The buffers may be twice as large as what is asked for, and connections, their
	// goroutines and those of the stand-in have 20 KiB or so each.
	const most = 2*(partitions*consumer.MinAdaptedFetchBytes+budget) + partitions*40<<10
	held := heldMemory() - before
	t.Logf("%d bytes of heap for %d partitions", held, partitions)
	if held > most {
		t.Errorf("%d bytes are held for %d partitions, at most %d are right", held, partitions, most)
	}
}

// TestLargeMessagesOfManyPartitions: when all partitions of a stream come to messages
// that are larger than any fetch, one at a time has them in memory, and all come
// through, also when connections are lost in the middle.
func TestLargeMessagesOfManyPartitions(t *testing.T) {
	const partitions, large, budget = 24, consumer.MaxAdaptedFetchBytes + 1<<20, 2 << 20
	sizes := []int{10, large, large, 10}
	log := encode(0, len(sizes), func(i int) []byte { return make([]byte, sizes[i]) })
	rng := testRand(t)
	before := heldMemory()
	s, memory := consumer.NewGroupStream(), consumer.NewFetchMemory(budget)
	var fakes []*fakeBroker
	for i := range partitions {
		f := newFake(t, func(f *fakeBroker) { f.log = log })
		startFeed(t, s, f.addr, int32(i), func(c *consumer.FeedConfig) { c.ShareMemory(memory) })
		fakes = append(fakes, f)
	}
	seen := make([]int, partitions)
	for n := range partitions * len(sizes) {
		m := next(t, s)
		if k := seen[m.Broker]; k == len(sizes) || len(m.Payload) != sizes[k] {
			t.Fatalf("message %d of partition %d has %d bytes", k, m.Broker, len(m.Payload))
		}
		seen[m.Broker]++
		// The stand-ins hold answers that were asked for ahead.
		if held := heldMemory() - before; held > partitions*large/2 {
			t.Errorf("after %d messages %d bytes are held", n+1, held)
		}
		if n%8 == 7 {
			fakes[rng.IntN(partitions)].hangUp()
		}
	}
}

// heldMemory returns how many bytes of the heap are in use.
func heldMemory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lean serves the messages of a log over and over, and allocates nothing for it: a
// fetch at any offset is answered with what stands at the offset modulo the log's
// length, up to the end of the log.
func lean(t testing.TB, log []byte) (addr string) {
	return kafkatest.Peer(t, func(nc net.Conn) { leanConn(nc, log) })
}

func leanConn(nc net.Conn, log []byte) {
	frame, header := make([]byte, 1000), make([]byte, 0, 100)
	for {
		offset, size, wait, err := readFetch(nc, frame)
		if err != nil {
			return
		}
		set := log[offset%uint64(len(log)):]
		set = set[:min(size, len(set))]
		header = header[:0]
		if wait {
			header = wire.AppendResponseHeader(header, 0, len(set)+wire.ResponseHeaderSize)
		}
		header = wire.AppendResponseHeader(header, 0, len(set))
		if _, err := nc.Write(header); err != nil {
			return
		}
		if _, err := nc.Write(set); err != nil {
			return
		}
	}
}

// readFetch reads a fetch, and says whether it is a WaitFetch. It goes through frame.
func readFetch(nc net.Conn, frame []byte) (offset uint64, size int, wait bool, err error) {
	if _, err := io.ReadFull(nc, frame[:wire.SizeSize]); err != nil {
		return 0, 0, false, err
	}
	request := frame[:binary.BigEndian.Uint32(frame)]
	if _, err := io.ReadFull(nc, request); err != nil {
		return 0, 0, false, err
	}
	// Both kinds of request end alike: offset and bytes, then those of a WaitFetch.
	wait = wire.Type(binary.BigEndian.Uint16(request)) == wire.TypeWaitFetch
	fields := request[len(request)-12:]
	if wait {
		fields = request[len(request)-20:]
	}
	return binary.BigEndian.Uint64(fields), int(binary.BigEndian.Uint32(fields[8:])), wait, nil
}

// TestLargeMessageLeftBehind: the rest of a large message that was on its way when the
// application went elsewhere is not taken into memory: others may have one by then.
func TestLargeMessageLeftBehind(t *testing.T) {
	const large = consumer.MaxAdaptedFetchBytes + 1<<20
	log := message.Append(message.Append(nil, []byte("small")), make([]byte, large))
	partly, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	addr := kafkatest.Peer(t, func(nc net.Conn) {
		frame := make([]byte, 1000)
		for {
			offset, size, wait, err := readFetch(nc, frame)
			if err != nil {
				return
			}
			set := log[min(offset, uint64(len(log))):]
			set = set[:min(size, len(set))]
			answer := append(wire.AppendResponseHeader(nil, 0, len(set)), set...)
			if wait {
				answer = append(wire.AppendResponseHeader(nil, 0, len(answer)), answer...)
			}
			first := false
			if len(set) > consumer.MaxAdaptedFetchBytes {
				once.Do(func() { first = true })
			}
			if first {
				answer = answer[:len(answer)/2]
			}
			if _, err := nc.Write(answer); err != nil {
				return
			}
			if first {
				close(partly)
				for err == nil { // more requests, and then the end
					_, err = nc.Read(frame)
				}
				close(left)
				return
			}
		}
	})
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, addr, 0, func(c *consumer.FeedConfig) { c.MaxWait = quick })
	if m := next(t, s); string(m.Payload) != "small" {
		t.Fatalf("%q", m.Payload)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the application asks for what is behind it, and so is done with the first
		_, err := s.Next(ctx)
		ended <- err
	}()
	<-partly
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the large message came")
	}
	feed.SeekTo(0)
	select {
	case <-left:
	case <-testContext(t).Done():
		t.Fatal("the rest of the large message is still wanted")
	}
	for _, size := range []int{len("small"), large} {
		if m := next(t, s); len(m.Payload) != size {
			t.Errorf("a message of %d bytes, want %d", len(m.Payload), size)
		}
	}
}

// TestFetchAllocatesNothing: neither a message nor a fetch makes garbage, at a fixed
// size and at one that has adapted, once the buffers have their sizes. On a busy
// machine the rate would change the size for as long as one looks, so the one that it
// has come to is kept.
func TestFetchAllocatesNothing(t *testing.T) {
	const n = 10_000
	log := encode(0, n, func(int) []byte { return make([]byte, 200) })
	addr := lean(t, log)
	ctx := context.Background() // one that can end costs a few allocations a fetch
	for name, size := range map[string]int{"fixed": 100_000, "adapted": 0} {
		var settled atomic.Bool
		s := open(t, addr, func(c *consumer.PartitionConfig) {
			if c.FetchBytes = size; size == 0 {
				c.AdaptUntil(&settled)
			}
		})
		changed, asked := false, 0
		read := func() {
			for range n {
				if _, err := s.Next(ctx); err != nil {
					t.Fatal(err)
				}
				if now := s.Stats().FetchBytes; now != asked {
					changed, asked = true, now
				}
			}
		}
		for range 20 {
			read()
		}
		settled.Store(true)
		for range 10 { // what was asked for before comes first
			read()
		}
		changed = false
		before := s.Stats().Fetches
		allocs := testing.AllocsPerRun(5, read)
		if fetches := s.Stats().Fetches - before; allocs != 0 || fetches == 0 || changed {
			t.Errorf("%s: %v allocations for %d messages, %d fetches of %d bytes; changed: %v", name, allocs, n, fetches/6, asked, changed)
		}
	}
}
