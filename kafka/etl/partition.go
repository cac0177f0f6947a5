package etl

import (
	"cmp"
	"fmt"
	"math"

	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
)

// Partition names a partition of a topic. Equal numbers at two brokers are two
// partitions.
type Partition struct {
	Topic  string `json:"topic"`
	Broker int32  `json:"broker"`
	Number int32  `json:"partition"`
}

func (p Partition) String() string {
	return p.Topic + " " + registry.Partition{Broker: p.Broker, Partition: p.Number}.String()
}

// Compare orders partitions by topic, broker and number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Broker, q.Broker), cmp.Compare(p.Number, q.Number))
}

func (p Partition) check() error {
	if err := CheckTopic(p.Topic); err != nil {
		return err
	}
	if p.Broker < 0 || p.Number < 0 {
		return fmt.Errorf("broker %d, partition %d of topic %s: give them from 0 on", p.Broker, p.Number, p.Topic)
	}
	return nil
}

// CheckTopic reports why a topic cannot be loaded, or nil: the rule for its name is
// that of brokers, but for the one folder that the output needs for itself.
func CheckTopic(topic string) error {
	if topic == bookkeeping {
		return fmt.Errorf("topic %s cannot be loaded: the output folder keeps its plans and runs under that name", topic)
	}
	return message.CheckTopic(topic)
}

// Gap is a part of a partition's log that was gone before it was loaded: deleted by
// retention.
type Gap struct {
	Partition
	Start int64 `json:"start"` // the offset that was wanted
	End   int64 `json:"end"`   // exclusive: the first offset that could be read, or the end of the split
}

func (g Gap) String() string {
	return fmt.Sprintf("%v: offsets %d to %d (%d bytes) are gone from the log", g.Partition, g.Start, g.End, g.End-g.Start)
}

// Offset says up to where a partition is loaded.
type Offset struct {
	Partition
	Next int64 `json:"next"` // of the next message to be loaded
}

// By says which time of a message is its date.
type By string

// The two dates of a message.
const (
	ByEnvelope By = "envelope" // that of its making, as its audit header tells it
	ByArrival  By = "arrival"  // that of the plan which was the first to see it
)

func (b By) check() error {
	if b != ByEnvelope && b != ByArrival {
		return fmt.Errorf("by %q: give %s or %s", b, ByEnvelope, ByArrival)
	}
	return nil
}

// Counts of messages of a split or a run.
type Counts struct {
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"` // of payloads

	// Those that are filed under the day of their arrival for want of a date.
	NoEnvelope  int64 `json:"no_envelope"`  // there is none
	BadEnvelope int64 `json:"bad_envelope"` // it, or the audit header inside the schema, cannot be read
	TooLate     int64 `json:"too_late"`     // made longer before the arrival than is allowed
	TooEarly    int64 `json:"too_early"`    // made after it, by more than clocks may be off

	// With a schema registry, those kept raw: no schema id, one that the registry
	// does not know, or bytes that do not fit the schema.
	NoSchema int64 `json:"no_schema"`
}

func (c *Counts) add(d Counts) {
	c.Messages += d.Messages
	c.Bytes += d.Bytes
	c.NoEnvelope += d.NoEnvelope
	c.BadEnvelope += d.BadEnvelope
	c.TooLate += d.TooLate
	c.TooEarly += d.TooEarly
	c.NoSchema += d.NoSchema
}

func (c Counts) check() error {
	for _, n := range []int64{c.Messages, c.Bytes, c.NoEnvelope, c.BadEnvelope, c.TooLate, c.TooEarly, c.NoSchema} {
		if n < 0 || n > math.MaxInt64/2 {
			return fmt.Errorf("a count of %d is impossible", n)
		}
	}
	return nil
}
