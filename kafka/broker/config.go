package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"kafkalab/kafka/storage"
	"kafkalab/kafka/wire"
)

// Config says how a broker runs. Begin with [DefaultConfig].
type Config struct {
	// ID is the broker's number in the cluster, 0 or more.
	ID int32
	// Listen is the TCP address to serve on, "host:port". Port 0 takes any
	// free one; an empty host is all interfaces.
	Listen string
	// LogDir is the folder of the partitions; it is made if it is missing.
	LogDir string
	// Storage is how the partitions are kept.
	Storage storage.Config

	// MaxMessageBytes bounds the payload of a message (inclusive); a set with a
	// larger one is not appended.
	MaxMessageBytes int
	// MaxRequestBytes bounds the size field of a request (inclusive).
	MaxRequestBytes int
	// MaxConnections bounds the connections open at once; one more is
	// accepted and closed. 0 is no bound.
	MaxConnections int
	// SendBufferBytes and ReceiveBufferBytes set the socket buffers; 0 leaves
	// them to the kernel, which adjusts them to the link.
	SendBufferBytes, ReceiveBufferBytes int

	// IdleTimeout ends a connection that has sent nothing for so long between
	// two requests. 0 is never.
	IdleTimeout time.Duration
	// ReadTimeout ends a connection that has sent nothing for so long in the
	// middle of a request. 0 is never.
	ReadTimeout time.Duration
	// WriteTimeout ends a connection that has taken no byte of an answer for
	// so long. 0 is never.
	WriteTimeout time.Duration

	// Sendfile sends fetched bytes from file to socket inside the kernel;
	// false copies them through the process.
	Sendfile bool
	// MetricsListen is the address of the HTTP server for /metrics and
	// /healthz; empty is none.
	MetricsListen string
	// Logger gets what the operator should know; nil discards it.
	Logger *slog.Logger
}

// DefaultMaxMessageBytes is the largest payload of a message (0.7's
// max.message.size).
const DefaultMaxMessageBytes = 1_000_000

// DefaultConfig returns the settings of a broker that is asked for nothing
// special: the flush rules of Kafka 0.7's sample configuration, and limits
// that a healthy client does not meet.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:9092",
		Storage: storage.Config{
			SegmentBytes:      storage.DefaultSegmentBytes,
			FlushMessages:     10_000,
			FlushInterval:     time.Second,
			DefaultPartitions: storage.DefaultPartitions,
		},
		MaxMessageBytes: DefaultMaxMessageBytes,
		MaxRequestBytes: wire.MaxRequestSize,
		MaxConnections:  10_000,
		ReadTimeout:     30 * time.Second,
		WriteTimeout:    30 * time.Second,
		Sendfile:        true,
	}
}

// Check returns an error that names a setting that makes no sense, or nil.
// [Start] does it too.
func (c *Config) Check() error {
	switch {
	case c.ID < 0:
		return fmt.Errorf("broker id %d: must be 0 or more", c.ID)
	case c.LogDir == "":
		return errors.New("no log folder given")
	case c.MaxRequestBytes < wire.TypeSize || c.MaxRequestBytes > math.MaxInt32:
		return fmt.Errorf("largest request of %d bytes: must be from %d to %d", c.MaxRequestBytes, wire.TypeSize, math.MaxInt32)
	case c.MaxMessageBytes < 1 || c.MaxMessageBytes > c.MaxRequestBytes:
		return fmt.Errorf("largest message of %d bytes: must be from 1 to the largest request, %d", c.MaxMessageBytes, c.MaxRequestBytes)
	case c.MaxConnections < 0:
		return fmt.Errorf("at most %d connections: must be 0 (no bound) or more", c.MaxConnections)
	case !validBuffer(c.SendBufferBytes) || !validBuffer(c.ReceiveBufferBytes):
		return fmt.Errorf("socket buffers of %d and %d bytes: must be from 0 (the kernel's choice) to %d", c.SendBufferBytes, c.ReceiveBufferBytes, math.MaxInt32)
	case c.IdleTimeout < 0 || c.ReadTimeout < 0 || c.WriteTimeout < 0:
		return fmt.Errorf("time limits idle %v, read %v, write %v: must be 0 (never) or more", c.IdleTimeout, c.ReadTimeout, c.WriteTimeout)
	}
	return c.Storage.Check()
}

// validBuffer tells whether a size is one that the kernel takes.
func validBuffer(n int) bool { return n >= 0 && n <= math.MaxInt32 }
