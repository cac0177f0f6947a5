package broker_test

import (
	"sync"
	"testing"

	"kafkalab/kafka/consumer"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/producer"
)

// TestResidentAtFullSpeed: a broker process stays under 48 MiB with one producer and
// one consumer that go as fast as they can, and under 256 MiB with 400 connections
// that do.
func TestResidentAtFullSpeed(t *testing.T) {
	bin, volume := torture.Build(t), residentVolume(t)
	start := func() *torture.Process {
		return torture.Start(t, bin, "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--num-partitions", "4",
			"--segment-size", "64MiB", "--retention-size", "256MiB", "--cleanup-interval", "200ms",
			"--flush-messages", "0", "--flush-interval", "1s", "--visible", "appended")
	}
	check := func(p *torture.Process, limit int64) {
		t.Helper()
		_, most := resident(t, p.Pid())
		t.Logf("resident at most %d bytes", most)
		if most > limit {
			t.Errorf("resident memory was %d bytes, at most %d are right", most, limit)
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Run("one producer, one consumer", func(t *testing.T) {
		p := start()
		oneByOne(t, p.Addr(), volume)
		check(p, 48<<20)
	})
	t.Run("400 connections", func(t *testing.T) {
		p := start()
		flow := &flow{address: p.Addr(), volume: volume, seed: random(t).Uint64()}
		flow.start(t, 200, 200)
		<-flow.ended
		check(p, 256<<20)
	})
}

// oneByOne sends so many bytes through a broker, with a consumer that keeps up.
// What retention takes away before that the consumer skips.
func oneByOne(t *testing.T, addr string, volume int64) {
	ctx := t.Context()
	payload := make([]byte, 200)
	var wg sync.WaitGroup
	wg.Go(func() {
		p, err := producer.New(ctx, producer.Config{Brokers: []string{addr}})
		if err != nil {
			t.Error(err)
			return
		}
		for sent := int64(0); sent < volume && err == nil; sent += 209 {
			err = p.Send(ctx, "full", 0, payload)
		}
		if err == nil {
			// The consumer is through when this has come.
			err = p.Send(ctx, "full", 0, []byte("end"))
		}
		if err == nil {
			err = p.Close(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	s, err := consumer.OpenPartition(ctx, consumer.PartitionConfig{Broker: addr, Topic: "full"})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for {
		m, err := s.Next(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if string(m.Payload) == "end" {
			return
		}
	}
}
