package broker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest/torture"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// The size of TestManyOfEverything.
const (
	manyPartitions = 1000
	manyClients    = 200 // producers, and as many consumers
	manyEach       = manyPartitions / manyClients
	manyRounds     = 20 // sets that a producer sends to each of its partitions
	manySet        = 10 // messages in a set
)

// manyLimit is how large the broker may become with 400 connections, in bytes.
const manyLimit = 256 << 20

// many is what the clients of a broker with many partitions have done.
type many struct {
	addr               string
	produced, consumed [manyClients]atomic.Int64 // messages
	// The least that any other had done when the first was through.
	leastProduced, leastConsumed atomic.Int64
	produceOnce, consumeOnce     sync.Once
}

// TestManyOfEverything: on a broker with 1,000 partitions, 200 producers and 200
// consumers at once lose, double and mix up nothing, each gets on while the others
// do, and the broker stays small.
//
// Each partition has two producers, and each consumer partitions of its own, which
// it waits for with one request.
func TestManyOfEverything(t *testing.T) {
	p := torture.Start(t, torture.Build(t), "broker", "--log-dir", t.TempDir(), "--listen", "127.0.0.1:0",
		"--num-partitions", fmt.Sprint(manyPartitions), "--flush-messages", "0", "--flush-interval", "100ms")
	m := &many{addr: p.Addr()}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // when it hangs
	defer cancel()
	var wg sync.WaitGroup
	run := func(what string, i int, do func(context.Context, *client.Conn, int) error) {
		wg.Go(func() {
			c, err := client.Dial(ctx, m.addr, client.Config{})
			if err == nil {
				err = errors.Join(do(ctx, c, i), c.Close())
			}
			if err != nil {
				t.Errorf("%s %d: %v", what, i, err)
				cancel()
			}
		})
	}
	for i := range manyClients {
		run("producer", i, m.produce)
		run("consumer", i, m.consume)
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if p, c := m.leastProduced.Load(), m.leastConsumed.Load(); p == 0 || c == 0 {
		t.Errorf("when the first was through, some producer had sent %d messages and some consumer got %d", p, c)
	}
	_, most := resident(t, p.Pid())
	t.Logf("resident at most %d bytes; when the first was through the others had sent %d and got %d messages, or more",
		most, m.leastProduced.Load(), m.leastConsumed.Load())
	if most > manyLimit {
		t.Errorf("resident memory was %d bytes, at most %d are right", most, manyLimit)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// least returns the least of the counts but the first's own.
func least(of *[manyClients]atomic.Int64, but int) int64 {
	n := int64(1) << 62
	for i := range of {
		if i != but {
			n = min(n, of[i].Load())
		}
	}
	return n
}

// producersOf returns who writes to a partition.
func producersOf(partition int) [2]int {
	return [2]int{partition / manyEach, (partition/manyEach + manyClients/2) % manyClients}
}

// produce sends numbered sets to the partitions of a producer in turn, one at a
// time.
func (m *many) produce(ctx context.Context, c *client.Conn, self int) error {
	var mine []int
	for partition := range manyPartitions {
		if of := producersOf(partition); of[0] == self || of[1] == self {
			mine = append(mine, partition)
		}
	}
	var set []byte
	payload := make([]byte, 200)
	binary.BigEndian.PutUint32(payload, uint32(self))
	for round := range manyRounds {
		for _, partition := range mine {
			set = set[:0]
			for k := range manySet {
				binary.BigEndian.PutUint32(payload[4:], uint32(partition))
				binary.BigEndian.PutUint32(payload[8:], uint32(round*manySet+k))
				set = message.Append(set, payload)
			}
			if _, err := c.AckedProduce(ctx, "many", int32(partition), set, wire.AcksAppended, time.Minute); err != nil {
				return err
			}
			m.produced[self].Add(manySet)
		}
	}
	m.produceOnce.Do(func() { m.leastProduced.Store(least(&m.produced, self)) })
	return nil
}

// consume reads all that the partitions of a consumer are to hold, and checks it.
func (m *many) consume(ctx context.Context, c *client.Conn, self int) error {
	entries := make([]wire.FetchEntry, manyEach)
	seen := make([][2]int, manyEach) // messages of each of a partition's two producers
	for k := range entries {
		entries[k] = wire.FetchEntry{Topic: "many", Partition: int32(self*manyEach + k), MaxBytes: 64 << 10}
	}
	for left := manyEach * 2 * manyRounds * manySet; left > 0; {
		results, err := c.WaitFetch(ctx, entries, 10*time.Second, 1)
		if err != nil {
			return err
		}
		for k, r := range results {
			if r.Code != wire.CodeNone {
				return fmt.Errorf("partition %d: %w", entries[k].Partition, r.Code)
			}
			it := message.Set(r.Set).Iterate(entries[k].Offset)
			for it.Next() {
				if err := checkMany(it.Message().Payload, int(entries[k].Partition), &seen[k]); err != nil {
					return err
				}
				m.consumed[self].Add(1)
				left--
			}
			if err := it.Err(); err != nil {
				return err
			}
			entries[k].Offset = it.NextOffset()
		}
	}
	m.consumeOnce.Do(func() { m.leastConsumed.Store(least(&m.consumed, self)) })
	return nil
}

// checkMany checks that a message is the next one of its producer.
func checkMany(payload []byte, partition int, seen *[2]int) error {
	producer, of, number := binary.BigEndian.Uint32(payload), binary.BigEndian.Uint32(payload[4:]), binary.BigEndian.Uint32(payload[8:])
	for i, p := range producersOf(partition) {
		if int(producer) != p || int(of) != partition {
			continue
		}
		if int(number) != seen[i] {
			return fmt.Errorf("partition %d: message %d of producer %d, want %d", partition, number, producer, seen[i])
		}
		seen[i]++
		return nil
	}
	return fmt.Errorf("partition %d holds a message of producer %d for partition %d", partition, producer, of)
}
