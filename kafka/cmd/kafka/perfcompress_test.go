package main

import (
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/producer"
)

// TestPerfNothingArrived: a broker drops compressed sets that hold too much
// without a word to who wants no acknowledgement, as 0.7 does with large messages.
// That is not a rate of messages a second.
func TestPerfNothingArrived(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxDecompressedBytes = 1000 })
	r, err := perfProduce(t.Context(), perfOptions{
		broker: b.HostPort(), topic: "t", messages: 100, messageSize: 100, batch: 50, producers: 1,
		acks: producer.AcksNone, codec: message.CodecGzip, text: true, progress: t.Output(),
	})
	if err == nil || !strings.Contains(err.Error(), "none of the 100 messages") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPerfSomeArrived: of three sets two hold too much, and are dropped without a
// word; the third one makes the log grow.
func TestPerfSomeArrived(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxDecompressedBytes = 1000 })
	o := perfOptions{
		broker: b.HostPort(), topic: "t", messages: 101, messageSize: 100, batch: 50, producers: 1,
		acks: producer.AcksNone, codec: message.CodecGzip, text: true, progress: t.Output(),
	}
	r, err := perfProduce(t.Context(), o)
	if err == nil || r == nil || r.Bytes == 0 || !strings.Contains(err.Error(), "messages are missing") {
		t.Errorf("%+v, %v", r, err)
	}
	o.batch = 5
	if r, err := perfProduce(t.Context(), o); err != nil {
		t.Errorf("all of them: %+v, %v", r, err)
	}
}
