package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
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
	// MaxDecompressedBytes bounds what one compressed message of a set holds
	// decompressed, what is nested in it included (inclusive); a set with a
	// larger one is not appended.
	MaxDecompressedBytes int
	// MaxRequestBytes bounds the size field of a request (inclusive).
	MaxRequestBytes int
	// MaxRequestMemoryBytes bounds the read buffers of all connections together,
	// but for 16 KiB each and one request that is larger than all there is.
	// Requests beyond it wait for one another, no longer than ReadTimeout. What
	// compressed messages are decompressed into is beside it. 0 is no bound.
	MaxRequestMemoryBytes int64
	// MaxConnections bounds the connections open at once, and
	// MaxConnectionsPerAddress those from one IP address; one more is accepted
	// and closed. 0 is no bound.
	MaxConnections, MaxConnectionsPerAddress int
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
	// ZooKeeper is where the broker registers its id and its topics, for clients
	// that find brokers there. Without Servers it registers nowhere. Its Logger is
	// the broker's unless it has one.
	ZooKeeper coord.Config
	// AdvertisedHost is the host to register, a name or an IPv4 address; the port
	// is the one the broker listens on. Empty stands for the address of Listen,
	// or, if that is all interfaces, for the local address that reaches ZooKeeper.
	AdvertisedHost string

	// Version is what /config says that this program is; empty is not known.
	Version string
	// MetricsListen is the address of the HTTP server for /metrics, /healthz, /config
	// and, for programs on this machine, /debug/pprof/; empty is none. It answers from the begin of [Start] to the end
	// of [Server.Close], so that it tells what either of them waits for.
	MetricsListen string
	// Logger gets what the operator should know; nil discards it.
	Logger *slog.Logger
}

// DefaultMaxMessageBytes is the largest payload of a message (0.7's
// max.message.size).
const DefaultMaxMessageBytes = 1_000_000

// DefaultMaxRequestMemoryBytes is the bound on the read buffers of all
// connections together: 48 MiB.
const DefaultMaxRequestMemoryBytes = 48 << 20

// Ages of Kafka 0.7: a segment is rolled a week after its first append, and
// deleted a week after its last (NetDB'11 §3.1: "typically 7 days").
const (
	DefaultRollInterval = 7 * 24 * time.Hour
	DefaultRetentionAge = 7 * 24 * time.Hour
)

// DefaultConfig returns the settings of a broker that is asked for nothing
// special: the flush rules of Kafka 0.7's sample configuration, its rules for
// rolling and retention, and limits that a healthy client does not meet.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:9092",
		Storage: storage.Config{
			SegmentBytes:      storage.DefaultSegmentBytes,
			FlushMessages:     10_000,
			FlushInterval:     time.Second,
			RollInterval:      DefaultRollInterval,
			RetentionAge:      DefaultRetentionAge,
			CleanupInterval:   10 * time.Minute,
			DefaultPartitions: storage.DefaultPartitions,
		},
		ZooKeeper:             coord.Config{SessionTimeout: coord.DefaultSessionTimeout},
		MaxMessageBytes:       DefaultMaxMessageBytes,
		MaxDecompressedBytes:  message.DefaultMaxDecompressed,
		MaxRequestBytes:       wire.MaxRequestSize,
		MaxRequestMemoryBytes: DefaultMaxRequestMemoryBytes,
		MaxConnections:        10_000,
		ReadTimeout:           30 * time.Second,
		WriteTimeout:          30 * time.Second,
		Sendfile:              true,
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
	case c.MaxDecompressedBytes < 1 || c.MaxDecompressedBytes > math.MaxInt32:
		return fmt.Errorf("at most %d bytes of a message decompressed: must be from 1 to %d", c.MaxDecompressedBytes, math.MaxInt32)
	case c.MaxRequestMemoryBytes != 0 && c.MaxRequestMemoryBytes < largestBuffer:
		return fmt.Errorf("at most %d bytes for the requests of all connections: must be 0 (no bound) or %d and more, which is one full read buffer", c.MaxRequestMemoryBytes, largestBuffer)
	case c.MaxConnections < 0 || c.MaxConnectionsPerAddress < 0:
		return fmt.Errorf("at most %d connections, %d of them from one address: must be 0 (no bound) or more", c.MaxConnections, c.MaxConnectionsPerAddress)
	case !validBuffer(c.SendBufferBytes) || !validBuffer(c.ReceiveBufferBytes):
		return fmt.Errorf("socket buffers of %d and %d bytes: must be from 0 (the kernel's choice) to %d", c.SendBufferBytes, c.ReceiveBufferBytes, math.MaxInt32)
	case c.IdleTimeout < 0 || c.ReadTimeout < 0 || c.WriteTimeout < 0:
		return fmt.Errorf("time limits idle %v, read %v, write %v: must be 0 (never) or more", c.IdleTimeout, c.ReadTimeout, c.WriteTimeout)
	case c.AdvertisedHost != "" && c.ZooKeeper.Servers == "":
		return fmt.Errorf("host %q to register, but no ZooKeeper to register in", c.AdvertisedHost)
	}
	if c.AdvertisedHost != "" {
		if err := registry.CheckHost(c.AdvertisedHost); err != nil {
			return err
		}
	}
	if c.ZooKeeper.Servers != "" {
		if err := c.ZooKeeper.Check(); err != nil {
			return err
		}
	}
	return c.Storage.Check()
}

// validBuffer tells whether a size is one that the kernel takes.
func validBuffer(n int) bool { return n >= 0 && n <= math.MaxInt32 }
