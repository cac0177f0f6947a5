package consumer_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// again is how soon the feeds of these tests tell an error again.
const again = 20 * time.Millisecond

func errorsAgain(c *consumer.FeedConfig) { c.ErrorEvery = again }

// partitionError returns the error of the next call, which is to be one of feed id.
func partitionError(t *testing.T, s *consumer.GroupStream, id int32) *consumer.PartitionError {
	t.Helper()
	m, err := s.Next(testContext(t))
	var of *consumer.PartitionError
	if !errors.As(err, &of) {
		t.Fatalf("%q, error %v; want one of a partition", m.Payload, err)
	}
	if of.Topic != "t" || of.Broker != id || of.Partition != 0 {
		t.Errorf("error of topic %s, broker %d, partition %d", of.Topic, of.Broker, of.Partition)
	}
	return of
}

// What is wrong with one partition comes to the application where it is met, does
// not stop another, comes again without asking the broker, and is over after a seek
// beyond it.
func TestErrorsOfAPartition(t *testing.T) {
	size := int64(message.EntrySize(len(numbered(0))))
	damaged := encode(0, 10, numbered)
	damaged[5*size+message.Overhead0] ^= 1
	large := slices.Concat(encode(0, 5, numbered), message.Append(nil, make([]byte, 3000)), encode(6, 4, numbered))
	torn := damaged[:8*size-3]
	for _, c := range []struct {
		name   string
		log    []byte
		change func(*consumer.FeedConfig)
		before int   // messages until the error
		at     int64 // where it stands
		want   error
		beyond int64 // where a seek helps
		number int   // of the message there
	}{
		{"checksum", damaged, nil, 5, 5 * size, message.ErrCRC, 6 * size, 6},
		{"too large", large, func(c *consumer.FeedConfig) { c.FetchBytes, c.MaxFetchBytes = 100, 2000 },
			5, 5 * size, consumer.ErrTooLarge, 5*size + int64(message.EntrySize(3000)), 6},
		{"out of range", damaged, func(c *consumer.FeedConfig) { c.Start, c.Reset = 1<<40, consumer.ResetFail },
			0, 1 << 40, wire.CodeOffsetOutOfRange, size, 1},
		{"torn", torn, func(c *consumer.FeedConfig) { c.Start, c.MaxWait = 6*size, quick },
			1, 7 * size, consumer.ErrTorn, 0, 0},
		{"failed at the start", damaged, func(c *consumer.FeedConfig) { c.Failed = errors.ErrUnsupported },
			0, 0, errors.ErrUnsupported, 2 * size, 2},
		{"bad arguments", damaged, func(c *consumer.FeedConfig) { c.Failed, c.FetchBytes = nil, -1 },
			0, 0, nil, -1, 0},
	} {
		for _, chunks := range []bool{false, true} {
			f := newFake(t, func(f *fakeBroker) { f.log = c.log })
			other := newFake(t, func(f *fakeBroker) { f.log = encode(0, 1000, numbered) })
			s := consumer.NewGroupStream()
			feed := startFeed(t, s, f.addr, 0, func(f *consumer.FeedConfig) {
				errorsAgain(f)
				if c.change != nil {
					c.change(f)
				}
			})
			if chunks {
				for n := 0; n < c.before; {
					chunk, err := s.NextChunk(testContext(t))
					if err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
					for chunk.Next() {
						n++
					}
				}
			} else {
				for range c.before {
					next(t, s)
				}
			}
			err := partitionError(t, s, 0)
			if err.Offset != c.at || feed.Consumed() != c.at || err.Temporary || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: at offset %d, consumed up to %d, temporary %v: %v", c.name, err.Offset, feed.Consumed(), err.Temporary, err)
			}
			asked := len(f.asked())
			for range 6 {
				if e := partitionError(t, s, 0); e.Err.Error() != err.Err.Error() {
					t.Errorf("%s: again: %v", c.name, e)
				}
			}
			if n := len(f.asked()) - asked; n > 2 { // those that were asked ahead, and came late
				t.Errorf("%s: the error has cost %d requests", c.name, n)
			}
			o := startFeed(t, s, other.addr, 1, nil)
			for messages := 0; messages < 1000; {
				_, err := s.Next(testContext(t))
				if err == nil {
					messages++
				} else if !errors.As(err, new(*consumer.PartitionError)) {
					t.Fatal(err)
				}
			}
			stopFeed(t, o)
			if c.beyond >= 0 {
				feed.SeekTo(c.beyond)
				if m := next(t, s); string(m.Payload) != string(numbered(c.number)) || m.Offset != c.beyond {
					t.Errorf("%s: after a seek: %q at offset %d", c.name, m.Payload, m.Offset)
				}
			}
			stopFeed(t, feed)
		}
	}
}

