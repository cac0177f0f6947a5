// Package consumer reads messages from brokers (NetDB'11 §3.1): one partition
// without ZooKeeper, as a [Stream], or, as one of a consumer group that meets in
// ZooKeeper, what is its share of topics, as the [GroupStream]s of a [Group]
// (§3.2).
//
// # How messages come
//
// The application takes one message at a time; each pull from the broker
// fetches many, typically hundreds of kilobytes, and is asked for ahead of use.
// A stream reads its log as a sequence of bytes: it asks for the next range
// while the last one is still on its way, so the link is never idle, and the
// part of a message that a range ends with is kept and completed by the next.
// Ranges that were asked for in advance stop joining when a range comes short,
// at the end of a segment or of the log: what does not begin at the byte that
// is wanted is thrown away, and the stream goes on from the true offset.
//
// At the end of the log a stream lets the broker hold its request back until
// there is something (WaitFetch). A broker that does not know that request, as
// those of Kafka 0.7, is asked twice a second instead.
//
// # Offsets
//
// An offset is the position of a message's first byte in its partition's log.
// Offsets grow and are not consecutive: the next one is greater by the size of
// the message. Having consumed a message means having received all before it,
// so one offset says how far a consumer has come, and [Stream.SeekTo] goes back
// to any. A stream advances its consumed offset when the application asks for
// the next message, and so never past one that it may still be handling.
//
// # Compressed messages
//
// A producer can compress many messages into one, and a stream hands out those
// inside. They have no offsets of their own: each has the offset of the compressed
// message, which is also the next offset of all of them but the last. The
// consumed offset so stays at its beginning until the last message inside has been
// consumed; who starts there after a crash gets the messages inside from the first
// again (at least once; Kafka 0.7 KAFKA-546). To get each once, an application
// keeps with the offset how many messages with that offset it has handled.
//
// [PartitionConfig.Shallow] gives compressed messages as they are, for a mirror
// that only passes them on.
//
// # Groups
//
// Of each partition that a member of a group owns a goroutine pulls one chunk after
// another through a Stream, and hands it over as it lies in memory; it pulls the
// next one when the application is done with this one. A GroupStream hands out the
// messages of one chunk, then those of the next that is ready, of whichever
// partition. Each is handed out under the stream's lock, after asking whether the
// member still owns the partition: so giving a partition up takes that lock once,
// and from then on nothing more of it reaches the application.
package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"kafkalab/kafka/client"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// Special values of [PartitionConfig.Start].
const (
	Earliest = wire.TimeEarliest // the smallest offset that can be fetched
	Latest   = wire.TimeLatest   // behind the last visible message
)

// Reset says where to go on when an offset can no longer, or not yet, be
// fetched.
type Reset int

// The policies of resetting (0.7's autooffset.reset).
const (
	ResetSmallest Reset = iota // at the smallest offset there is
	ResetLargest               // behind the last visible message
	ResetFail                  // nowhere: the stream returns an error
)

var resetNames = [...]string{"smallest", "largest", "fail"}

func (r Reset) String() string {
	if r < 0 || int(r) >= len(resetNames) {
		return fmt.Sprintf("reset(%d)", int(r))
	}
	return resetNames[r]
}

// ParseReset reads the name of a policy, as [Reset.String] writes it.
func ParseReset(name string) (Reset, error) {
	for r, n := range resetNames {
		if n == name {
			return Reset(r), nil
		}
	}
	return 0, fmt.Errorf("offset reset %q: give smallest, largest or fail", name)
}

// Defaults of [PartitionConfig].
const (
	DefaultFetchBytes    = 200 << 10 // the paper's pull of about 200 KB
	DefaultMaxFetchBytes = 8 << 20
	DefaultMaxWait       = 5 * time.Second

	DefaultMaxDecompressedBytes = message.DefaultMaxDecompressed
)

// quietInterval is the least time between two requests that find nothing to
// read: no more than two a second.
const quietInterval = 500 * time.Millisecond

