package producer_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/producer"
)

// Messages sent one by one arrive in order and are counted, whatever their sizes and
// partitions, which batches become the buffer and which are copied into it, and which
// take their turn behind others.
func TestOneByOne(t *testing.T) {
	for name, cfg := range map[string]producer.Config{
		"sync": {}, "async": {Async: true, BatchMessages: 100}, "batches of one": {Async: true, BatchMessages: 1}, "of two": {Async: true, BatchMessages: 2},
		"acked": {Async: true, BatchMessages: 100, Acks: producer.AcksAppended, MaxInFlight: 2}, "not coalesced": {Async: true, BatchMessages: 100, NoCoalesce: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			s := newSink(t, nil)
			cfg.Brokers, cfg.QueueInterval, cfg.MaxBufferBytes = []string{s.addr}, time.Hour, 20_000
			p := newProducer(t, cfg)
			want, bytes := map[string][]string{}, int64(0)
			topic, partition, size := "t", int32(0), 0
			const n = 5000
			for i := range n {
				if rnd.IntN(40) == 0 {
					topic, partition = []string{"t", "another"}[rnd.IntN(2)], rnd.Int32N(3)
				}
				if rnd.IntN(100) == 0 {
					size = rnd.IntN(1000)
				}
				if rnd.IntN(500) == 0 {
					if err := p.Flush(testContext(t)); err != nil {
						t.Fatal(err)
					}
				}
				payload := fmt.Sprintf("%d %s", i, strings.Repeat("x", rnd.IntN(size+1)))
				mustSend(t, p, topic, partition, []byte(payload))
				key := fmt.Sprintf("%s-%d", topic, partition)
				want[key] = append(want[key], payload)
				bytes += int64(9 + len(payload))
			}
			mustClose(t, p)
			for key := range want {
				if got := s.got(key); !reflect.DeepEqual(got, want[key]) {
					t.Errorf("%s got %d messages, not the %d that were sent in their order", key, len(got), len(want[key]))
				}
			}
			if st := p.Stats(); st.Sent != n || st.Delivered != n || st.Bytes != bytes || st.RequestBytes != bytes || st.Failed+st.Dropped != 0 {
				t.Errorf("stats %+v, %d messages of %d bytes were sent", st, n, bytes)
			}
		})
	}
}

// TestNoTopic: the first Send of a producer has a name to be compared with no other
// one's, and an empty one is refused all the same.
func TestNoTopic(t *testing.T) {
	for name, cfg := range map[string]producer.Config{"sync": {}, "async": {Async: true}, "acked": {Acks: producer.AcksAppended}} {
		for _, payloads := range [][][]byte{{[]byte("a")}, {[]byte("a"), []byte("b")}} {
			s := newSink(t, nil)
			cfg.Brokers = []string{s.addr}
			p := newProducer(t, cfg)
			n := int64(len(payloads))
			for range 2 {
				if err := p.Send(testContext(t), "", 0, payloads...); err == nil || !strings.Contains(err.Error(), "topic name is empty") {
					t.Errorf("%s, %d payloads: %v", name, n, err)
				}
			}
			mustSend(t, p, "t", 0, payloads...)
			mustClose(t, p)
			if st := p.Stats(); st.Sent != 3*n || st.Failed != 2*n || st.Delivered != n {
				t.Errorf("%s, %d payloads: stats %+v", name, n, st)
			}
			if got := s.got("t-0"); int64(len(got)) != n || len(s.messages) != 1 {
				t.Errorf("%s, %d payloads: %q arrived", name, n, s.messages)
			}
		}
	}
}
