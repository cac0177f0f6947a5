package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// TestB15CloseDeliversToABroker: 10,000 messages are sent and the producer is
// closed at once; then all are in the log, whether the application looks at the
// errors of Send, at none, or has nothing logged either (fault B15).
func TestB15CloseDeliversToABroker(t *testing.T) {
	const n = 10_000
	for _, acks := range []producer.Acks{producer.AcksNone, producer.AcksReceived, producer.AcksAppended, producer.AcksFlushed} {
		for _, errors := range []string{"read", "not read", "off"} {
			for _, async := range []bool{false, true} {
				if !async && (acks != producer.AcksNone || errors != "read") {
					continue // each would wait for its own flush, or is there already
				}
				t.Run(fmt.Sprintf("acks %v async %v errors %s", acks, async, errors), func(t *testing.T) {
					b := kafkatest.Start(t)
					cfg := producer.Config{Brokers: []string{b.HostPort()}, Acks: acks, Async: async}
					if errors != "off" {
						cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
					}
					p := newProducer(t, cfg)
					payloads, _ := numbered(n)
					for _, payload := range payloads {
						if err := p.Send(testContext(t), "t", 0, payload); err != nil && errors == "read" {
							t.Fatal(err)
						}
					}
					mustClose(t, p)
					st := p.Stats()
					if end := logEnd(t, b.HostPort()); end != st.Bytes || st.Delivered != n {
						t.Errorf("log end %d, stats %+v", end, st)
					}
				})
			}
		}
	}
}

func logEnd(t *testing.T, addr string) int64 {
	t.Helper()
	c, err := client.Dial(testContext(t), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	states, err := c.Topics(testContext(t), "t")
	if err != nil || len(states) != 1 {
		t.Fatalf("topics: %v, %v", states, err)
	}
	return states[0].LogEnd
}

// TestB15BrokerStopsWhileSending: whatever Send and Close do not report is in the
// log, and nothing is there twice (fault B15).
func TestB15BrokerStopsWhileSending(t *testing.T) {
	b := kafkatest.Start(t)
	p := newProducer(t, producer.Config{Brokers: []string{b.HostPort()}})
	var reported, taken int64
	count := func(err error) {
		var notSent *producer.NotSentError
		if errors.As(err, &notSent) {
			reported += notSent.Messages
		} else if err != nil {
			t.Error(err)
		}
	}
	payload := make([]byte, 91) // an entry of 100 bytes
	for i := range 10_000 {
		if i == 5000 {
			b.Stop()
		}
		err := p.Send(testContext(t), "t", 0, payload)
		if err == nil {
			taken++
		}
		count(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	count(p.Close(ctx))
	if st := p.Stats(); st.Sent != 10_000 || st.Delivered+st.Failed != st.Sent || st.Failed != reported+10_000-taken {
		t.Errorf("stats %+v, %d taken, %d of them reported", st, taken, reported)
	}
	b.Restart()
	if inLog := logEnd(t, b.HostPort()) / 100; inLog < taken-reported || inLog > taken {
		t.Errorf("%d in the log, %d taken, %d reported", inLog, taken, reported)
	}
}

// The broker's own refusals reach whoever asked for acknowledgements.
func TestRefusals(t *testing.T) {
	b := kafkatest.Start(t)
	p := newProducer(t, producer.Config{Brokers: []string{b.HostPort()}, Acks: producer.AcksAppended, MaxMessageBytes: 2_000_000})
	if err := p.Send(testContext(t), "t", 1, []byte("x")); !errors.Is(err, wire.CodeWrongPartition) {
		t.Errorf("partition 1 of 1: %v", err)
	}
	if err := p.Send(testContext(t), "t", 0, make([]byte, 1_000_001)); !errors.Is(err, wire.CodeMessageTooLarge) {
		t.Errorf("large message: %v", err)
	}
	mustSend(t, p, "t", 0, []byte("x"))
	mustClose(t, p)

	// Without them a broker can only hang up; that is noticed and counted.
	p = newProducer(t, producer.Config{Brokers: []string{b.HostPort()}})
	mustSend(t, p, "t", 1, []byte("x"))
	var notSent *producer.NotSentError
	if err := p.Flush(testContext(t)); !errors.As(err, &notSent) || notSent.Messages != 1 || notSent.Unconfirmed != 1 {
		t.Errorf("flush: %v", err)
	}
	mustSend(t, p, "t", 0, []byte("x"))
	mustClose(t, p)
}
