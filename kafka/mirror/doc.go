// Package mirror copies the topics of one or several clusters into another one
// (NetDB'11 §4: a set of embedded consumers pulls from the live clusters, near where
// the loads run). A [Mirror] is one member of a consumer group in each source cluster,
// so any number of them, in processes of their own, share the work.
//
// # How a set travels
//
// The group is shallow: what a partition's feed has fetched comes as it lies in the
// source's log. Each message's CRC is checked, and the entries are laid behind the
// header of an AckedProduce request, cut into sets of an eighth of a fetch; a
// compressed entry stays as it is and is opened by nobody on the way. A source
// partition that is owned has a lane: a queue of such requests, and a connection to the
// one partition of the target that is its own. Several are on their way at once, each
// is answered when it is flushed, and the offset behind it is then to be committed.
//
// # What is promised
//
//   - No offset is committed whose messages the target has not acknowledged as flushed.
//     So each message is at least once in the target, however a mirror ends.
//   - What is sent and not committed is less than one fetch for each partition, or one
//     message that is larger. So much comes twice after a kill, at most. What this
//     mirror itself sends again, as an answer was lost, it counts ([Stats]).
//   - Messages of a source partition come in its order: the first of each, and again
//     from where it went on after a failure. A target that refuses a set refuses those
//     behind it that are on their way already ([kafkalab/kafka/wire.AcksOrdered]).
//   - Before a partition is given up the lane stops sending, what is on its way is waited
//     for, and what is flushed is committed (fault B20). What was only queued is left to
//     the next owner. Before each set a lane asks for the lease, so that one whose
//     process was stopped for long sends nothing into the work of the next owner.
//   - What cannot be delivered is tried for as long as it takes. Its partition is then
//     not read further, and the others are as long as there is memory, which is bounded
//     ([Config.MaxBufferBytes]).
//   - Where the source's retention has deleted what was not copied yet, there is a gap,
//     which is logged and counted with topic, partition and offsets, and not passed over
//     until all before it is flushed and committed.
//
// # Which partition
//
// Message sets carry no key, so it is partitions that are mapped. Of a topic of which
// its broker has k partitions at the source, partition p of broker b goes to the
// partition with the index
//
//	(b·k + p) mod N
//
// of the N that the target has, sorted by broker and number: brokers numbered from 0 on
// with as many partitions in all map one to one. It depends on nothing else, so that
// each member, and each source broker's coming and going, gives the same. A broker of
// the target that is gone is waited for; after [Config.TargetWait] the others are N.
//
// When N changes, a lane waits for its answers from the old place before it sends to the
// new one. A topic that the target does not have is made there, with as many partitions
// in all as the source has.
//
// # Differences from Kafka 0.7
//
//   - The embedded consumer of 0.7 and its mirror maker commit by time what they have
//     put into a producer's queue; that is lost in a crash. Order is lost too, as
//     messages go to any partition.
//   - A mirror that cannot write drops a batch, or dies with the thread (KAFKA-225,
//     KAFKA-332). Here it goes on trying and shows it.
package mirror
