package broker

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestBufferGrowsAndGoes: a connection's buffer starts small, grows to the
// largest class while it fills, beyond it only for one request and only with
// its bytes, and is given back when there is nothing to read.
func TestBufferGrowsAndGoes(t *testing.T) {
	srv := memoryBroker(t)
	st := newStepped(t, srv)
	small := wire.AppendFetch(nil, wire.FetchEntry{Topic: "a"})
	if err := st.feed(small); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n != smallestBuffer {
		t.Errorf("a small request got a buffer of %d bytes, want %d", n, smallestBuffer)
	}
	if err := st.feed(bytes.Repeat(small, 400_000)); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n != largestBuffer {
		t.Errorf("a stream of requests got a buffer of %d bytes, want %d", n, largestBuffer)
	}
	big := wire.AppendProduce(nil, "a", 0, bytes.Repeat(message.Append(nil, make([]byte, 1000)), 5000))
	if err := st.feed(big[:3<<20]); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n < 3<<20 || n > 3<<20+mapStep {
		t.Errorf("3 MiB of a request of %d may use %d bytes", len(big), n)
	}
	if n := srv.memory.state().inUse; n != int64(len(st.in.buf)) {
		t.Errorf("%d bytes are counted as in use, want the %d of the request", n, len(st.in.buf))
	}
	if err := st.feed(big[3<<20:]); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n != len(big) {
		t.Errorf("the whole request of %d bytes got a buffer of %d", len(big), n)
	}
	if err := st.feed(small); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n > largestBuffer {
		t.Errorf("after it a small request got a buffer of %d bytes", n)
	}
	st.client.Close()
	st.in.fill() // the end, or a reset
	st.end()
	if s := srv.memory.state(); s.inUse != 0 {
		t.Errorf("%d bytes are in use in the end", s.inUse)
	}
}

// TestBufferOfOneRequest: a request that outgrows the smallest buffer gets all
// that it needs at once, and no more.
func TestBufferOfOneRequest(t *testing.T) {
	srv := memoryBroker(t)
	for _, size := range []int{20_000, 100_000, 300_000, 1 << 20} {
		st := newStepped(t, srv)
		request := wire.AppendProduce(nil, "a", 0, bytes.Repeat(message.Append(nil, make([]byte, size/100-9)), 100))
		if err := st.feed(request[:smallestBuffer]); err != nil {
			t.Fatal(err)
		}
		if s := srv.memory.state(); s.inUse != 0 {
			t.Errorf("%d bytes are in use when %d of a request of %d are there", s.inUse, smallestBuffer, len(request))
		}
		if err := st.feed(request[smallestBuffer:]); err != nil {
			t.Fatal(err)
		}
		if n := len(st.in.buf); n < len(request) || n >= len(request)+arenaUnit {
			t.Errorf("a request of %d bytes got a buffer of %d", len(request), n)
		}
		st.end()
	}
	if s := srv.memory.state(); s.inUse != 0 {
		t.Errorf("%d bytes are in use in the end", s.inUse)
	}
}

// TestBufferOfAnIdleConnection: connections that ask for nothing hold none, and
// those that wait for messages do not either.
func TestBufferOfAnIdleConnection(t *testing.T) {
	srv := memoryBroker(t)
	for range 20 {
		l := connect(t, srv)
		l.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "a"}))
		l.want(0, nil)
	}
	waiters := 0
	for range 20 {
		l := connect(t, srv)
		l.send(waitFetch(1, from("a", 0)))
		waiters++
		srv.untilWaiting(t, waiters)
	}
	// What the memory has is all there ever was, and none is in use.
	until(t, "all buffers are given back", func() bool {
		n := len(srv.memory.small)
		return n > 0 && n <= 40 && srv.memory.state().inUse == 0
	})
}

