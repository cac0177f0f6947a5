package zkserver

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"kafkalab/kafka/internal/vfs"
)

// Defaults of [Config].
const (
	DefaultTickTime = 2 * time.Second
	// DefaultMaxConnections is more than a small cluster with its consumers has,
	// and fewer than the files that a process may usually have open.
	DefaultMaxConnections = 900
	// DefaultMaxRequestBytes is that of ZooKeeper's jute.maxbuffer, a byte short
	// of 1 MiB.
	DefaultMaxRequestBytes = 1<<20 - 1
)

// Session time-outs that are asked for are brought into these bounds, in ticks,
// unless the configuration has its own.
const (
	minTimeoutTicks = 2
	maxTimeoutTicks = 20
)

// When the transaction log is ended and a snapshot taken.
const (
	snapshotTxns     = 100_000
	snapshotLogBytes = 64 << 20
)

// Config says how a server runs. The zero value is one on a free port of all
// interfaces that keeps nothing.
type Config struct {
	// Listen is the TCP address to serve on, "host:port". Port 0 takes any free
	// one; an empty host is all interfaces.
	Listen string
	// DataDir is the folder of the snapshots and the transaction log; it is made
	// if it is missing. Empty: all is lost when the server ends.
	DataDir string
	// TickTime is the unit of session time-outs, at least 1 ms; 0 is
	// [DefaultTickTime]. A session ends at the first tick after its time-out, so
	// up to one tick late.
	TickTime time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound the time-out of a session,
	// both inclusive and in whole milliseconds; 0 is 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// MaxConnections bounds the connections open at once; one more is accepted
	// and closed. 0 is [DefaultMaxConnections], less than 0 is no bound.
	MaxConnections int
	// MaxRequestBytes bounds the size field of a request (inclusive); a
	// connection that sends a larger one is closed. 0 is
	// [DefaultMaxRequestBytes].
	MaxRequestBytes int
	// Logger gets what the operator should know; nil discards it.
	Logger *slog.Logger

	// For the tests of this package.
	fs               vfs.FS // where DataDir is; nil is the real one
	snapshotTxns     int64
	snapshotLogBytes int64
}

// withDefaults returns c with every field set, or says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.TickTime == 0 {
		c.TickTime = DefaultTickTime
	}
	if c.TickTime < time.Millisecond || c.TickTime > time.Hour {
		return c, fmt.Errorf("tick time %v: from 1ms to 1h is possible", c.TickTime)
	}
	if c.MinSessionTimeout == 0 {
		c.MinSessionTimeout = minTimeoutTicks * c.TickTime
	}
	if c.MaxSessionTimeout == 0 {
		c.MaxSessionTimeout = max(maxTimeoutTicks*c.TickTime, c.MinSessionTimeout)
	}
	switch low, high := c.MinSessionTimeout, c.MaxSessionTimeout; {
	case low < time.Millisecond || high.Milliseconds() > math.MaxInt32:
		return c, fmt.Errorf("session time-outs from %v to %v: from 1ms to %v is possible", low, high, math.MaxInt32*time.Millisecond)
	case low > high:
		return c, fmt.Errorf("session time-outs from %v to %v: the first is larger", low, high)
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultMaxConnections
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if c.MaxRequestBytes < minRequestBytes || c.MaxRequestBytes > maxRequestBytes {
		return c, fmt.Errorf("%d bytes for a request: from %d to %d is possible", c.MaxRequestBytes, minRequestBytes, maxRequestBytes)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.fs == nil {
		c.fs = vfs.OS()
	}
	if c.snapshotTxns == 0 {
		c.snapshotTxns = snapshotTxns
	}
	if c.snapshotLogBytes == 0 {
		c.snapshotLogBytes = snapshotLogBytes
	}
	return c, nil
}

// Bounds of Config.MaxRequestBytes: a handshake must fit in, and a record of the
// log, with what a transaction adds to its request, must be no larger than
// [maxRecordBytes].
const (
	minRequestBytes = 1 << 10
	maxRequestBytes = 64 << 20
)

// Check reports what is wrong with the configuration.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// Errors of the package.
var (
	// ErrClosed is returned by the methods of a server that has ended.
	ErrClosed = errors.New("the ZooKeeper server has ended")
	// ErrNoSession is returned for a session that there is not.
	ErrNoSession = errors.New("no such session")
	// ErrNotConnected is returned by [Server.Drop] for a session without a
	// connection.
	ErrNotConnected = errors.New("the session has no connection")
)
