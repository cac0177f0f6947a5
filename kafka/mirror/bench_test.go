package mirror_test

import (
	"fmt"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/mirror"
)

// BenchmarkCopy copies a backlog of four partitions, each set acknowledged as flushed:
// MB/s of log, from the joining of the group on.
func BenchmarkCopy(b *testing.B) {
	const (
		partitions = 4
		messages   = 40_000 // of each
		size       = 191    // 200 bytes of log
	)
	byTime := func(c *broker.Config) { c.Storage.FlushMessages, c.Storage.FlushInterval = 0, time.Second }
	live, replica := newCluster(b, 1, partitions, byTime), newCluster(b, 1, partitions, byTime)
	b.SetBytes(partitions * messages * (size + 9))
	for i := range b.N {
		b.StopTimer()
		topic := fmt.Sprintf("t%d", i)
		live.produce(topic, 0, messages, size)
		if err := dial(b, replica.brokers[0].HostPort()).CreateTopic(testContext(b), topic, partitions); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		m := openMirror(b, replica, []*cluster{live}, func(c *mirror.Config) { c.Group, c.WhiteList = topic, topic })
		await(b, "all messages", func() bool { return m.Stats().Messages == partitions*messages })
		b.StopTimer()
		closeMirror(b, m)
		b.StartTimer()
	}
}
