package broker

import (
	"bytes"
	"testing"

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
	if n := len(st.in.buf); n < 3<<20 || n > 2*(3<<20) {
		t.Errorf("3 MiB of a request of %d got a buffer of %d bytes", len(big), n)
	}
	if err := st.feed(big[3<<20:]); err != nil {
		t.Fatal(err)
	}
	if n := len(st.in.buf); n != len(big) {
		t.Errorf("the whole request of %d bytes got a buffer of %d", len(big), n)
	}
	st.client.Close()
	st.in.fill() // the end, or a reset
	st.end()
}

// TestBufferOfAnIdleConnection: connections that ask for nothing hold none.
func TestBufferOfAnIdleConnection(t *testing.T) {
	srv := memoryBroker(t)
	for range 50 {
		l := connect(t, srv)
		l.send(wire.AppendFetch(nil, wire.FetchEntry{Topic: "a"}))
		l.want(0, nil)
	}
	// What the pool has is all there ever was, and none is in use.
	until(t, "all buffers are in the pool", func() bool {
		return len(srv.buffers.free[0]) > 0 && len(srv.buffers.free[0]) <= 50 && srv.buffers.large.Load() == 0
	})
}

// TestBufferPoolBounds: no more than so many of the largest are in use, and the
// pool keeps no more than it may.
func TestBufferPoolBounds(t *testing.T) {
	p := newBufferPool()
	type held struct {
		b     []byte
		class int
	}
	var all []held
	for range maxLargeBuffers + 10 {
		b, class := p.get(bufferClasses - 1)
		all = append(all, held{b, class})
	}
	large := 0
	for _, h := range all {
		if len(h.b) != classSize(h.class) {
			t.Fatalf("a buffer of class %d has %d bytes, want %d", h.class, len(h.b), classSize(h.class))
		}
		if h.class == bufferClasses-1 {
			large++
		}
	}
	if large != maxLargeBuffers {
		t.Errorf("%d large buffers are in use, want %d", large, maxLargeBuffers)
	}
	for _, h := range all {
		p.put(h.b, h.class)
	}
	if n := p.large.Load(); n != 0 {
		t.Errorf("%d large buffers are counted as in use after all were put back", n)
	}
	for class, free := range p.free {
		if len(free) > cap(free) || class == bufferClasses-1 && len(free) != cap(free) {
			t.Errorf("class %d keeps %d buffers of at most %d", class, len(free), cap(free))
		}
	}
}

// TestBufferWhenTheLargestAreInUse: the rest of an outsized request's buffer is
// kept whole when the buffer that it would move to is not to be had.
func TestBufferWhenTheLargestAreInUse(t *testing.T) {
	p := newBufferPool()
	for range maxLargeBuffers {
		p.get(bufferClasses - 1)
	}
	rest := bytes.Repeat([]byte("rest of it"), 30<<10) // more than the class below holds
	for _, size := range []int{len(rest), classSize(copyClass)} {
		want := rest[:size]
		r := reader{pool: p, class: noClass, want: bufferClasses - 1, buf: make([]byte, 2*largestBuffer)}
		r.r = len(r.buf) - size
		r.w = r.r + copy(r.buf[r.r:], want)
		r.makeRoom()
		if !bytes.Equal(r.buf[r.r:r.w], want) {
			t.Errorf("%d of %d bytes are left", r.w-r.r, size)
		}
		if r.w == len(r.buf) {
			t.Errorf("%d bytes leave no room to read into", size)
		}
	}
	if n := p.large.Load(); n != maxLargeBuffers {
		t.Errorf("%d large buffers are counted as in use, want %d", n, maxLargeBuffers)
	}
}
