package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestMaxConnectionsPerAddress: an address that has its share gets no further
// connection, another one does, and there is room again when one ends.
func TestMaxConnectionsPerAddress(t *testing.T) {
	s := memoryBroker(t, func(c *Config) { c.MaxConnectionsPerAddress = 2 })
	dial := func(from string) *link {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &link{c.(*net.TCPConn), t}
	}
	served := func(l *link) {
		t.Helper()
		l.send(wire.AppendFetch(nil, from("none", 0)))
		l.want(0, nil)
	}
	first, second := dial("127.0.0.1"), dial("127.0.0.1")
	served(first)
	served(second)
	dial("127.0.0.1").wantClosed()
	dial("127.0.0.1").wantClosed()
	served(dial("127.0.0.2"))
	served(first)
	if n := testCounter(t, s, "kafka_broker_connections_refused_total"); n != 2 {
		t.Errorf("%v refused connections are counted, want 2", n)
	}
	second.Close()
	until(t, "the connection is forgotten", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 2
	})
	served(dial("127.0.0.1"))
}

// TestRequestsOfAllSizesAtOnce: many connections send requests of all sizes in
// small pieces, some larger than all the memory there is for them together. Each
// is appended whole, and none has to give up.
func TestRequestsOfAllSizesAtOnce(t *testing.T) {
	const connections, largest = 20, 3 << 20
	s := memoryBroker(t, func(c *Config) {
		c.MaxRequestMemoryBytes = 2 << 20
		c.ReadTimeout = patience
	})
	s.memory.mu.Lock()
	s.memory.stall = patience // these peers may be kept waiting by the test's machine
	s.memory.mu.Unlock()
	seed := seeded(t).Uint64()
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			if err := sendSizes(s, rnd, fmt.Sprintf("t%d", i), largest); err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	until(t, "all memory is given back", func() bool { return s.memory.state().inUse == 0 })
	if st := s.memory.state(); st.waits == 0 || st.refused != 0 {
		t.Errorf("in the end %+v: none had to wait, or some in vain", st)
	}
}

// sendSizes produces sets of random sizes to a topic, in pieces, and compares
// what the answers and the log say.
func sendSizes(s *Server, rnd *rand.Rand, topic string, largest int) error {
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * patience))
	end := int64(0)
	var all []byte
	for range 6 {
		var set []byte
		for size := rnd.IntN(largest >> rnd.IntN(8)); len(set) <= size; {
			payload := make([]byte, 8+rnd.IntN(20_000))
			binary.BigEndian.PutUint64(payload, rnd.Uint64())
			set = message.Append(set, payload)
		}
		all = append(all, set...)
		for rest := wire.AppendAckedProduce(nil, topic, 0, set, wire.AcksAppended, 0); len(rest) > 0; {
			n := min(1+rnd.IntN(200_000), len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		answer := make([]byte, wire.ResponseHeaderSize+16)
		if _, err := io.ReadFull(c, answer); err != nil {
			return fmt.Errorf("answer to a set of %d bytes: %w", len(set), err)
		}
		next := end + int64(len(set))
		want := answerBytes(0, wire.AppendAckedRange(nil, wire.AckedRange{Base: end, Next: next}))
		if !bytes.Equal(answer, want) {
			return fmt.Errorf("answer %x, want %x", answer, want)
		}
		end = next
	}
	log := s.logs.Lookup([]byte(topic), 0)
	slice, err := log.Read(0, len(all)+1)
	if err != nil {
		return err
	}
	defer slice.Release()
	got := make([]byte, slice.Len())
	if n, err := slice.ReadAt(got, 0); n < len(got) {
		return err
	}
	if !bytes.Equal(got, all) {
		return fmt.Errorf("the log has %d bytes, want %d, or others", len(got), len(all))
	}
	return nil
}
