package producer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// Fault B15 against a real broker: 10,000 messages are sent and the producer is
// closed at once; then all are in the log.
func TestCloseDeliversToABroker(t *testing.T) {
	const n = 10_000
	for _, acks := range []producer.Acks{producer.AcksNone, producer.AcksReceived, producer.AcksAppended, producer.AcksFlushed} {
		for _, async := range []bool{false, true} {
			if acks != producer.AcksNone && !async {
				continue // each would wait for its own flush
			}
			t.Run(fmt.Sprintf("acks %v async %v", acks, async), func(t *testing.T) {
				b := kafkatest.Start(t)
				p := newProducer(t, producer.Config{Brokers: []string{b.HostPort()}, Acks: acks, Async: async})
				payloads, _ := numbered(n)
				for _, payload := range payloads {
					mustSend(t, p, "t", 0, payload)
				}
				mustClose(t, p)
				if end, want := logEnd(t, b.HostPort()), p.Stats().Bytes; end != want {
					t.Errorf("log end %d, want %d", end, want)
				}
			})
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

// Fault B15: the broker is stopped while the producer sends. Whatever close
// does not report is in the log, and nothing is there twice.
func TestBrokerStopsWhileSending(t *testing.T) {
	b := kafkatest.Start(t)
	p := newProducer(t, producer.Config{Brokers: []string{b.HostPort()}})
	var reported int64
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
		count(p.Send(testContext(t), "t", 0, payload))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	count(p.Close(ctx))
	taken := p.Stats().Messages
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
