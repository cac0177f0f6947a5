package broker

import (
	"bytes"
	"context"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"kafkalab/kafka/wire"
)

const longWait = 30_000 // ms; more than the patience of a test

func waitFetch(minBytes int32, entries ...wire.FetchEntry) []byte {
	return wire.AppendWaitFetch(nil, entries, longWait, minBytes)
}

func from(topic string, offset int64) wire.FetchEntry {
	return wire.FetchEntry{Topic: topic, Offset: offset, MaxBytes: 1 << 20}
}

// waiting is how many connections wait.
func (s *Server) waiting() int {
	var m dto.Metric
	if err := s.metrics.waiting.Write(&m); err != nil {
		return -1
	}
	return int(m.GetGauge().GetValue())
}

func (s *Server) untilWaiting(t testing.TB, n int) {
	t.Helper()
	until(t, "connections wait", func() bool { return s.waiting() == n })
}

func parts(sets ...[]byte) []byte {
	var all []byte
	for _, set := range sets {
		all = append(all, answerBytes(0, set)...)
	}
	return all
}

func TestWaitFetch(t *testing.T) {
	n := int64(len(ackedSet))
	put := wire.AppendProduce(nil, "a", 0, ackedSet)
	putB := wire.AppendProduce(nil, "b", 0, ackedSet)
	for _, row := range []struct {
		name    string
		before  []byte   // requests without an answer
		wait    []byte   // the request that waits
		then    [][]byte // each sent by another connection once it waits
		code    wire.Code
		payload []byte
		change  func(*Config)
	}{
		{name: "woken by an append", before: put, wait: waitFetch(1, from("a", n)), then: [][]byte{put}, payload: parts(ackedSet)},
		{name: "woken by a topic that is made", wait: waitFetch(1, from("a", 0)), then: [][]byte{put}, payload: parts(ackedSet)},
		{name: "woken after a topic that is created", wait: waitFetch(1, from("a", 0)), then: [][]byte{wire.AppendCreateTopic(nil, "a", 2), put}, payload: parts(ackedSet)},
		{name: "woken in a topic made anew", before: put, wait: waitFetch(int32(3*n), from("a", 0)),
			then: [][]byte{wire.AppendDeleteTopic(nil, "a"), put, put, put}, payload: parts(bytes.Repeat(ackedSet, 3))},
		{name: "least bytes over all entries", wait: waitFetch(int32(2*n), from("a", 0), from("b", 0)), then: [][]byte{put, putB}, payload: parts(ackedSet, ackedSet)},
		{name: "least bytes in one entry", wait: waitFetch(int32(3*n), from("a", 0)), then: [][]byte{put, put, put}, payload: parts(bytes.Repeat(ackedSet, 3))},
		{name: "an entry at its most bytes does not wait", before: put, wait: waitFetch(1000, wire.FetchEntry{Topic: "a", MaxBytes: 5}), payload: parts(ackedSet[:5])},
		{name: "an entry at its segment's end does not wait", before: bytes.Repeat(put, 1), wait: waitFetch(1000, from("a", 0)),
			then: [][]byte{put}, payload: parts(ackedSet), change: func(c *Config) { c.Storage.SegmentBytes = 1 }},
		{name: "no entries", wait: waitFetch(1000), payload: nil},
		{name: "no least bytes", wait: waitFetch(0, from("a", 0)), payload: parts(nil)},
		{name: "time over", wait: wire.AppendWaitFetch(nil, []wire.FetchEntry{from("a", 0)}, 1, 1), payload: parts(nil)},
		{name: "no time", wait: wire.AppendWaitFetch(nil, []wire.FetchEntry{from("a", 0)}, 0, 1), payload: parts(nil)},
		{name: "an entry in error", before: put, wait: waitFetch(1000, from("a", 0), from("a", 99), from("b", 0)),
			payload: append(append(parts(ackedSet), answerBytes(wire.CodeOffsetOutOfRange, nil)...), parts(nil)...)},
		{name: "negative time", wait: wire.AppendWaitFetch(nil, []wire.FetchEntry{from("a", 0)}, -1, 1), code: wire.CodeBadArgument},
		{name: "negative least bytes", wait: wire.AppendWaitFetch(nil, []wire.FetchEntry{from("a", 0)}, 1, -1), code: wire.CodeBadArgument},
	} {
		t.Run(row.name, func(t *testing.T) {
			var change []func(*Config)
			if row.change != nil {
				change = append(change, row.change)
			}
			s := memoryBroker(t, change...)
			waiter, other := connect(t, s), connect(t, s)
			waiter.send(row.before)
			// Twice on one connection: a wait leaves nothing behind.
			waiter.send(wire.AppendWaitFetch(nil, []wire.FetchEntry{from("none", 0)}, 1, 1))
			waiter.want(0, parts(nil))
			waiter.send(row.wait)
			for _, request := range row.then {
				s.untilWaiting(t, 1)
				other.send(request)
				if kind, _, _ := wire.SplitRequest(request[wire.SizeSize:]); kind != wire.TypeProduce {
					other.want(0, nil)
				} else {
					other.send(wire.AppendOffsets(nil, "none", 0, wire.TimeLatest, 1)) // a barrier
					other.answer()
				}
			}
			waiter.want(row.code, row.payload)
			waiter.send(wire.AppendFetch(nil, from("none", 0)))
			waiter.want(0, nil)
		})
	}
}

