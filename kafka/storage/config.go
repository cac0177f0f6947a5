package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kafkalab/kafka/internal/clock"
	"kafkalab/kafka/internal/vfs"
)

// Visibility says when an appended message can be read.
type Visibility int

const (
	// VisibleFlushed shows a message once it is flushed: the paper's rule
	// (NetDB'11 §3.1), and the default.
	VisibleFlushed Visibility = iota
	// VisibleAppended shows a message as soon as it is appended. A crash of the
	// machine can then take back what consumers have already seen.
	VisibleAppended
)

func (v Visibility) String() string {
	switch v {
	case VisibleFlushed:
		return "flushed"
	case VisibleAppended:
		return "appended"
	}
	return fmt.Sprintf("unknown(%d)", int(v))
}

const (
	// DefaultSegmentBytes is the size at which a segment is rolled: 1 GiB.
	DefaultSegmentBytes int64 = 1 << 30
	// DefaultPartitions is the number of partitions of a topic that nobody
	// created with a number of its own.
	DefaultPartitions int32 = 1
	// MaxPartitions is the largest number of partitions of a topic (inclusive).
	// With it the longest topic name still makes a legal folder name.
	MaxPartitions = 100_000
)

// Config holds the settings of a [Manager]. The zero value is usable: zero
// fields mean the default named beside them.
type Config struct {
	// SegmentBytes is the size that a segment must exceed before it is rolled.
	// Default: [DefaultSegmentBytes].
	SegmentBytes int64
	// FlushMessages is the number of unflushed messages at which
	// [Appended.FlushDue] asks for a flush. 0: no flush by count.
	FlushMessages int
	// FlushInterval is how often everything unflushed is flushed. 0: no flush
	// by time.
	FlushInterval time.Duration
	// Visible says when an appended message can be read.
	Visible Visibility
	// DefaultPartitions is the number of partitions of topics that nobody
	// created with a number of their own. Default: [DefaultPartitions].
	DefaultPartitions int32
	// FS is the file system. Default: the real one.
	FS vfs.FS
	// Clock tells the time. Default: the real one.
	Clock clock.Clock
	// Logger receives what an operator has to know. Default: nothing is logged.
	Logger *slog.Logger
	// Hooks tell what happens, for metrics.
	Hooks Hooks
}

// Check returns an error that names everything that makes no sense in c, with
// the way out, or nil. [Open] does it too.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults fills zero fields in and checks the others.
func (c Config) withDefaults() (Config, error) {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = DefaultSegmentBytes
	}
	if c.DefaultPartitions == 0 {
		c.DefaultPartitions = DefaultPartitions
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.SegmentBytes > 0, "segment size %d: give at least 1 byte", c.SegmentBytes)
	check(c.FlushMessages >= 0, "flush after %d messages: give 0 (off) or more", c.FlushMessages)
	check(c.FlushInterval >= 0, "flush interval %v: give 0 (off) or more", c.FlushInterval)
	check(c.Visible == VisibleFlushed || c.Visible == VisibleAppended, "visibility %v: give flushed or appended", c.Visible)
	check(c.DefaultPartitions >= 1 && c.DefaultPartitions <= MaxPartitions,
		"%d partitions by default: give 1 to %d", c.DefaultPartitions, MaxPartitions)
	return c, errors.Join(errs...)
}
