package consumer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/wire"
)

// TestB09GroupCommittedOffsets: a group comes back with an offset that retention
// has overtaken, or with one of a topic that was made anew since. The broker says
// once that it is out of range; then the group goes on where its policy says, which
// it is told so as to write it down, or Next returns an error (fault B09, in a
// group, against a broker).
func TestB09GroupCommittedOffsets(t *testing.T) {
	for _, beyond := range []bool{false, true} {
		b := kafkatest.Start(t, func(c *broker.Config) {
			c.Storage.SegmentBytes, c.Storage.RetentionBytes = 1000, 2000
			c.Storage.CleanupInterval = time.Millisecond
		})
		conn, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		send := func(from, n int) {
			for i := from; i < from+n; i++ {
				if _, err := conn.AckedProduce(testContext(t), "t", 0, encode(i, 1, numbered), wire.AcksFlushed, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		state := func() wire.TopicState {
			states, err := conn.Topics(testContext(t), "t")
			if err != nil {
				t.Fatal(err)
			}
			return states[0]
		}
		send(0, 300)
		committed := int64(0)
		if beyond {
			committed = state().Watermark
			if err := conn.DeleteTopic(testContext(t), "t"); err != nil {
				t.Fatal(err)
			}
			send(0, 10)
		} else {
			await(t, "retention", func() bool { st := state(); return st.First > 0 && st.Bytes < 3000 })
		}
		for _, policy := range []consumer.Reset{consumer.ResetSmallest, consumer.ResetLargest, consumer.ResetFail} {
			t.Run(fmt.Sprintf("beyond %v, %v", beyond, policy), func(t *testing.T) {
				at := state()
				resets := make(chan [2]int64, 1)
				s := consumer.NewGroupStream()
				feed := startFeed(t, s, b.HostPort(), 0, func(c *consumer.FeedConfig) {
					errorsAgain(c)
					c.Start, c.Reset, c.OnReset = committed, policy, func(from, to int64) { resets <- [2]int64{from, to} }
				})
				if policy == consumer.ResetFail {
					for range 3 {
						if err := partitionError(t, s, 0); !errors.Is(err, wire.CodeOffsetOutOfRange) || err.Offset != committed {
							t.Errorf("at offset %d: %v", err.Offset, err)
						}
					}
					if st := feed.Stats(); st.Fetches != 1 || st.Resets != 0 || len(resets) != 0 || feed.Consumed() != committed {
						t.Errorf("stats %+v, consumed up to %d", st, feed.Consumed())
					}
					return
				}
				want := at.First
				if policy == consumer.ResetLargest {
					want = at.Watermark
				}
				if got := <-resets; got != [2]int64{committed, want} || feed.Consumed() != want {
					t.Errorf("reset %v, consumed up to %d, want %d", got, feed.Consumed(), want)
				}
				if policy == consumer.ResetLargest {
					send(300, 1)
				}
				if m := next(t, s); m.Offset != want {
					t.Errorf("first message at %d, want %d of %+v", m.Offset, want, at)
				}
				if st := feed.Stats(); st.Resets != 1 || st.SkippedBytes != max(want-committed, 0) {
					t.Errorf("stats %+v", st)
				}
			})
		}
	}
}

// TestB09GroupIsQuietWhileNothingCanBeRead: however often the application asks, a
// broker is asked no more than twice a second while it has nothing to give, and not
// at all once the policy is to fail; of an offset out of range it is asked once
// (fault B09, in a group).
func TestB09GroupIsQuietWhileNothingCanBeRead(t *testing.T) {
	outOfRange := func(int64) wire.Code { return wire.CodeOffsetOutOfRange }
	for name, c := range map[string]struct {
		policy    consumer.Reset
		start     int64
		requests  int // at most in 1.9 s: two a second, and what finding out takes
		configure func(*fakeBroker)
	}{
		"always out of range":        {consumer.ResetSmallest, 0, 5, func(f *fakeBroker) { f.code = outOfRange }},
		"always out of range, fail":  {consumer.ResetFail, 0, 3, func(f *fakeBroker) { f.code = outOfRange }},
		"below the start, fail":      {consumer.ResetFail, 10, 3, func(f *fakeBroker) { f.first = 1000 }},
		"below the start, largest":   {consumer.ResetLargest, 10, 3, func(f *fakeBroker) { f.first = 1000 }},
		"beyond the end, smallest":   {consumer.ResetSmallest, 1 << 40, 3, nil},
		"beyond, largest, as in 0.7": {consumer.ResetLargest, 1 << 40, 7, func(f *fakeBroker) { f.old = true }},
		"error code": {consumer.ResetSmallest, 0, 4, func(f *fakeBroker) {
			f.code = func(int64) wire.Code { return wire.CodeWrongPartition }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, c.configure)
			s := consumer.NewGroupStream()
			startFeed(t, s, f.addr, 0, func(f *consumer.FeedConfig) {
				errorsAgain(f)
				f.Start, f.Reset = c.start, c.policy
			})
			ctx := endedAfter(t, 1900*time.Millisecond)
			for ctx.Err() == nil {
				if _, err := s.Next(ctx); err == nil {
					t.Error("got a message")
				}
			}
			asked := f.asked()
			start := 0
			for _, r := range asked {
				if r.typ != wire.TypeOffsets && r.offset == c.start && f.code == nil {
					start++
				}
			}
			want := 1
			if f.old {
				want = 2 // it does not know the first one
			}
			if start != want && f.code == nil {
				t.Errorf("%d requests for the offset out of range, want %d", start, want)
			}
			if len(asked) > c.requests {
				for _, r := range asked {
					t.Logf("%v at offset %d, %v", r.typ, r.offset, r.at.Sub(asked[0].at))
				}
				t.Errorf("%d requests in 1.9 s", len(asked))
			}
		})
	}
}