// What a broker answers with an error is told as temporary, and the feed goes on as
// soon as the broker does.
func TestTemporaryErrorOfAPartition(t *testing.T) {
	codes := make(chan wire.Code, 2)
	codes <- wire.CodeWrongPartition
	codes <- wire.CodeWrongPartition
	f := newFake(t, func(f *fakeBroker) {
		f.log = encode(0, 1, numbered)
		f.code = func(int64) wire.Code {
			select {
			case c := <-codes:
				return c
			default:
				return wire.CodeNone
			}
		}
	})
	s := consumer.NewGroupStream()
	startFeed(t, s, f.addr, 0, errorsAgain)
	for range 2 {
		if err := partitionError(t, s, 0); !err.Temporary || !errors.Is(err, wire.CodeWrongPartition) {
			t.Errorf("temporary %v: %v", err.Temporary, err)
		}
	}
	if m := next(t, s); m.Offset != 0 {
		t.Errorf("offset %d", m.Offset)
	}
}

// A revocation and a seek take an error back that has not been told.
func TestErrorThatIsNotWantedAnyMore(t *testing.T) {
	f := newFake(t, func(f *fakeBroker) { f.log = encode(0, 2, numbered) })
	s := consumer.NewGroupStream()
	fail := func(c *consumer.FeedConfig) { c.Failed, c.ErrorEvery = errors.ErrUnsupported, time.Hour }
	feed := startFeed(t, s, f.addr, 0, fail)
	await(t, "the error", feed.Waiting)
	feed.SeekTo(0)
	if m := next(t, s); m.Offset != 0 {
		t.Errorf("offset %d", m.Offset)
	}
	feed = startFeed(t, s, f.addr, 1, fail)
	await(t, "the error", feed.Waiting)
	feed.Revoke()
	if m := next(t, s); m.Broker != 0 || m.Offset == 0 {
		t.Errorf("%+v", m)
	}
}

// A broker that is away when its partition is given to a member, and one that goes
// away later, are tried again until they are there. The application is told that
// they are away for long, and other partitions go on.
func TestBrokerAway(t *testing.T) {
	b := paperLog(t, 100)
	addr := b.HostPort()
	b.Stop()
	other := newFake(t, nil)
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, addr, 0, func(c *consumer.FeedConfig) {
		c.FetchBytes, c.AwayAfter, c.ErrorEvery = 100, 10*time.Millisecond, time.Millisecond
	})
	startFeed(t, s, other.addr, 1, nil)
	got := 0 // of the broker
	take := func() error {
		m, err := s.Next(testContext(t))
		if err == nil && m.Broker == 0 {
			if string(m.Payload) != string(numbered(got)) {
				t.Fatalf("%q, want number %d", m.Payload, got)
			}
			got++
		}
		return err
	}
	for round := range 2 {
		var away error
		for away == nil { // what was fetched before comes first
			away = take()
		}
		var err *consumer.PartitionError
		if !errors.As(away, &err) || !err.Temporary || err.Broker != 0 || !strings.Contains(err.Error(), addr) || err.Offset != feed.Consumed() {
			t.Fatalf("with %d messages consumed: %v", got, away)
		}
		other.append(encode(round, 1, numbered))
		for beside := false; !beside; {
			m, err := s.Next(testContext(t))
			if err != nil && !errors.As(err, new(*consumer.PartitionError)) {
				t.Fatal(err)
			}
			beside = err == nil && m.Broker == 1
		}
		b.Restart()
		for got < 50*(round+1) {
			if err := take(); err != nil && !errors.As(err, new(*consumer.PartitionError)) {
				t.Fatal(err)
			}
		}
		b.Stop()
	}
}

