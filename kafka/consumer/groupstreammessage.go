package consumer

import (
	"fmt"

	"kafkalab/kafka/message"
)

// GroupMessage is a message as a stream of a group gives it.
type GroupMessage struct {
	Topic      string
	Broker     int32  // id of the broker that has the partition
	Partition  int32  // its number at that broker
	Offset     int64  // of a message that was compressed with others: that of them all
	NextOffset int64  // where to go on after it
	Payload    []byte // valid until the next call on the stream
	// Codec is how the payload is compressed: not at all, unless the group is
	// shallow.
	Codec message.Codec
}

// Chunk holds messages of one partition, which its Next walks:
//
//	for c.Next() {
//		use(c.Message(), c.Offset(), c.NextOffset())
//	}
//	if err := c.Err(); err != nil { … }
//
// There is at least one, unless all in it are compressed ones that hold none. It is
// for one goroutine, and all of it is valid until the next call on the stream that
// gave it.
type Chunk struct {
	Topic     string
	Broker    int32 // id of the broker that has the partition
	Partition int32 // its number at that broker

	it     message.Iterator
	drawn  bool // it already stands at the first message
	walked *walked
}

// walked counts what the application has got of a chunk.
type walked struct{ messages, bytes int64 }

// Next moves to the next message and reports whether there is one. Only after
// damage is [Chunk.Err] set then.
func (c *Chunk) Next() bool {
	if c.drawn {
		c.drawn = false
	} else if !c.it.Next() {
		return false
	}
	c.walked.messages++
	c.walked.bytes += int64(len(c.it.Message().Payload))
	return true
}

// Set returns the entries that Next has not moved to yet as they lie in the log, back
// to back, and the offset of the first: for a group that is shallow, and passes them
// on as they are. They are complete, but for what comes behind damage, and nothing of
// them has been checked: that is what Next does, and NextOffset is then where the
// sound ones end.
func (c *Chunk) Set() (set message.Set, offset int64) {
	if c.drawn {
		return c.it.Entries(), c.it.Offset()
	}
	return c.it.Rest(), c.it.NextOffset()
}

// Message returns the current message.
func (c *Chunk) Message() message.Message { return c.it.Message() }

// Offset returns the offset of the current message, as [GroupMessage] has it.
func (c *Chunk) Offset() int64 { return c.it.Offset() }

// NextOffset returns where to go on after the current message.
func (c *Chunk) NextOffset() int64 { return c.it.NextOffset() }

// Err returns the damage that ended the chunk, or nil. The stream returns it too,
// as the error of the partition.
func (c *Chunk) Err() error { return c.it.Err() }

// PartitionError says what is wrong with one of the partitions of a stream. See
// [GroupStream] for what comes after it.
type PartitionError struct {
	Topic     string
	Broker    int32 // id of the broker that has the partition
	Partition int32 // its number at that broker
	Offset    int64 // where the partition stands: all before it is consumed; -1: not known yet
	// Temporary says that the stream goes on trying by itself.
	Temporary bool
	Err       error
}

func (e *PartitionError) Error() string { return fmt.Sprintf("broker %d: %v", e.Broker, e.Err) }

func (e *PartitionError) Unwrap() error { return e.Err }
