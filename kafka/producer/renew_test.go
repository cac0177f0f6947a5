package producer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kafkalab/kafka/producer"
)

// A connection ends after so many requests, when all on it is confirmed: nothing is
// lost, and the order is kept.
func TestReconnectAfterRequests(t *testing.T) {
	for _, cfg := range []producer.Config{
		{}, {NoCoalesce: true}, {Acks: producer.AcksReceived}, {Async: true, BatchMessages: 3},
		{Async: true, BatchMessages: 3, Acks: producer.AcksFlushed, MaxInFlight: 2}, {Async: true, BatchMessages: 3, NoCoalesce: true},
	} {
		t.Run(kindName(cfg), func(t *testing.T) {
			s := newSink(t, nil)
			cfg.Brokers, cfg.ReconnectRequests, cfg.QueueInterval = []string{s.addr}, 10, time.Hour
			p := newProducer(t, cfg)
			payloads, want := numbered(300)
			for i, payload := range payloads {
				mustSend(t, p, "t", 0, payload)
				if i%60 == 59 {
					if err := p.Flush(testContext(t)); err != nil {
						t.Fatal(err)
					}
					if got := s.got("t-0"); !slices.Equal(got, want[:i+1]) {
						t.Fatalf("after %d messages a flush leaves %d", i+1, len(got))
					}
				}
			}
			mustClose(t, p)
			if got := s.got("t-0"); !slices.Equal(got, want) {
				t.Errorf("%d messages, want %d in order", len(got), len(want))
			}
			st := p.Stats()
			if st.Failed != 0 || st.Delivered != 300 || st.Connects < 4 || st.Connects > st.Requests/10+1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestReconnectAfterTime(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}, ReconnectInterval: 20 * time.Millisecond})
	n := 0
	await(t, "the fourth connection", func() bool {
		mustSend(t, p, "t", 0, fmt.Appendf(nil, "message %d", n))
		n++
		return p.Stats().Connects >= 4
	})
	mustClose(t, p)
	if st := p.Stats(); st.Delivered != int64(n) || st.Failed != 0 || len(s.got("t-0")) != n {
		t.Errorf("%d sent: stats %+v", n, st)
	}
}
