package producer_test

import (
	"errors"
	"testing"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
	"kafkalab/kafka/wire"
)

// The statements of the paper about a producer.

// TestPaperR02ASetInOneRequest: a producer can send many messages in one request,
// whatever bytes they are; the serialisation is the user's (NetDB'11 §3).
func TestPaperR02ASetInOneRequest(t *testing.T) {
	s := newSink(t, nil)
	p := newProducer(t, producer.Config{Brokers: []string{s.addr}})
	payloads := [][]byte{[]byte("text"), {}, {0, 0xff, '\n', 0x80}, noise(10_000)}
	mustSend(t, p, "t", 0, payloads...)
	mustClose(t, p)
	if p.Stats().Requests != 1 || len(s.sets) != 1 {
		t.Fatalf("%d requests, %d sets", p.Stats().Requests, len(s.sets))
	}
	got := s.got("t-0")
	if len(got) != len(payloads) {
		t.Fatalf("%d messages, want %d", len(got), len(payloads))
	}
	for i, payload := range payloads {
		if got[i] != string(payload) {
			t.Errorf("payload %d is %.50q, want %.50q", i, got[i], payload)
		}
	}
}

// TestPaperR25NetworkErrorAfterProduce: the checksum of each message shows what
// the network has damaged on the way to the broker; the message is not stored,
// and who has asked for acknowledgements learns of it (NetDB'11 §3.3).
func TestPaperR25NetworkErrorAfterProduce(t *testing.T) {
	b := kafkatest.Start(t)
	line := kafkatest.NoisyLine(t, b.HostPort(), kafkatest.ToBroker, "damage me")
	p := newProducer(t, producer.Config{Brokers: []string{line}, Acks: producer.AcksFlushed})
	mustSend(t, p, "t", 0, []byte("sound"))
	if err := p.Send(testContext(t), "t", 0, []byte("good"), []byte("damage me")); !errors.Is(err, wire.CodeInvalidMessage) {
		t.Errorf("damaged on its way: %v", err)
	}
	mustSend(t, p, "t", 0, []byte("sound, too"))
	mustClose(t, p)

	// Without acknowledgements the broker can only hang up, and Flush counts what
	// is in doubt.
	p = newProducer(t, producer.Config{Brokers: []string{line}})
	mustSend(t, p, "t", 0, []byte("damage me"))
	var notSent *producer.NotSentError
	if err := p.Flush(testContext(t)); !errors.As(err, &notSent) || notSent.Messages != 1 {
		t.Errorf("damaged on its way, without acks: %v", err)
	}
	mustClose(t, p)
	if got, want := countLog(t, b.HostPort()), int64(2); got != want {
		t.Errorf("%d messages in the log, want %d", got, want)
	}
}

// countLog counts the visible messages of partition 0 of topic t.
func countLog(t *testing.T, addr string) (messages int64) {
	t.Helper()
	c, err := client.Dial(testContext(t), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for offset := int64(0); ; {
		set, err := c.Fetch(testContext(t), wire.FetchEntry{Topic: "t", Offset: offset, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(set) == 0 {
			return messages
		}
		it := set.Iterate(offset)
		for it.Next() {
			if it.Message().Codec() != message.CodecNone {
				t.Errorf("a compressed message at %d was not taken apart", it.Offset())
			}
			messages++
		}
		if it.Err() != nil || it.ValidBytes() == 0 {
			t.Fatalf("log at offset %d: %d bytes of messages, %v", offset, it.ValidBytes(), it.Err())
		}
		offset += int64(it.ValidBytes())
	}
}
