package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// LeastInterval is the least that FlushInterval and CleanupInterval may be,
	// but for a FlushInterval of 0: a shorter timer does nothing but fire.
	LeastInterval = time.Millisecond
	// DefaultCleanupInterval is how often retention is looked at.
	DefaultCleanupInterval = 10 * time.Minute
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
	// RollInterval is how long after a segment's first append the next append
	// rolls it, whatever its size. 0: not by age.
	RollInterval time.Duration
	// RetentionAge is how long after its last append a segment is deleted. 0:
	// not by age.
	RetentionAge time.Duration
	// RetentionBytes is what a log keeps at least: the oldest segments are
	// deleted as long as what is left of the log has no fewer bytes. 0: not by
	// size.
	RetentionBytes int64
	// CleanupInterval is how often the logs are looked through for segments to
	// delete; the first time is one interval after the start. Default:
	// [DefaultCleanupInterval].
	CleanupInterval time.Duration
	// Topics holds what is different for some topics, by their names.
	Topics map[string]TopicConfig
	// OpenSegments bounds the files of segments behind the last one that are
	// kept open between two reads, of all logs together. The others are opened
	// when they are read. Default: 512, or an eighth of the process's limit of
	// open files where that is less.
	OpenSegments int
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

	files      *openFiles // of the manager; set by Open
	noRestorer bool       // tests restore logs themselves
}

// TopicConfig holds the settings of one topic that are different from those of
// [Config]. Of the pointers nil means that it is not, and one to 0 is the rule
// switched off.
type TopicConfig struct {
	// Partitions is the number of partitions that the topic has as long as
	// nobody creates it with a number of its own. 0: as in Config.
	Partitions int32
	// SegmentBytes: 0 is as in Config.
	SegmentBytes   int64
	RollInterval   *time.Duration
	RetentionAge   *time.Duration
	RetentionBytes *int64
	FlushMessages  *int
	FlushInterval  *time.Duration
}

// forTopic returns the settings for the logs of a topic: c itself when there is
// nothing different about it.
func (c *Config) forTopic(topic string) *Config {
	t, ok := c.Topics[topic]
	if !ok {
		return c
	}
	own := *c
	if t.SegmentBytes != 0 {
		own.SegmentBytes = t.SegmentBytes
	}
	override(&own.RollInterval, t.RollInterval)
	override(&own.RetentionAge, t.RetentionAge)
	override(&own.RetentionBytes, t.RetentionBytes)
	override(&own.FlushMessages, t.FlushMessages)
	override(&own.FlushInterval, t.FlushInterval)
	return &own
}

func override[T any](setting, by *T) {
	if by != nil {
		*setting = *by
	}
}

// partitions returns the number of partitions of a topic that nobody created. It
// allocates nothing.
func (c *Config) partitions(topic []byte) int32 {
	if t, ok := c.Topics[string(topic)]; ok && t.Partitions != 0 {
		return t.Partitions
	}
	return c.DefaultPartitions
}

// retains reports whether any log has a retention rule.
func (c *Config) retains() bool {
	if c.RetentionAge > 0 || c.RetentionBytes > 0 {
		return true
	}
	for topic := range c.Topics {
		if own := c.forTopic(topic); own.RetentionAge > 0 || own.RetentionBytes > 0 {
			return true
		}
	}
	return false
}

// flushIntervals returns the different intervals at which logs are flushed by
// time.
func (c *Config) flushIntervals() []time.Duration {
	intervals := []time.Duration{c.FlushInterval}
	for _, t := range c.Topics {
		if t.FlushInterval != nil {
			intervals = append(intervals, *t.FlushInterval)
		}
	}
	slices.Sort(intervals)
	return slices.DeleteFunc(slices.Compact(intervals), func(d time.Duration) bool { return d == 0 })
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
	if c.CleanupInterval == 0 {
		c.CleanupInterval = DefaultCleanupInterval
	}
	if c.OpenSegments == 0 {
		c.OpenSegments = defaultOpenSegments()
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
	check(c.Visible == VisibleFlushed || c.Visible == VisibleAppended, "visibility %v: give flushed or appended", c.Visible)
	check(c.DefaultPartitions >= 1 && c.DefaultPartitions <= MaxPartitions,
		"%d partitions by default: give 1 to %d", c.DefaultPartitions, MaxPartitions)
	check(c.CleanupInterval >= LeastInterval, "cleanup interval %v: give %v or more", c.CleanupInterval, LeastInterval)
	check(c.OpenSegments > 0, "%d open segments: give 1 or more", c.OpenSegments)
	errs = append(errs, c.checkRules()...)
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		t := c.Topics[topic]
		of := func(err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("topic %q: %w", topic, err))
			}
		}
		of(checkTopic(topic))
		if t.Partitions < 0 || t.Partitions > MaxPartitions {
			of(fmt.Errorf("%d partitions: give 1 to %d, or 0 for the number of the other topics", t.Partitions, MaxPartitions))
		}
		// What it has of its own alone, as c's rules are checked.
		own := (&Config{SegmentBytes: 1, Topics: c.Topics}).forTopic(topic)
		for _, err := range own.checkRules() {
			of(err)
		}
	}
	return c, errors.Join(errs...)
}

// checkRules checks what a topic can have of its own.
func (c *Config) checkRules() (errs []error) {
	check := func(ok bool, format string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, value))
		}
	}
	check(c.SegmentBytes > 0, "segment size %d: give at least 1 byte", c.SegmentBytes)
	check(c.FlushMessages >= 0, "flush after %d messages: give 0 (off) or more", c.FlushMessages)
	check(c.FlushInterval == 0 || c.FlushInterval >= LeastInterval, "flush interval %v: give 0 (off), or "+LeastInterval.String()+" or more", c.FlushInterval)
	check(c.RollInterval >= 0, "roll interval %v: give 0 (off) or more", c.RollInterval)
	check(c.RetentionAge >= 0, "retention by age %v: give 0 (off) or more", c.RetentionAge)
	check(c.RetentionBytes >= 0, "retention by size %d: give 0 (off) or more bytes", c.RetentionBytes)
	return errs
}
