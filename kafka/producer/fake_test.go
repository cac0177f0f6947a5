package producer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// sink is a peer that keeps what producers send and answers as a broker does.
// Its fields are set before it starts.
type sink struct {
	t        *testing.T
	addr     string
	listener net.Listener
	wg       sync.WaitGroup

	// hangUpAfter closes a connection, once, after so many produce requests.
	hangUpAfter int
	// answer, if set, gives the code of an acknowledgement.
	answer func(p wire.AckedProduce) wire.Code

	mu       sync.Mutex
	changed  *sync.Cond
	stalled  bool // nothing is read or answered while set
	conns    map[net.Conn]bool
	accepted int
	types    []wire.Type
	messages map[string][]string // by "topic-partition"
	sets     []int               // messages of each set
	stored   [][]byte            // the sets
	hungUp   bool
	closed   bool
}

func newSink(t *testing.T, configure func(*sink)) *sink {
	s := &sink{t: t, conns: map[net.Conn]bool{}, messages: map[string][]string{}}
	s.changed = sync.NewCond(&s.mu)
	if configure != nil {
		configure(s)
	}
	s.listen("127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

func (s *sink) listen(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.listener, s.addr, s.closed = l, l.Addr().String(), false
	s.mu.Unlock()
	s.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[nc] = true
			s.accepted++
			if s.closed {
				nc.Close()
			}
			s.mu.Unlock()
			s.wg.Go(func() {
				s.serve(nc)
				nc.Close()
				s.mu.Lock()
				delete(s.conns, nc)
				s.mu.Unlock()
			})
		}
	})
}

// stop hangs up on everybody and listens no longer.
func (s *sink) stop() {
	s.mu.Lock()
	s.closed, s.stalled = true, false
	s.listener.Close()
	for nc := range s.conns {
		nc.Close()
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *sink) stall(on bool) {
	s.mu.Lock()
	s.stalled = on
	s.changed.Broadcast()
	s.mu.Unlock()
}

func (s *sink) serve(nc net.Conn) {
	var size [wire.SizeSize]byte
	for produced := 0; ; {
		s.mu.Lock()
		for s.stalled {
			s.changed.Wait()
		}
		s.mu.Unlock()
		if _, err := io.ReadFull(nc, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(nc, frame); err != nil {
			return
		}
		answer, isProduce := s.handle(frame)
		if isProduce {
			produced++
		}
		s.mu.Lock()
		hangUp := s.hangUpAfter > 0 && produced == s.hangUpAfter && !s.hungUp
		s.hungUp = s.hungUp || hangUp
		s.changed.Broadcast()
		s.mu.Unlock()
		if hangUp {
			return
		}
		if _, err := nc.Write(answer); err != nil {
			return
		}
	}
}

// handle takes one request in and returns its answer.
func (s *sink) handle(frame []byte) (answer []byte, isProduce bool) {
	typ, body, err := wire.SplitRequest(frame)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = append(s.types, typ)
	switch typ {
	case wire.TypeProduce:
		p, err := wire.ParseProduce(body)
		if err != nil {
			s.t.Error(err)
		}
		s.keep(p)
		return nil, true
	case wire.TypeAckedProduce:
		p, err := wire.ParseAckedProduce(body)
		if err != nil {
			s.t.Error(err)
		}
		if s.answer != nil {
			if code := s.answer(p); code != 0 {
				return wire.AppendResponseHeader(nil, code, 0), true
			}
		}
		s.keep(p.Produce)
		return wire.AppendAckedRange(wire.AppendResponseHeader(nil, 0, 16), wire.AckedRange{}), true
	case wire.TypeOffsets:
		return wire.AppendOffsetList(wire.AppendResponseHeader(nil, 0, 12), []int64{0}), false
	}
	s.t.Errorf("unexpected request: %v", typ)
	return nil, false
}

func (s *sink) keep(p wire.Produce) {
	key := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
	it := message.Set(p.Set).Iterate(0)
	n := 0
	for ; it.Next(); n++ {
		s.messages[key] = append(s.messages[key], string(it.Message().Payload))
	}
	if it.Err() != nil || it.ValidBytes() != len(p.Set) {
		s.t.Errorf("set of %d bytes: %d valid, %v", len(p.Set), it.ValidBytes(), it.Err())
	}
	s.sets = append(s.sets, n)
	s.stored = append(s.stored, p.Set) // the frame is not used again
}

// await waits until ok holds.
func (s *sink) await(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.AfterFunc(20*time.Second, func() {
		s.mu.Lock()
		s.closed = true
		s.changed.Broadcast()
		s.mu.Unlock()
	})
	defer deadline.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if s.closed {
			s.t.Fatalf("waited in vain for %s", what)
		}
		s.changed.Wait()
	}
}

func (s *sink) got(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.messages[key]...)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
