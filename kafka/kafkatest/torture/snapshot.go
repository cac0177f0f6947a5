package torture

import (
	"context"
	"errors"
	"fmt"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Log is all that can be read of one partition.
type Log struct {
	First, End int64 // the watermark
	LogEnd     int64
	Messages   []Found
	// Problems are messages that nobody of the ledger can have sent, or that do
	// not follow each other.
	Problems []string
}

// Snapshot is what a broker has.
type Snapshot struct {
	Logs   map[TopicPartition]Log
	Topics map[string]int32 // partitions of each topic
}

// Read reads all messages of a ledger's topics from a broker, which must have
// nothing else to do. It also reports topics that are not the ledger's.
func (l *Ledger) Read(ctx context.Context, addr string) (Snapshot, error) {
	s := Snapshot{Logs: map[TopicPartition]Log{}, Topics: map[string]int32{}}
	c, err := client.Dial(ctx, addr, client.Config{})
	if err != nil {
		return s, err
	}
	defer c.Close()
	states, err := c.Topics(ctx)
	if err != nil {
		return s, err
	}
	for _, st := range states {
		s.Topics[st.Topic] = max(s.Topics[st.Topic], st.Partition+1)
	}
	for _, p := range l.partitions() {
		if s.Topics[p.Topic] <= p.Partition {
			continue // Check says that it is gone
		}
		if s.Logs[p], err = l.readLog(ctx, c, p); err != nil {
			return s, err
		}
	}
	return s, nil
}

// stateOf returns the state of one partition.
func stateOf(ctx context.Context, c *client.Conn, p TopicPartition) (wire.TopicState, error) {
	states, err := c.Topics(ctx, p.Topic)
	if err != nil {
		return wire.TopicState{}, err
	}
	for _, st := range states {
		if st.Partition == p.Partition {
			return st, nil
		}
	}
	return wire.TopicState{}, fmt.Errorf("%v is not among the broker's partitions", p)
}

// fetchBytes is how much a fetch asks for at first; a message that is larger
// doubles it.
const fetchBytes = 1 << 20

// readLog reads a partition from its first message to its watermark. When
// retention takes the beginning away meanwhile, it begins anew.
func (l *Ledger) readLog(ctx context.Context, c *client.Conn, p TopicPartition) (Log, error) {
	for {
		st, err := stateOf(ctx, c, p)
		if err != nil {
			return Log{}, err
		}
		log := Log{First: st.First, End: st.Watermark, LogEnd: st.LogEnd}
		err = l.walk(ctx, c, p, &log)
		if errors.Is(err, wire.CodeOffsetOutOfRange) {
			if now, stateErr := stateOf(ctx, c, p); stateErr == nil && now.First > st.First {
				continue
			}
		}
		return log, err
	}
}

func (l *Ledger) walk(ctx context.Context, c *client.Conn, p TopicPartition, log *Log) error {
	size := int32(fetchBytes)
	for offset := log.First; offset < log.End; {
		set, err := c.Fetch(ctx, wire.FetchEntry{Topic: p.Topic, Partition: p.Partition, Offset: offset, MaxBytes: size})
		if err != nil {
			return err
		}
		it := set.Iterate(offset)
		for it.Next() {
			f, err := l.parse(it.Message(), it.Offset(), it.NextOffset())
			if err != nil {
				log.Problems = append(log.Problems, fmt.Sprintf("%v at offset %d: %v", p, it.Offset(), err))
			}
			log.Messages = append(log.Messages, f)
		}
		switch {
		case it.Err() != nil:
			log.Problems = append(log.Problems, fmt.Sprintf("%v: damage is handed out: %v", p, it.Err()))
			return nil
		case it.ValidBytes() > 0:
			offset += int64(it.ValidBytes())
		case len(set) == 0:
			log.Problems = append(log.Problems, fmt.Sprintf("%v: nothing is there at offset %d, before the watermark %d", p, offset, log.End))
			return nil
		case size >= message.DefaultMaxDecompressed:
			log.Problems = append(log.Problems, fmt.Sprintf("%v: no whole message in %d bytes at offset %d", p, len(set), offset))
			return nil
		default:
			size *= 2
		}
	}
	return nil
}
