// Package storage is the partition log of NetDB'11 §3.1 in the file format of
// Kafka 0.7: the logs of all partitions of a broker, in one log folder.
//
//	LOGDIR/.lock                   locked while a broker uses the folder
//	LOGDIR/.kafka_cleanshutdown    there after a clean stop, and only then: how each log ended
//	LOGDIR/topics                  partition counts of created topics
//	LOGDIR/<topic>-<partition>/    one log; split at the last '-'
//	    00000000000000000000.kafka     a segment: a message set, nothing else
//	    00000000001073741930.kafka     the next one, named by its base offset
//	    ….kafka.cut-OFFSET             what recovery cut off at OFFSET
//
// An offset is the byte position of a message in its log, and the position in a
// file is the offset less the segment's base. So there is no index: the list of
// base offsets, in memory, finds the segment, and that is all.
//
// # The life of a message
//
// [Log.Append] writes a group of message sets to the end of the last segment,
// the only one that is ever written to, with one write. It is visible to readers
// only after a flush ([VisibleFlushed]), which comes by count ([Log.WaitFlushed]
// when [Appended.FlushDue] says so), by time, when somebody waits for it, or
// when the segment is rolled. The end of what is visible is the watermark.
// [Log.Read] answers with a piece of a segment file for sendfile; it takes no
// lock, allocates nothing and holds no bytes: the only cache is the file
// system's.
//
// Those who wait for a flush share it: a sync begins when the one before is
// over, and covers everything appended by then. The flushed end becomes the log
// end that was read before the sync began. Appends and reads go on meanwhile;
// only rolling a segment syncs under the lock of the appends.
//
// # What a crash leaves, and what the next start does
//
// The last segment of each log is walked after an unclean stop, and after a
// clean one when it is not as that left it. Closed segments are not: they were
// synced before the next one was made.
//
//	crash                                 on disk                         next start
//	before the write                      the log as it was               nothing to do
//	in the write (torn)                   part of the group               keeps the whole messages, cuts the rest
//	after the write, before the flush     all, part, holes, or zeros      keeps up to the first bad message, cuts the rest
//	after the flush                       everything flushed              keeps it
//	rolling, before the new file          a full last segment             goes on there; rolls at the next append
//	rolling, after the new file           an empty last segment           uses it
//	making a partition, before its file   an empty folder                 makes the first segment
//	in the recovery itself                the copy, or both               cuts again, perhaps with a second copy
//	writing the topics file               the old one and a .tmp file     uses the old one
//	deleting a topic                      folders .N.deleted              removes them; the deletion can be repeated
//
// Bad is a length field below the smallest (so zeros are), an unknown magic or
// codec, a checksum that does not match, or a message that goes beyond the end
// of the file. What is cut is first copied to a file beside the segment, and
// the log says so. Only after a sync does the recovered end become the
// watermark.
//
// # I/O errors
//
// A write that fails is undone by cutting the file, and the log stays in
// service: a disk that was full may have room again. When that cut fails, or a
// sync does, the log is out of service ([ErrOutOfService]): after a failed sync
// the kernel takes data for written that is not, so a later sync proves nothing
// and is not tried. What was visible stays readable, and other logs go on. A new
// start of the process takes for written what it reads then, and cannot know
// better; only a new start of the machine shows what the disk has.
//
// # Deviations from Kafka 0.7
//
// The log folder is locked. The process goes on after an I/O error, where 0.7
// halted. Segments with a gap between them put one log out of service, where
// 0.7 did not start. What recovery cuts is kept. Topics can be created with a
// partition count and deleted. A stale file in the way of a roll is used only if
// it is empty, and never deleted.
package storage