// TestBufferWhenMemoryIsShort: a large request waits until there is memory for
// it; small ones go on meanwhile, on other connections and ahead of it on its
// own.
func TestBufferWhenMemoryIsShort(t *testing.T) {
	srv := memoryBroker(t, func(c *Config) { c.MaxRequestMemoryBytes = largestBuffer })
	hog, _ := testHolder()
	all, ok, err := srv.memory.takeFor(hog, largestBuffer, true)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	set := bytes.Repeat(ackedSet, 300_000/len(ackedSet))
	l, other := connect(t, srv), connect(t, srv)
	l.send(acked("a", wire.AcksAppended, 0))
	l.wantRange(0, 0, int64(len(ackedSet)))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		l.Write(wire.AppendAckedProduce(nil, "large", 0, set, wire.AcksAppended, 0)) // a failure shows as a missing answer
	}()
	srv.memory.untilWaiting(t, 1)
	for i := range int64(10) {
		other.send(acked("b", wire.AcksAppended, 0))
		other.wantRange(0, i*int64(len(ackedSet)), (i+1)*int64(len(ackedSet)))
	}
	if n := srv.end("large"); n != -1 {
		t.Errorf("the large request was handled without memory: the log ends at %d", n)
	}
	srv.memory.give(hog, &all)
	l.wantRange(0, 0, int64(len(set)))
	<-sent
	if s := srv.memory.state(); s.waits != 1 || s.refused != 0 || s.evicted != 0 {
		t.Errorf("in the end %+v", s)
	}
}

// TestBufferRefused: a request that gets no memory within the read time-out ends
// its connection, after the answers to what came before it.
func TestBufferRefused(t *testing.T) {
	srv := memoryBroker(t, func(c *Config) {
		c.MaxRequestMemoryBytes = largestBuffer
		c.ReadTimeout = 50 * time.Millisecond
	})
	hog, _ := testHolder()
	all, _, err := srv.memory.takeFor(hog, largestBuffer, true)
	if err != nil {
		t.Fatal(err)
	}
	l := connect(t, srv)
	set := bytes.Repeat(ackedSet, 2*smallestBuffer/len(ackedSet))
	l.send(append(acked("a", wire.AcksFlushed, patience), wire.AppendProduce(nil, "a", 0, set)...))
	l.wantRange(0, 0, int64(len(ackedSet)))
	l.wantClosed()
	srv.memory.give(hog, &all)
	if s := srv.memory.state(); s.refused != 1 {
		t.Errorf("in the end %+v", s)
	}
}

// TestB06BufferEvicted (fault B06): who has sent most of a request and then falls
// silent loses its connection once others need the memory, long before the read
// time-out; with nobody waiting it may take its time.
func TestB06BufferEvicted(t *testing.T) {
	srv := memoryBroker(t, func(c *Config) { c.MaxRequestMemoryBytes = largestBuffer })
	request := wire.AppendAckedProduce(nil, "a", 0, bytes.Repeat(ackedSet, 1<<20/len(ackedSet)), wire.AcksAppended, 0)
	silent, good := connect(t, srv), connect(t, srv)
	silent.send(request[:len(request)-1])
	until(t, "the silent one holds memory", func() bool { return srv.memory.state().inUse > 0 })
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		good.Write(request) // a failure shows as a missing answer
	}()
	good.wantRange(0, 0, int64(1<<20/len(ackedSet)*len(ackedSet)))
	silent.wantClosed()
	<-sent
	if s := srv.memory.state(); s.evicted != 1 || s.refused != 0 {
		t.Errorf("in the end %+v", s)
	}
}

// TestB06BufferEvictedBehindAWait: who keeps more than a smallest buffer of requests
// behind one that waits for messages does so on its own account.
func TestB06BufferEvictedBehindAWait(t *testing.T) {
	srv := memoryBroker(t, func(c *Config) { c.MaxRequestMemoryBytes = largestBuffer })
	hoarder, good := connect(t, srv), connect(t, srv)
	// Its buffer grows to the largest, and then it waits with much behind.
	var ended sync.WaitGroup
	ended.Go(func() {
		none := wire.AppendFetch(nil, wire.FetchEntry{Topic: "none"})
		wait := waitFetch(1, from("none", 0))
		hoarder.Write(append(bytes.Repeat(none, 200_000), bytes.Repeat(wait, 200_000)...)) // until it is cut off
	})
	ended.Go(func() { io.Copy(io.Discard, hoarder) })
	srv.untilWaiting(t, 1)
	until(t, "the waiting one holds memory", func() bool { return srv.memory.state().inUse > 0 })
	request := wire.AppendAckedProduce(nil, "a", 0, bytes.Repeat(ackedSet, 1<<20/len(ackedSet)), wire.AcksAppended, 0)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		good.Write(request)
	}()
	good.wantRange(0, 0, int64(1<<20/len(ackedSet)*len(ackedSet)))
	<-sent
	ended.Wait()
	if s := srv.memory.state(); s.evicted != 1 {
		t.Errorf("in the end %+v", s)
	}
}