// PartitionConfig describes a stream of one partition. Zero fields take the
// defaults; the zero Start is offset 0.
type PartitionConfig struct {
	Broker    string // host and port of the partition's broker
	Topic     string
	Partition int32

	Start int64 // the offset of a message, [Earliest] or [Latest]
	Reset Reset // when an offset is out of range

	FetchBytes int // of one pull
	// MaxFetchBytes is how large a message may be as it is stored, its 9 or 10
	// bytes of header included: pulls grow up to it when a message does not fit.
	MaxFetchBytes int
	// MaxDecompressedBytes is how much a compressed message may hold, over all its
	// levels (inclusive).
	MaxDecompressedBytes int
	// Shallow hands compressed messages out as they are stored instead of those
	// inside. Their payload is not to be interpreted.
	Shallow bool
	// MaxWait is how long the broker holds a request back at the end of the
	// log. Less than 500 ms is taken as that. It delays no message.
	MaxWait time.Duration

	DialTimeout    time.Duration // 0: the client package's
	RequestTimeout time.Duration // 0: the client package's
	Logger         *slog.Logger  // connections and resets, never messages; nil: nothing is logged
	Hooks          Hooks
}

// Hooks tell an application what happens to its stream beside the messages, for
// it to show to a user. Each may be nil; they are called within the calls on the
// stream, by its goroutine, which waits for them.
type Hooks struct {
	// Disconnected is called when the connection was lost, and after each further
	// attempt to make it again that failed: the stream goes on trying.
	Disconnected func(err error)
	// Connected is called when a connection that was lost is there again.
	Connected func()
	// Reset is called when the policy of resetting has moved the stream.
	Reset func(from, to int64)
}

func (c PartitionConfig) withDefaults() (PartitionConfig, error) {
	if c.FetchBytes == 0 {
		c.FetchBytes = DefaultFetchBytes
	}
	if c.MaxFetchBytes == 0 {
		c.MaxFetchBytes = max(DefaultMaxFetchBytes, c.FetchBytes)
	}
	if c.MaxDecompressedBytes == 0 {
		c.MaxDecompressedBytes = DefaultMaxDecompressedBytes
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	c.MaxWait = max(c.MaxWait, quietInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("topic", c.Topic, "partition", c.Partition)
	if err := message.CheckTopic(c.Topic); err != nil {
		return c, fmt.Errorf("consumer: %w", err)
	}
	switch {
	case c.Broker == "":
		return c, errors.New("consumer: no broker is given: name its host:port")
	case c.Partition < 0:
		return c, fmt.Errorf("consumer: partition %d of %s: give one from 0 on", c.Partition, c.Topic)
	case c.Start < Earliest:
		return c, fmt.Errorf("consumer: start offset %d of %s: give one from 0 on, Earliest or Latest", c.Start, c.Topic)
	case c.Reset < ResetSmallest || c.Reset > ResetFail:
		return c, fmt.Errorf("consumer: %v: give one of smallest, largest, fail", c.Reset)
	case c.FetchBytes < 1 || c.MaxFetchBytes < c.FetchBytes || c.MaxFetchBytes > wire.MaxRequestSize:
		return c, fmt.Errorf("consumer: fetch of %d bytes, at most %d: give 1 up to %d, the most not below the first", c.FetchBytes, c.MaxFetchBytes, wire.MaxRequestSize)
	case c.MaxDecompressedBytes < 1 || c.MaxDecompressedBytes > math.MaxInt32:
		return c, fmt.Errorf("consumer: at most %d bytes of a message decompressed: give 1 up to %d", c.MaxDecompressedBytes, math.MaxInt32)
	}
	return c, nil
}

func (c PartitionConfig) client() client.Config {
	return client.Config{
		DialTimeout:      c.DialTimeout,
		RequestTimeout:   c.RequestTimeout,
		MaxResponseBytes: c.MaxFetchBytes + wire.ResponseHeaderSize,
	}
}

// Message is a message as the application gets it.
type Message struct {
	Partition  int32
	Offset     int64  // of a message that was compressed with others: that of them all
	NextOffset int64  // where to go on after it
	Payload    []byte // valid until the next call on the stream
	// Codec is how the payload is compressed: not at all, unless the stream is
	// shallow.
	Codec message.Codec
}

var (
	// ErrClosed is returned by a stream after Close.
	ErrClosed = errors.New("stream is closed")
	// ErrTooLarge says that a message is larger than MaxFetchBytes. One that holds
	// more than MaxDecompressedBytes is [message.ErrTooLarge].
	ErrTooLarge = errors.New("raise the limit of the fetch size")
	// ErrTorn says that the log ends in the middle of what should be a message.
	ErrTorn = errors.New("the log is damaged, or the offset is not that of a message")
)
