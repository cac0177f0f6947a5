package producer_test

import (
	"testing"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/producer"
)

// With acks a partition must be named: brokers of a static list are asked for theirs,
// and asked again for a topic that they have just made.
func TestStaticBrokersAreAskedForPartitions(t *testing.T) {
	brokers := []*kafkatest.Broker{kafkatest.Start(t, partitions(3)), kafkatest.Start(t)}
	c := openCluster(t, producer.ClusterConfig{
		Config:        producer.Config{Acks: producer.AcksFlushed},
		StaticBrokers: []string{brokers[0].HostPort(), brokers[1].HostPort()},
	})
	await(t, "messages in all partitions", func() bool {
		mustPublish(t, c, "t", nil, []byte("x"))
		for p := range int32(3) {
			if len(payloadsOf(t, brokers[0].HostPort(), "t", p)) == 0 {
				return false
			}
		}
		return len(payloadsOf(t, brokers[1].HostPort(), "t", 0)) > 0
	})
	mustEnd(t, c)
}

// A broker that has fewer partitions than it had says so, and is asked at once.
func TestStaticBrokerWithFewerPartitions(t *testing.T) {
	b := kafkatest.Start(t)
	admin, err := client.Dial(testContext(t), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	create := func(n int32) {
		if err := admin.CreateTopic(testContext(t), "t", n); err != nil {
			t.Fatal(err)
		}
	}
	create(20)
	c := openCluster(t, producer.ClusterConfig{Config: producer.Config{Acks: producer.AcksAppended}, StaticBrokers: []string{b.HostPort()}})
	for range 20 {
		mustPublish(t, c, "t", nil, []byte("x"))
	}
	if err := admin.DeleteTopic(testContext(t), "t"); err != nil {
		t.Fatal(err)
	}
	create(1)
	for inARow := 0; inARow < 50; inARow++ {
		if c.Send(testContext(t), "t", nil, []byte("x")) != nil {
			inARow = 0 // of 20 partitions 19 are gone
		}
	}
	mustEnd(t, c)
	balanced(t, c.Stats())
}
