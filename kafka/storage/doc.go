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
//	    ….kafka.stale                  what was in the way of a roll, and not ours; or a repair put aside, as another holds it
//	    ….kafka.unsynced               a sync of the segment has failed, and it is to be written anew
//	    ….kafka.replaced-OFFSET        what a repair has put fillers in place of, see [Repair]
//
// An offset is the byte position of a message in its log, and the position in a
// file is the offset less the segment's base. So there is no index: the list of
// base offsets, in memory, finds the segment, and that is all.
//
// # The life of a message
//
// [Log.Append] writes a group of message sets to the end of the last segment,
// the only one that is ever written to, with one write. It is visible to readers
// only after a flush ([VisibleFlushed]), which comes by count ([Log.WaitAppended]
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
// synced before the next one was made. Only after a sync does the recovered end
// become the watermark. What the disk holds behind that end, written before the
// size of the file was, is cleared, so that a later crash does not show it.
//
//	crash                                     on disk                            next start
//	before a write                            the log as it was                  nothing to do
//	in a write, torn at any byte              part of the group                  keeps the whole messages, cuts the rest
//	after a write, before its flush           all of it, part, holes or zeros    keeps up to the first bad message, cuts the rest
//	after a flush                             everything flushed                 keeps it
//	zeros behind the log, up to a GiB         a sparse tail                      cuts it; its copy is sparse too
//	unknown magic                             damage in the last segment         cuts there
//	length below the minimum                  damage in the last segment         cuts there
//	checksum that does not match              damage in the last segment         cuts there
//	rolling, before the new file              a full last segment                goes on there; rolls at the next append
//	between a roll and the first write        an empty last segment              uses it
//	newest segment of zeros only              the same, grown by the crash       cuts it to nothing and uses it
//	damage in a closed segment                what a bad disk left               serves the log; whoever reads the place sees the bad checksum, as does kafka log verify
//	gap between segments                      a file is missing                  that log is out of service until the file is back; the others are served
//	making a partition, before its file       an empty folder                    makes the first segment
//	recovery, saving a tail                   the tail, part of its copy         removes the part, saves the tail, cuts
//	recovery, before the cut                  the tail and its copy              saves it once more, cuts
//	recovery, no room to save                 the tail                           out of service but readable; tries again
//	recovery, its sync fails                  what reads show may not be there   writes the segment anew
//	rewriting, before the new name            the old segment, a copy            removes the copy, recovers the old segment
//	rewriting, after the new name             an old segment that reaches        cuts what is there twice off the old one, saved first where the two differ
//	                                          into the next one
//	rewriting a whole segment                 the old one or the new one         recovers it
//	killed after a failed sync                a mark beside the segment          writes the segment anew, the page cache having it still
//	rewriting the topics file                 the old one, a copy                uses the old one
//	retention, between two files              the later ones                     serves those; retention goes on
//	deleting a topic                          folders .N.deleted                 removes them; the deletion can be repeated
//
// Bad is a length field below the smallest (so zeros are), an unknown magic or
// codec, a checksum that does not match, or a message that goes beyond the end
// of the file. What is cut is first copied to a file beside the segment, and
// the log says so with offset, size and how many sound messages are in it: those
// that lay behind the bad one. kafka log verify lists the copies, and kafka log
// dump prints the messages in one. Only what [Repair] does with ReplaceDamaged,
// before the start, keeps them at their offsets.
//
// # Rolling
//
// An append rolls the log first when the active segment holds more than
// [Config.SegmentBytes], or when its first append was more than
// [Config.RollInterval] ago. By age, a log with little traffic gets new segments
// too, and retention closed ones to delete (KAFKA-475). An empty segment is never
// rolled (KAFKA-292).
//
// When a segment got its first append is known exactly as long as the process
// lives, and is not written down. A start takes it to be when the folder of the
// partition was changed last, which the making of a segment file does; but not
// before the last append to the segment before, and not after the last one to
// the segment itself. That is exact too, unless retention, a recovery or somebody
// else has changed the folder since: then the roll comes late, at most by the
// time from the first append to that change. So no restarts, however frequent,
// keep a segment from being rolled. Recovery that cuts off everything leaves an
// empty segment, whose age begins with its next append (KAFKA-596).
//
// # Retention
//
// Every [Config.CleanupInterval], and whenever [Manager.Retain] is called, each
// log loses segments at its front: those whose last append was more than
// [Config.RetentionAge] ago, and of what that leaves as many as it can without
// falling below [Config.RetentionBytes] of flushed messages. By age the active
// segment goes too; the log is rolled before, so its offsets go on, and the start
// of a log only ever moves forward. An empty active segment stays, and by size
// the active segment does.
//
// Segments leave the list first. A read that begins afterwards finds its offset
// out of range; a reader that has a [Slice] of one gets all of it, however long
// that takes, and with the last one the file is closed. Then the files are
// removed, the oldest first, and the folder is synced after each, so a crash at
// any moment leaves segments without a gap. What cannot be removed is tried again
// the next time; until then a restart would show it again.
//
// How old a segment is:
//
//   - What this process has appended is timed with a clock that nobody can put
//     forward or back. If the clock of the machine is put right, ages stay as they
//     are, and the files get the right times: by the next round of retention, or
//     by [Manager.Close]. So the next start knows them too.
//   - For the rest there is the time of the file, as in Kafka 0.7. The first round
//     of retention works the age out from that, one interval after the start; from
//     then on it grows by itself. Putting the clock forward by years deletes
//     nothing; putting it back makes segments younger, as it was ahead before.
//   - A file from the future is not believed, as when a machine without a battery
//     starts in 1970. Its age counts from the start of the process, until the
//     clock has been put right and the file is in the past.
//
// What is left: a clock that is ahead by years from before the start until after
// the first round cannot be told from a broker that was down for years. A crash
// between the clock's being put right and the next round leaves files with wrong
// times. And a folder that is copied without the times of its files is as new as
// the copy (fault B07).
//
// # Closed segments
//
// A closed segment is opened when it is read, and at most [Config.OpenSegments]
// of them stay open between two reads, so the number of open files does not grow
// with the data (fault B05). A read that fails because there are too many open
// files says so, and changes nothing. Who wants several at once, and may keep them
// for long, gets those that there is room for ([Log.ReadMore]). It does grow with
// the partitions; one more is refused while a start can still open all there are
// ([ErrFileLimit]).
//
// Nobody looks for damage in a closed segment. It does not stop a start, and what
// is read is what the file holds, from the file to the socket: whoever takes the
// messages out checks their CRCs (NetDB'11 §3.3), and so does [Verify]. Only a
// file that is too short when it is opened, or that has failed to give what was
// asked of it ([Slice.Distrust]), is read before it is answered with. What it does
// not give any more is an error, and the other segments are not concerned.
//
// # I/O errors
//
// A write that fails is undone by cutting the file, and the log stays in
// service: a disk that was full may have room again. When that cut fails, or the
// sync of a segment or of a new segment's entry in the folder does, the log is
// out of service ([ErrOutOfService]). What was visible stays readable, and other
// logs go on. The manager tries to bring the log back after 100 ms, and then
// with pauses of up to 10 s, until it is closed ([Log.OutOfService]).
//
// After a failed sync that takes more than another sync, which would succeed and
// prove nothing: the kernel takes pages for written that are not. What was not
// flushed is checked and copied to a new file, that one is synced and read back
// from the disk, past the page cache where the file system has direct reads (ext4
// and XFS do), and then it continues the log in place of the old file, which
// ends at the flushed end from then on. Messages that the page cache does not
// have any more are lost, with those behind them; none of them was acknowledged
// as flushed, and those who wait for their flush get the error. With
// [VisibleAppended] consumers may have seen them. A mark beside the segment,
// ….kafka.unsynced, lets a new process know of the failed sync.
//
// # Deviations from Kafka 0.7
//
// The log folder is locked. The process goes on after an I/O error, where 0.7
// halted. Segments with a gap between them put one log out of service, where
// 0.7 did not start. What recovery cuts is kept. Topics can be created with a
// partition count, which comes before that of the configuration, and deleted. A
// file in the way of a roll is used if it is empty, and gets another name if it
// is not. Ages survive restarts, that for rolling too, and do not follow a clock
// that is put forward. Retention works for the first time one interval after the
// start, not one minute. Not all closed segments are open.
package storage
