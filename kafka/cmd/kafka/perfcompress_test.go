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
