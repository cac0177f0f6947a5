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
	DefaultFetchBytes    = 200 << 10 // the paper's pull of about 200 KB; what adapts begins with it
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

	// FetchBytes is how much one pull asks for. 0 leaves that to the stream: it begins
	// with DefaultFetchBytes and goes on between MinAdaptedFetchBytes and
	// MaxAdaptedFetchBytes as the rate wants. Two pulls may be on their way beside the
	// one that the application holds; what has come of them lies in the socket.
	FetchBytes int
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

	adaptive bool         // FetchBytes was left to the stream
	memory   *fetchMemory // of the consumer that the stream belongs to, or nil
	// large holds something while one of several streams has a message that is larger
	// than its fetch may be; nil: there is but one stream.
	large   chan struct{}
	adaptBy func(fetchSize, answered) fetchSize
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
		c.adaptive, c.FetchBytes = true, DefaultFetchBytes
		if c.MaxFetchBytes > 0 {
			c.FetchBytes = min(c.FetchBytes, c.MaxFetchBytes)
		}
	}
	if c.adaptBy == nil {
		c.adaptBy = fetchSize.after
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

// OutOfRangeError says that an offset is not, or no longer, one of the log. It is what
// [ResetFail] makes of it; [wire.CodeOffsetOutOfRange] is inside.
type OutOfRangeError struct {
	Offset int64 // that was wanted
	// What the log holds: messages from First on, and none from End on.
	First, End int64
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d: %v: the log holds %d up to %d", e.Offset, wire.CodeOffsetOutOfRange, e.First, e.End)
}

func (e *OutOfRangeError) Unwrap() error { return wire.CodeOffsetOutOfRange }

var (
	// ErrClosed is returned by a stream, or a group with its streams, after Close.
	ErrClosed = errors.New("consumer is closed")
	// ErrTooLarge says that a message is larger than MaxFetchBytes. One that holds
	// more than MaxDecompressedBytes is [message.ErrTooLarge].
	ErrTooLarge = errors.New("raise the limit of the fetch size")
	// ErrTorn says that the log ends in the middle of what should be a message.
	ErrTorn = errors.New("the log is damaged, or the offset is not that of a message")
)
