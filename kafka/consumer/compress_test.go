package consumer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
)

var codecs = []message.Codec{message.CodecGzip, message.CodecSnappy}

// compressed returns the entry that holds set, which may be empty.
func compressed(t testing.TB, set []byte, codec message.Codec) []byte {
	t.Helper()
	if len(set) == 0 { // others write this; Compress does not
		return message.Append1(nil, []byte{0}, message.CodecSnappy)
	}
	entry, err := message.Compress(nil, set, codec)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// delivery is a message as a stream should give it.
type delivery struct {
	payload      string
	offset, next int64
}

// mixedLog returns a log of plain, compressed, nested and empty entries that
// hold numbered messages, and what a stream should make of it.
func mixedLog(t testing.TB) (log []byte, want []delivery) {
	n := 0
	add := func(inner int, entry []byte) {
		start := int64(len(log))
		log = append(log, entry...)
		for i := range inner {
			d := delivery{string(numbered(n)), start, start}
			if i == inner-1 {
				d.next = int64(len(log))
			}
			want = append(want, d)
			n++
		}
	}
	for round := range 5 {
		add(1, encode(n, 1, numbered))
		add(3, compressed(t, encode(n, 3, numbered), codecs[round%2]))
		add(0, compressed(t, nil, 0))
		add(1, compressed(t, encode(n, 1, numbered), codecs[round%2]))
		nested := slices.Concat(encode(n, 1, numbered), compressed(t, encode(n+1, 2, numbered), message.CodecSnappy), encode(n+3, 1, numbered))
		add(4, compressed(t, nested, message.CodecGzip))
	}
	return log, want
}

// drain reads messages and compares them with want.
func drain(t *testing.T, s *consumer.Stream, want []delivery) {
	t.Helper()
	for i, w := range want {
		m, err := s.Next(testContext(t))
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if got := (delivery{string(m.Payload), m.Offset, m.NextOffset}); got != w || m.Codec != message.CodecNone {
			t.Fatalf("message %d: %v (codec %v), want %v", i, got, m.Codec, w)
		}
	}
}

// A stream hands out the messages inside compressed ones, in order and with the
// offsets of Kafka 0.7 §2.3, however the log is cut into answers.
func TestCompressedMessages(t *testing.T) {
	log, want := mixedLog(t)
	for _, fetch := range []int{1, 40, 150, 1 << 20} {
		f := newFake(t, func(f *fakeBroker) { f.log = log })
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = fetch })
		drain(t, s, want)
		if err := s.SeekTo(want[4].offset); err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(want, func(d delivery) bool { return d.offset == want[4].offset })
		drain(t, s, want[first:])
	}
}

// Chunks give the same, also one that begins in the middle of a compressed
// message, and all their messages stay valid until the next call.
func TestChunksOfCompressedMessages(t *testing.T) {
	log, want := mixedLog(t)
	for alone := range len(want) {
		f := newFake(t, func(f *fakeBroker) { f.log = log })
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = 300 })
		drain(t, s, want[:alone])
		for at := alone; at < len(want); {
			it, err := s.NextChunk(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if alone > 0 && at == alone && s.ConsumedOffset() != want[alone-1].next {
				t.Fatalf("consumed offset %d, want %d", s.ConsumedOffset(), want[alone-1].next)
			}
			var chunk []message.Message
			begin := at
			for ; it.Next(); at++ {
				if it.Offset() != want[at].offset || it.NextOffset() != want[at].next {
					t.Fatalf("message %d: offset %d, next %d, want %v", at, it.Offset(), it.NextOffset(), want[at])
				}
				chunk = append(chunk, it.Message())
			}
			for i, m := range chunk {
				if string(m.Payload) != want[begin+i].payload {
					t.Fatalf("message %d is %q at the end of its chunk, want %q", begin+i, m.Payload, want[begin+i].payload)
				}
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
		}
	}
}

// Kafka 0.7 KAFKA-546: the consumed offset in the middle of a compressed message
// is that of its beginning. Who stops there and starts again gets its first
// messages twice, and misses none.
func TestRestartInACompressedMessage(t *testing.T) {
	log, want := mixedLog(t)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	for stop := 1; stop <= len(want); stop++ {
		s := open(t, f.addr, nil)
		drain(t, s, want[:stop])
		consumed := s.ConsumedOffset() // all but the last one, which the application holds
		expected := int64(0)
		if stop > 1 {
			expected = want[stop-2].next
		}
		if consumed != expected {
			t.Fatalf("holding message %d: consumed offset %d, want %d", stop-1, consumed, expected)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := slices.IndexFunc(want, func(d delivery) bool { return d.offset >= consumed })
		if again > stop-1 {
			t.Fatalf("message %d would be missed", stop-1)
		}
		drain(t, open(t, f.addr, func(c *consumer.PartitionConfig) { c.Start = consumed }), want[again:])
	}
}

// A compressed message that is larger than a pull comes with a larger one.
func TestCompressedMessageLargerThanTheFetch(t *testing.T) {
	noise := make([]byte, 100_000) // cannot be compressed
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for _, codec := range codecs {
		entry := compressed(t, slices.Concat(message.Append(nil, noise), message.Append(nil, []byte("x"))), codec)
		end := int64(len(entry))
		want := []delivery{{string(noise), 0, 0}, {"x", 0, end}, {string(numbered(0)), end, end + int64(message.EntrySize(len(numbered(0))))}}
		f := newFake(t, func(f *fakeBroker) { f.log = append(slices.Clone(entry), encode(0, 1, numbered)...) })
		drain(t, open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes = 1000 }), want)

		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.FetchBytes, c.MaxFetchBytes = 1000, len(entry)-1 })
		if _, err := s.Next(testContext(t)); !errors.Is(err, consumer.ErrTooLarge) {
			t.Errorf("%v: %v", codec, err)
		}
	}
}

