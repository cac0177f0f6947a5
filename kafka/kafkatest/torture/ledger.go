package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Level says what the sender of a message was told about it.
type Level int

// The levels: a produce without an answer, as Kafka 0.7 has it, and those of an
// acknowledged one.
const (
	None Level = iota
	Received
	Appended
	Flushed
	levels
)

// Levels returns all levels.
func Levels() []Level { return []Level{None, Received, Appended, Flushed} }

func (l Level) String() string { return [...]string{"none", "received", "appended", "flushed"}[l] }

// acks returns what an acknowledged produce of a level asks for.
func (l Level) acks() wire.Acks {
	switch l {
	case Appended:
		return wire.AcksAppended
	case Flushed:
		return wire.AcksFlushed
	}
	return wire.AcksReceived
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (p TopicPartition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Found is one message as a reader finds it. Messages of one compressed entry
// have its offset, and all but the last its begin as Next (Kafka 0.7 §2.3).
type Found struct {
	Offset, Next     int64
	Stream, Sequence uint32
}

func (f Found) String() string {
	return fmt.Sprintf("message %d of stream %d at offset %d to %d", f.Sequence, f.Stream, f.Offset, f.Next)
}

// Ledger remembers what was sent, what was promised about it, and what was seen.
// Its methods may be called by several goroutines at the same time, but for
// [Ledger.Check], which wants all loads stopped.
type Ledger struct {
	id uint32 // in every payload

	mu       sync.Mutex
	topics   map[string]*topicFact
	history  map[TopicPartition]*history
	streams  map[uint32]*Stream // since the last check
	last     uint32             // number of the newest stream
	settled  uint32             // streams up to this one have been through a check
	readings []*Reading         // since the last check
	problems []string           // what was noticed while the load ran
	scratch  int                // topics made by loads, for their names
}

// history is what checks have found in a partition, all of it promised.
type history struct {
	first, end int64
	messages   []Found // from first on
}

// topicFact is what is known of a topic that was created or deleted.
type topicFact struct {
	partitions int32 // 0: it is not known whether the topic is there, or how
	gone       bool  // its deletion was answered
	scratch    bool  // made by a load, which may delete it
}

// NewLedger returns an empty ledger. The seed makes its payloads unlike those of
// other ledgers.
func NewLedger(seed uint64) *Ledger {
	return &Ledger{
		id:      rand.New(rand.NewPCG(seed, 7)).Uint32(),
		topics:  map[string]*topicFact{},
		history: map[TopicPartition]*history{},
		streams: map[uint32]*Stream{},
	}
}

// CreateTopic creates a topic at a broker. A load sends to its partitions from
// then on, and checks read them.
func (l *Ledger) CreateTopic(ctx context.Context, addr, topic string, partitions int32) error {
	c, err := client.Dial(ctx, addr, client.Config{})
	if err != nil {
		return err
	}
	if err := errors.Join(c.CreateTopic(ctx, topic, partitions), c.Close()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[topic] = &topicFact{partitions: partitions}
	for p := range partitions {
		l.history[TopicPartition{topic, p}] = &history{}
	}
	return nil
}

// partitions returns the partitions that loads send to, sorted.
func (l *Ledger) partitions() []TopicPartition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.history), func(a, b TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// scratchName returns a name for a topic that a load makes.
func (l *Ledger) scratchName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scratch++
	return fmt.Sprintf("scratch-%08x-%d", l.id, l.scratch)
}

// scratchTopics returns the topics that loads have made, sorted.
func (l *Ledger) scratchTopics() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, f := range l.topics {
		if f.scratch && f.partitions != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setTopic notes what is known of a topic that a load makes or deletes.
func (l *Ledger) setTopic(name string, f topicFact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.scratch = true
	l.topics[name] = &f
}

// Problem notes something that a load or a reader should not have met. The next
// Check reports it.
func (l *Ledger) Problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, fmt.Sprintf(format, args...))
	}
}

// Stream is a series of messages that one connection sends to one partition. Its
// methods are for one goroutine, which must have ended before a Check.
type Stream struct {
	Partition TopicPartition
	Level     Level

	ledger uint32
	number uint32
	next   uint32 // sequence of the next message
	sets   []sentSet
}

// sentSet is a message set that was sent, or may have been.
type sentSet struct {
	first, count uint32 // sequences of its messages
	base, end    int64  // where it is, by its acknowledgement
	fate         fate
}

type fate byte

const (
	unanswered fate = iota
	acked           // acknowledged; with its offsets, from Appended up
	refused         // may or may not be there
)

// OpenStream begins a stream. A connection that breaks ends it: what is sent on
// another one belongs to a new stream.
func (l *Ledger) OpenStream(p TopicPartition, level Level) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	s := &Stream{Partition: p, Level: level, ledger: l.id, number: l.last}
	l.streams[s.number] = s
	return s
}

// AppendSet appends a set of messages with payloads of the given sizes to dst,
// compressed if codec says so, and notes it as sent: it must be sent next, or
// nothing any more. It returns the number that Acked and Refused want.
func (s *Stream) AppendSet(dst []byte, sizes []int, codec message.Codec) (out []byte, set int, err error) {
	var plain, payload []byte
	first := s.next
	for _, n := range sizes {
		payload = appendPayload(payload[:0], s.ledger, s.number, s.next, max(n, payloadHeaderBytes))
		plain = message.Append(plain, payload)
		s.next++
	}
	s.sets = append(s.sets, sentSet{first: first, count: uint32(len(sizes))})
	if codec == message.CodecNone {
		return append(dst, plain...), len(s.sets) - 1, nil
	}
	dst, err = message.Compress(dst, plain, codec)
	return dst, len(s.sets) - 1, err
}

// Acked notes the acknowledgement of a set.
func (s *Stream) Acked(set int, r wire.AckedRange) {
	sent := &s.sets[set]
	sent.fate, sent.base, sent.end = acked, r.Base, r.Next
}

// Refused notes an error as the answer to a set: it may be there or not, and
// sets behind it may be there without it.
func (s *Stream) Refused(set int) { s.sets[set].fate = refused }

// Reading is what one consumer has seen of one partition. Its methods are for
// one goroutine, which must have ended before a Check.
type Reading struct {
	Partition TopicPartition
	seen      []Found
}

// OpenReading begins a reading.
func (l *Ledger) OpenReading(p TopicPartition) *Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Reading{Partition: p}
	l.readings = append(l.readings, r)
	return r
}

// Saw notes a message that was handed out, with ascending offsets.
func (r *Reading) Saw(f Found) { r.seen = append(r.seen, f) }

// parse returns what is in a message at the given offsets.
func (l *Ledger) parse(m message.Message, offset, next int64) (Found, error) {
	stream, sequence, err := parsePayload(m.Payload, l.id)
	return Found{Offset: offset, Next: next, Stream: stream, Sequence: sequence}, err
}
