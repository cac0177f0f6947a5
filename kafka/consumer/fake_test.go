package consumer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// fakeBroker serves one partition from memory, and misbehaves as it is told.
// Its fields but those under mu are set before it starts.
type fakeBroker struct {
	t        *testing.T
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	old bool // hangs up on a WaitFetch, as a broker of 0.7 does
	// cut, if set, shortens an answer of n bytes at an offset.
	cut func(offset int64, n int) int
	// code, if set, is asked before a fetch is answered.
	code func(offset int64) wire.Code
	// breakOff, if set, is asked whether to hang up before the last byte of an
	// answer to a fetch.
	breakOff func(offset int64) bool

	mu       sync.Mutex
	changed  *sync.Cond
	log      []byte
	first    int64 // the smallest offset; log[0] has it
	conns    map[net.Conn]bool
	closed   bool
	requests []request
}

type request struct {
	typ    wire.Type
	offset int64
	max    int32
	at     time.Time
}

func newFake(t *testing.T, configure func(*fakeBroker)) *fakeBroker {
	f := &fakeBroker{t: t, conns: map[net.Conn]bool{}}
	f.changed = sync.NewCond(&f.mu)
	if configure != nil {
		configure(f)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.listener, f.addr = l, l.Addr().String()
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[nc] = true
			if f.closed {
				nc.Close()
			}
			f.mu.Unlock()
			f.wg.Go(func() {
				f.serve(nc)
				nc.Close()
				f.mu.Lock()
				delete(f.conns, nc)
				f.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		f.hangUp()
		f.wg.Wait()
	})
	return f
}

func (f *fakeBroker) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.conns {
		nc.Close()
	}
	f.changed.Broadcast()
}

func (f *fakeBroker) append(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, b...)
	f.changed.Broadcast()
}

func (f *fakeBroker) asked() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]request(nil), f.requests...)
}

func (f *fakeBroker) serve(nc net.Conn) {
	var size [wire.SizeSize]byte
	for {
		if _, err := io.ReadFull(nc, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(nc, frame); err != nil {
			return
		}
		answer := f.handle(frame)
		if answer == nil {
			return
		}
		broken := f.breaksOff(frame)
		if broken {
			answer = answer[:len(answer)-1]
		}
		if _, err := nc.Write(answer); err != nil || broken {
			return
		}
	}
}

func (f *fakeBroker) breaksOff(frame []byte) bool {
	typ, body, err := wire.SplitRequest(frame)
	if f.breakOff == nil || err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch typ {
	case wire.TypeFetch:
		e, _ := wire.ParseFetch(body)
		return f.breakOff(e.Offset)
	case wire.TypeWaitFetch:
		m, _ := wire.ParseWaitFetch(nil, body)
		return f.breakOff(m.Fetches[0].Offset)
	}
	return false
}

// handle answers one request; nil hangs up.
func (f *fakeBroker) handle(frame []byte) []byte {
	typ, body, err := wire.SplitRequest(frame)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	req := request{typ: typ, at: time.Now()}
	keep := func() { f.requests = append(f.requests, req) }
	switch typ {
	case wire.TypeFetch:
		e, _ := wire.ParseFetch(body)
		req.offset, req.max = e.Offset, e.MaxBytes
		keep()
		return f.fetch(e.Offset, int(e.MaxBytes))
	case wire.TypeWaitFetch:
		m, _ := wire.ParseWaitFetch(nil, body)
		e := m.Fetches[0]
		req.offset, req.max = e.Offset, e.MaxBytes
		keep()
		if f.old {
			return nil
		}
		var over bool
		timer := time.AfterFunc(time.Duration(m.MaxWaitMs)*time.Millisecond, func() {
			f.mu.Lock()
			over = true
			f.changed.Broadcast()
			f.mu.Unlock()
		})
		defer timer.Stop()
		for e.Offset == f.first+int64(len(f.log)) && !over && !f.closed {
			f.changed.Wait()
		}
		inner := f.fetch(e.Offset, int(e.MaxBytes))
		return append(wire.AppendResponseHeader(nil, 0, len(inner)), inner...)
	case wire.TypeOffsets:
		keep()
		o, _ := wire.ParseOffsets(body)
		answer := f.first
		if o.Time == wire.TimeLatest {
			answer += int64(len(f.log))
		}
		return append(wire.AppendResponseHeader(nil, 0, 12), wire.AppendOffsetList(nil, []int64{answer})...)
	}
	f.t.Errorf("unexpected request %v", typ)
	return nil
}

func (f *fakeBroker) fetch(offset int64, n int) []byte {
	pos := offset - f.first
	var code wire.Code
	if f.code != nil {
		code = f.code(offset)
	}
	if pos < 0 || pos > int64(len(f.log)) {
		code = wire.CodeOffsetOutOfRange
	}
	if code != 0 {
		return wire.AppendResponseHeader(nil, code, 0)
	}
	n = min(n, len(f.log)-int(pos))
	if f.cut != nil {
		n = f.cut(offset, n)
	}
	return append(wire.AppendResponseHeader(nil, 0, n), f.log[pos:int(pos)+n]...)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// open opens a stream of partition 0 of topic "t".
func open(t *testing.T, addr string, change func(*consumer.PartitionConfig)) *consumer.Stream {
	t.Helper()
	cfg := consumer.PartitionConfig{Broker: addr, Topic: "t"}
	if change != nil {
		change(&cfg)
	}
	s, err := consumer.OpenPartition(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// expect reads n messages and checks each against its number and the offsets.
func expect(t *testing.T, s *consumer.Stream, from, n int, payload func(int) []byte, offset int64) int64 {
	t.Helper()
	ctx := testContext(t)
	for i := from; i < from+n; i++ {
		m, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		want := payload(i)
		if string(m.Payload) != string(want) {
			t.Fatalf("message %d: payload of %d bytes %.20q, want %d bytes %.20q", i, len(m.Payload), m.Payload, len(want), want)
		}
		if m.Offset != offset || m.NextOffset != offset+int64(message.EntrySize(len(want))) {
			t.Fatalf("message %d: offset %d, next %d; want %d", i, m.Offset, m.NextOffset, offset)
		}
		offset = m.NextOffset
	}
	return offset
}

func numbered(i int) []byte { return fmt.Appendf(nil, "message %d", i) }

func encode(from, n int, payload func(int) []byte) (b []byte) {
	for i := from; i < from+n; i++ {
		b = message.Append(b, payload(i))
	}
	return b
}

// await waits until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}
