package storage

import "errors"

// The kinds of error of this package. What is returned wraps one of them and
// names topic, partition and offset, but for [ErrNoRoom]; test with [errors.Is].
var (
	// ErrOffsetOutOfRange: below the first segment, or above the watermark.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrWrongPartition: not one of the partitions that the topic has.
	ErrWrongPartition = errors.New("wrong partition")
	// ErrTopicExists: the topic to be created is there already.
	ErrTopicExists = errors.New("topic exists")
	// ErrNoSuchTopic: neither created nor ever written to, or deleted meanwhile.
	ErrNoSuchTopic = errors.New("no such topic")
	// ErrOutOfService: an I/O error took the partition out of service. What was
	// visible before stays readable, and the manager tries to bring the partition
	// back by itself: see [Log.OutOfService].
	ErrOutOfService = errors.New("partition out of service")
	// ErrNoRoom: as many files are open as should be, see [Log.ReadMore].
	ErrNoRoom = errors.New("too many segments are open")
	// ErrFileLimit: one more partition would leave too little of the process's
	// limit of open files to start again with.
	ErrFileLimit = errors.New("limit of open files")
	// ErrClosed: the manager is closed, or about to be.
	ErrClosed = errors.New("log is closed")
	// ErrLocked: another process works on the log folder.
	ErrLocked = errors.New("log folder is in use by another broker")
	// ErrTopicName: the name of the topic breaks the rule of message.CheckTopic.
	ErrTopicName = errors.New("bad topic name")
)