// TestWaitFetchHearsOfNoOtherTopic: who waits for logs that are there is not woken
// when others are made, and does not share a list with all others that wait; who
// waits for one that is not there is, for as long.
func TestWaitFetchHearsOfNoOtherTopic(t *testing.T) {
	s := memoryBroker(t)
	told := func() int {
		s.topicWatchers.mu.Lock()
		defer s.topicWatchers.mu.Unlock()
		return len(s.topicWatchers.chs)
	}
	n := int64(len(ackedSet))
	other := connect(t, s)
	put := func(topic string) {
		other.send(wire.AppendProduce(nil, topic, 0, ackedSet))
		other.send(wire.AppendOffsets(nil, "none", 0, wire.TimeLatest, 1)) // a barrier
		other.answer()
	}
	put("a")
	waiter := connect(t, s)
	waiter.send(waitFetch(int32(3*n), from("a", 0), from("b", 0)))
	s.untilWaiting(t, 1)
	until(t, "it is told of topics", func() bool { return told() == 1 })
	put("b")
	until(t, "it is told of topics no more", func() bool { return told() == 0 })
	other.send(wire.AppendDeleteTopic(nil, "a"))
	other.want(0, nil)
	until(t, "it is told of topics again", func() bool { return told() == 1 })
	put("a")
	until(t, "it is told of topics no more", func() bool { return told() == 0 })
	put("b")
	waiter.want(0, parts(ackedSet, bytes.Repeat(ackedSet, 2)))
	if told() != 0 || s.waiting() != 0 {
		t.Errorf("%d are told of topics, %d wait", told(), s.waiting())
	}
}

// TestWaitFetchPipelined: requests behind one that waits are answered after it.
func TestWaitFetchPipelined(t *testing.T) {
	s := memoryBroker(t)
	l, other, n := connect(t, s), connect(t, s), int64(len(ackedSet))
	l.send(append(waitFetch(1, from("a", 0)), waitFetch(1, from("a", n))...))
	l.send(wire.AppendFetch(nil, from("a", 0)))
	for range 2 {
		s.untilWaiting(t, 1)
		other.send(wire.AppendProduce(nil, "a", 0, ackedSet))
		l.want(0, parts(ackedSet))
	}
	l.want(0, bytes.Repeat(ackedSet, 2))
}

// TestWaitFetchPeerCloses: a peer that closes ends the wait, also when requests
// that nobody has read lie before its close (as many as the socket takes).
func TestWaitFetchPeerCloses(t *testing.T) {
	s := memoryBroker(t)
	for _, behind := range [][]byte{nil, waitFetch(1, from("a", 0)), bytes.Repeat(waitFetch(1, from("a", 0)), 1000)} {
		l := connect(t, s)
		l.send(waitFetch(1, from("a", 0)))
		s.untilWaiting(t, 1)
		l.send(behind)
		l.Close()
		s.untilWaiting(t, 0)
		until(t, "the connection ends", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.conns) == 0
		})
	}
}

// TestWaitFetchHalfClose: a peer that has only closed its sending side gets
// its answer.
func TestWaitFetchHalfClose(t *testing.T) {
	s := memoryBroker(t)
	l := connect(t, s)
	l.send(waitFetch(1, from("a", 0)))
	s.untilWaiting(t, 1)
	if err := l.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	l.want(0, parts(nil))
	l.wantClosed()
}

// TestWaitFetchStop: a broker that stops answers those who wait with what there
// is.
func TestWaitFetchStop(t *testing.T) {
	s := memoryBroker(t)
	l := connect(t, s)
	l.send(waitFetch(1, from("a", 0)))
	s.untilWaiting(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	l.want(0, parts(nil))
	l.wantClosed()
}

// TestWaitFetchIdleTimeout: waiting is not idling.
func TestWaitFetchIdleTimeout(t *testing.T) {
	s := memoryBroker(t, func(c *Config) { c.IdleTimeout = 20 * time.Millisecond })
	l := connect(t, s)
	l.send(wire.AppendWaitFetch(nil, []wire.FetchEntry{from("a", 0)}, 100, 1))
	l.want(0, parts(nil))
	l.wantClosed() // now it idles
}

// TestWaitFetchWatchesEachLogOnce: a request that names a log over and over costs who
// appends to it no more than one that names it once.
func TestWaitFetchWatchesEachLogOnce(t *testing.T) {
	s := memoryBroker(t)
	for p := range int32(2) {
		if _, err := s.make([]byte("a"), p); err != nil {
			t.Fatal(err)
		}
	}
	c, client := newPair(t, s)
	defer client.Close()
	defer c.close()
	for range 1000 {
		for p := range int32(2) {
			c.fetches = append(c.fetches, wire.Fetch{Topic: []byte("a"), Partition: p, MaxBytes: 1})
		}
	}
	c.watch.visible, c.watch.topics = make(chan struct{}, 1), make(chan struct{}, 1)
	for range 2 { // and again, after it has waited once
		c.watchLogs()
		if n := len(c.watch.stops); n != 2 || len(c.watch.logs) != len(c.fetches) {
			t.Errorf("%d entries for %d watches of two logs", len(c.watch.logs), n)
		}
		for p := range int32(2) {
			if at, err := s.logs.Lookup([]byte("a"), p).Append(ackedSet, 1); err != nil || at.Base > int64(len(ackedSet)) {
				t.Fatal(at, err)
			}
			select {
			case <-c.watch.visible:
			default:
				t.Errorf("nothing is told of partition %d", p)
			}
		}
		c.unwatch()
	}
}