// A shallow stream gives what is stored, each with an offset of its own.
func TestShallow(t *testing.T) {
	log, _ := mixedLog(t)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	for _, chunks := range []bool{false, true} {
		s := open(t, f.addr, func(c *consumer.PartitionConfig) { c.Shallow, c.FetchBytes = true, 200 })
		var copied []byte
		take := func(m message.Message, offset, next int64) {
			if offset != int64(len(copied)) {
				t.Fatalf("an entry at %d, want %d", offset, len(copied))
			}
			if m.Codec() == message.CodecNone {
				copied = message.Append(copied, m.Payload)
			} else {
				copied = message.Append1(copied, m.Payload, m.Codec())
			}
			if next != int64(len(copied)) {
				t.Fatalf("an entry ends at %d, want %d", next, len(copied))
			}
		}
		for len(copied) < len(log) {
			if chunks {
				it, err := s.NextChunk(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				for it.Next() {
					take(it.Message(), it.Offset(), it.NextOffset())
				}
				continue
			}
			m, err := s.Next(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			take(message.Message{Magic: 1, Attributes: byte(m.Codec), Payload: m.Payload}, m.Offset, m.NextOffset)
		}
		if !slices.Equal(copied, log) {
			t.Error("what was forwarded is not what was stored")
		}
	}
}

// What cannot be decompressed, or holds too much, is reported with topic,
// partition and offset, after all before it; the application can go on behind it.
func TestCompressedDamage(t *testing.T) {
	good := encode(0, 2, numbered)
	at := int64(len(good))
	for name, c := range map[string]struct {
		entry []byte
		want  error
	}{
		"no gzip":                  {message.Append1(nil, []byte("garbage garbage garbage"), message.CodecGzip), message.ErrDecompress},
		"too much":                 {compressed(t, message.Append(nil, make([]byte, 1000)), message.CodecGzip), message.ErrTooLarge},
		"damage inside":            {compressed(t, append(encode(2, 1, numbered), "\x00\x00\x00\x06\x00\x00\x00\x00\x00x"...), message.CodecSnappy), message.ErrCRC},
		"a message cut":            {message.Append1(nil, []byte("\x05\x10\x00\x00\x00\x05\x00"), message.CodecSnappy), message.ErrLength},
		"compressed twice, damage": {compressed(t, message.Append1(nil, []byte("x"), message.CodecSnappy), message.CodecGzip), message.ErrDecompress},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(f *fakeBroker) { f.log = slices.Concat(good, c.entry, encode(2, 1, numbered)) })
			limit := func(p *consumer.PartitionConfig) { p.MaxDecompressedBytes = 900 }
			check := func(s *consumer.Stream, err error) {
				t.Helper()
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "t-0") || !strings.Contains(err.Error(), "offset 36") || at != 36 {
					t.Errorf("error %v", err)
				}
				if s.ConsumedOffset() != at {
					t.Errorf("consumed offset %d, want %d", s.ConsumedOffset(), at)
				}
			}
			s := open(t, f.addr, limit)
			expect(t, s, 0, 2, numbered, 0)
			for range 2 {
				_, err := s.Next(testContext(t))
				check(s, err)
				_, err = s.NextChunk(testContext(t))
				check(s, err)
			}
			if err := s.SeekTo(at + int64(len(c.entry))); err != nil {
				t.Fatal(err)
			}
			expect(t, s, 2, 1, numbered, at+int64(len(c.entry)))

			s = open(t, f.addr, limit)
			it, err := s.NextChunk(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
			}
			if !errors.Is(it.Err(), c.want) || it.NextOffset() != at {
				t.Errorf("the chunk ends at %d, %v", it.NextOffset(), it.Err())
			}
			_, err = s.NextChunk(testContext(t))
			check(s, err)
		})
	}
}

// Compressed messages without messages inside, as a repair leaves them in a log,
// are passed over, and count as consumed when nothing follows.
func TestEmptyCompressedMessages(t *testing.T) {
	empty := compressed(t, nil, 0)
	log := slices.Concat(empty, encode(0, 1, numbered), empty, empty)
	f := newFake(t, func(f *fakeBroker) { f.log = log })
	for _, chunks := range []bool{false, true} {
		s := open(t, f.addr, nil)
		ctx, cancel := context.WithCancel(testContext(t))
		ended := make(chan error, 1)
		n := 0
		go func() {
			for {
				if !chunks {
					if _, err := s.Next(ctx); err != nil {
						ended <- err
						return
					}
					n++
					continue
				}
				it, err := s.NextChunk(ctx)
				if err != nil {
					ended <- err
					return
				}
				for it.Next() {
					n++
				}
			}
		}()
		await(t, "the end of the log to be consumed", func() bool { return s.ConsumedOffset() == int64(len(log)) })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || n != 1 {
			t.Errorf("%d messages, %v", n, err)
		}
	}
}
