// Package consumer reads messages from brokers (NetDB'11 §3.1): one partition
// without ZooKeeper, as a [Stream], or, as one of a consumer group that meets in
// ZooKeeper, what is its share of topics, as the [GroupStream]s of a [Group]
// (§3.2).
//
// # How messages come
//
// The application takes one message at a time; each pull from the broker
// fetches many, typically hundreds of kilobytes, and is asked for ahead of use.
// A stream reads its log as a sequence of bytes: it asks for the next range
// while the last one is still on its way, so the link is never idle, and the
// part of a message that a range ends with is kept and completed by the next.
// Ranges that were asked for in advance stop joining when a range comes short,
// at the end of a segment or of the log: what does not begin at the byte that
// is wanted is thrown away, and the stream goes on from the true offset.
//
// At the end of the log a stream lets the broker hold its request back until
// there is something (WaitFetch). A broker that does not know that request, as
// those of Kafka 0.7, is asked twice a second instead.
//
// How much a pull asks for is [PartitionConfig.FetchBytes] where that is given (the
// fetch.size of Kafka 0.7). Otherwise it begins with 200 KiB and follows the rate,
// from 64 KiB to 4 MiB: a partition that gives a range within half a millisecond, or
// is waited for at length, is asked for twice as much next, since what each request costs
// counts there; one whose application takes long over a range, and one at the end of
// its log, for half as much. What is consumed does not depend on it. The partitions
// of a group share [GroupConfig.FetchMemoryBytes] for what is beyond 64 KiB each,
// evenly where all want more. A message that is larger than a pull comes with one
// that is as large as it, up to [PartitionConfig.MaxFetchBytes]; of several
// partitions of one GroupStream that come to messages larger than their pulls may
// be, one at a time is let in.
//
// # Offsets
//
// An offset is the position of a message's first byte in its partition's log.
// Offsets grow and are not consecutive: the next one is greater by the size of
// the message. Having consumed a message means having received all before it,
// so one offset says how far a consumer has come, and [Stream.SeekTo] goes back
// to any. A stream advances its consumed offset when the application asks for
// the next message, and so never past one that it may still be handling.
//
// # Compressed messages
//
// A producer can compress many messages into one, and a stream hands out those
// inside. They have no offsets of their own: each has the offset of the compressed
// message, which is also the next offset of all of them but the last. The
// consumed offset so stays at its beginning until the last message inside has been
// consumed; who starts there after a crash gets the messages inside from the first
// again (at least once; Kafka 0.7 KAFKA-546). To get each once, an application
// keeps with the offset how many messages with that offset it has handled.
//
// [PartitionConfig.Shallow] gives compressed messages as they are, for a mirror
// that only passes them on.
//
// # Groups
//
// Of each partition that a member of a group owns a goroutine pulls one chunk after
// another through a Stream, and hands it over as it lies in memory; it pulls the
// next one when the application is done with this one. A GroupStream hands out the
// messages of one chunk, then those of the next that is ready, of whichever
// partition. Each is handed out under the stream's lock, after asking whether the
// member still owns the partition: so giving a partition up takes that lock once,
// and from then on nothing more of it reaches the application.
//
// # Differences from Kafka 0.7
//
// What other members of a group can see is as in 0.7, so that they can be of it:
// nodes, values, order and arithmetic of the assignment. Beside that:
//
//   - A rebalance reads the registries first, and gives up only what is not to stay
//     with the same stream. 0.7 gives all up each time.
//   - It is tried for as long as it takes, after short pauses of random lengths
//     first, and the last of [GroupConfig.RebalanceTries] takes what is free. 0.7
//     tries four times, 2 s apart, and then waits for the next event (fault B12).
//   - Brokers and the numbers of partitions are watched too. A partition whose
//     broker is not registered is claimed, and read when that is back; in 0.7 the
//     try fails.
//   - The stored offset is read after the claim, and not before. The -1 that 0.7
//     stores where it could not find out where to begin counts as none.
//   - Ownership is a lease, and is asked for with each message. In 0.7 a consumer
//     whose session has ended goes on until it hears of it.
//   - A commit is carried out only while the owner node is the member's own. It is
//     made when the offset has changed; 0.7 writes all offsets, unchecked, each time.
//     Where another has written the offset meanwhile, the owner's is written over it.
//   - The consumed offset moves when the application asks for the next message: what
//     it has in hand comes again after a crash, and is lost with 0.7.
//   - A partition that goes to another stream waits for [GroupConfig.HandoverWait].
//   - Each partition has a connection of its own, as the paper's have a thread; 0.7
//     has one for each broker. A partition that fails holds up no other, and is tried
//     again; in 0.7 the thread of its broker ends until the next rebalance.
//   - With [ResetFail] also a partition without a stored offset is an error of that
//     partition, and [Group.Seek] leads on.
//   - A consumer with a ConsumerID that is registered waits for the end of that
//     session, and patterns are those that Java and RE2 read alike
//     (see [registry.CheckPattern]).
package consumer