// That a broker is away is not told when it is over, as the broker is there again
// or has moved.
func TestBrokerThatIsBackIsNotToldAway(t *testing.T) {
	b := paperLog(t, 100)
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, b.HostPort(), 0, func(c *consumer.FeedConfig) {
		c.AwayAfter, c.ErrorEvery = time.Nanosecond, time.Hour
	})
	for range 100 {
		next(t, s)
	}
	s.Done()
	quiet := func() {
		t.Helper()
		if m, err := s.Next(endedAfter(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", m.Payload, err)
		}
	}
	quiet()
	b.Stop()
	await(t, "the loss", feed.Failing)
	b.Restart()
	await(t, "the end of the loss", func() bool { return !feed.Failing() })
	quiet()
	b.Stop()
	await(t, "the loss", feed.Failing)
	feed.Move(newFake(t, nil).addr)
	if feed.Failing() {
		t.Error("fails at the address that it has left")
	}
	quiet()
}

// A feed follows its broker to another address: where it cannot be reached at the
// first one, and in the middle of its log. What it holds is handed out before.
func TestMove(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	log := encode(0, 300, numbered)
	a := newFake(t, func(f *fakeBroker) { f.log = log[:len(encode(0, 200, numbered))] })
	b := newFake(t, func(f *fakeBroker) { f.log = log })
	for _, start := range []int64{0, consumer.Earliest} {
		s := consumer.NewGroupStream()
		feed := startFeed(t, s, nobody, 0, func(c *consumer.FeedConfig) { c.FetchBytes, c.Start = 1000, start })
		feed.Move(a.addr)
		for i := range 300 {
			if i == 70 {
				feed.Move(b.addr)
			}
			if m := next(t, s); string(m.Payload) != string(numbered(i)) {
				t.Fatalf("message %d: %q at offset %d", i, m.Payload, m.Offset)
			}
		}
	}
}

// A start at an end of the log is told with the offset that it is, as a reset is;
// until then it is not known what is consumed.
func TestStartOfAFeedAtTheEnds(t *testing.T) {
	b := paperLog(t, 100)
	end := int64(len(encode(0, 100, numbered)))
	addr := b.HostPort()
	for start, want := range map[int64]int64{consumer.Earliest: 0, consumer.Latest: end} {
		b.Stop()
		resets := make(chan [2]int64, 1)
		s := consumer.NewGroupStream()
		feed := startFeed(t, s, addr, 0, func(c *consumer.FeedConfig) {
			c.Start, c.OnReset = start, func(from, to int64) { resets <- [2]int64{from, to} }
		})
		if feed.Consumed() != -1 {
			t.Errorf("consumed up to %d before the broker has said where that is", feed.Consumed())
		}
		b.Restart()
		if got := <-resets; got != [2]int64{start, want} || feed.Consumed() != want {
			t.Errorf("start at %v, consumed up to %d, want %d", got, feed.Consumed(), want)
		}
		stopFeed(t, feed)
	}
}

// TestB10MessageTooLargeForAGroup: a message that is larger than the fetch size is
// delivered by a larger fetch; one above the limit is an error that names its size
// and offset, and holds up nobody else (fault B10, in a group).
func TestB10MessageTooLargeForAGroup(t *testing.T) {
	b := kafkatest.Start(t)
	p, err := producer.New(testContext(t), producer.Config{Brokers: []string{b.HostPort()}})
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{1 << 10, 10<<10 - 9, 10 << 10, 200_000, 900_000, 1 << 10}
	for _, n := range sizes {
		if err := p.Send(testContext(t), "t", 0, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	s := consumer.NewGroupStream()
	feed := startFeed(t, s, b.HostPort(), 0, func(c *consumer.FeedConfig) { c.FetchBytes, c.MaxFetchBytes = 10<<10, 500_000 })
	for i, n := range sizes {
		if n == 900_000 {
			e := partitionError(t, s, 0)
			if !errors.Is(e, consumer.ErrTooLarge) || !strings.Contains(e.Error(), "900009 bytes at offset") {
				t.Errorf("error %v", e)
			}
			feed.SeekTo(e.Offset + int64(message.EntrySize(n)))
			continue
		}
		if m := next(t, s); len(m.Payload) != n {
			t.Errorf("message %d of %d bytes, want %d", i, len(m.Payload), n)
		}
	}
}
