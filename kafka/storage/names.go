package storage

import (
	"fmt"
	"strconv"
	"strings"

	"kafkalab/kafka/message"
)

// Names in the log folder. None of them can be a partition's: those end in '-'
// and a number.
const (
	lockName         = ".lock"
	cleanName        = ".kafka_cleanshutdown"
	topicsName       = "topics"
	temporarySuffix  = ".tmp"
	deletedSuffix    = ".deleted"   // .N.deleted: a partition that DeleteTopic was about to remove
	unsyncedSuffix   = ".unsynced"  // <segment>.unsynced: a sync of it, or of its folder entry, has failed
	lostAndFoundName = "lost+found" // what mkfs puts into the root of a file system
)

// partitionName returns the folder name of a partition.
func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// parsePartitionName takes a folder name apart at the last '-', as topics may
// hold some themselves. It accepts only what partitionName writes, so that no
// two folders ever stand for one partition.
func parsePartitionName(name string) (topic string, partition int32, err error) {
	fail := func(why string) (string, int32, error) {
		return "", 0, fmt.Errorf("folder %q is not named <topic>-<partition>: %s: move it out of the log folder", name, why)
	}
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return fail("there is no '-'")
	}
	topic = name[:i]
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || partitionName(topic, int32(n)) != name {
		return fail(fmt.Sprintf("%q is not a partition number", name[i+1:]))
	}
	if n < 0 || n >= MaxPartitions {
		return fail(fmt.Sprintf("partition %d is not within 0 to %d", n, MaxPartitions-1))
	}
	if err := message.CheckTopic(topic); err != nil {
		return fail(err.Error())
	}
	return topic, int32(n), nil
}

// isDeleted reports whether a folder is what a DeleteTopic left that did not
// come to its end.
func isDeleted(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, deletedSuffix)
}
