package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// TestEndThatDoesNotCome: what was appended when consuming began is not flushed
// yet, and then the topic is deleted, or made anew and shorter. That is an
// error; it is not waited for.
func TestEndThatDoesNotCome(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			b := kafkatest.Start(t, func(c *broker.Config) { c.Storage.FlushMessages = 0 })
			conn, err := client.Dial(ctx, b.HostPort(), client.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.AckedProduce(ctx, "t", 0, message.Append(nil, []byte("unflushed")), wire.AcksAppended, time.Minute); err != nil {
				t.Fatal(err)
			}
			s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: b.HostPort(), Topic: "t"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			asked := make(chan struct{}, 1)
			p := printer{out: bufio.NewWriter(io.Discard), endCheck: 10 * time.Millisecond}
			p.logEnd = func() (int64, error) {
				select {
				case asked <- struct{}{}:
				default:
				}
				return logEnd(ctx, b.HostPort(), "t", 0)
			}
			if p.end, err = p.logEnd(); err != nil {
				t.Fatal(err)
			}
			<-asked
			ended := make(chan error, 1)
			go func() { ended <- p.print(ctx, s) }()
			for range 2 { // it goes on waiting while the topic is there
				select {
				case <-asked:
				case err := <-ended:
					t.Fatalf("it ended before the topic did: %v", err)
				}
			}
			if err := conn.DeleteTopic(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := conn.CreateTopic(ctx, "t", 1); err != nil {
					t.Fatal(err)
				}
			}
			err = <-ended
			// What it sees of a deletion under way is the one or the other.
			if err == nil || !strings.Contains(err.Error(), "its topic was deleted") && !errors.Is(err, wire.CodeNoSuchTopic) {
				t.Errorf("error %v", err)
			}
		})
	}
}
