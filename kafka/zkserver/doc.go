// Package zkserver is a server of ZooKeeper's client protocol: one node, in one
// process, with snapshots and a transaction log on disk. It is there so that a
// broker with its consumers can be tried without Java, and for tests, which can
// let a session end, drop a connection or hold events back at will.
//
// Clusters belong on a real ensemble of ZooKeeper: when this one process, or its
// machine, is away, nobody can register, claim a partition or commit an offset.
//
// # What it serves
//
// Sessions with time-outs within bounds, which clients take up again on a new
// connection by id and password, also after a restart of the server; ping; create
// in all modes but those with a time to live, create2, createContainer; delete,
// exists, getData, setData, getACL, setACL, getChildren in both forms,
// getEphemerals, getAllChildrenNumber; check and multi, all or nothing, and
// multiRead; watches that fire once, persistent and recursive ones, setWatches
// for a client that comes back; sync, auth, whoAmI, closeSession; and the
// four-letter words ruok, stat, srvr and mntr.
//
// It promises what ZooKeeper does: all requests are carried out one after the
// other, those of a connection in the order in which they were sent, and answers
// come in that order; a client is told of a change that it watches before it sees
// any answer that is newer; and what was answered is on the disk (but without
// [Config.DataDir], when nothing is kept).
//
// # How it works
//
// A reader for each connection puts requests into one queue. The core, one
// goroutine that owns tree, sessions and watches, takes what has gathered,
// carries it out, appends the transactions to the log, syncs it once, and then
// hands answers and events to the writers of the connections. Nothing that a
// crash could take back leaves the process, not even by a read. A write or sync
// that fails ends the server ([Server.Err]): what the disk holds is then known
// only after the recovery of the next start (fault B04).
//
// Files in the data folder:
//
//	lock             held while a server uses the folder
//	log.X            transactions from number X on; see log.go for the form
//	snapshot.X       the whole state after transaction X; see snapshot.go
//
// X has 16 hexadecimal digits. A snapshot is written, and a new log file begun,
// after 100,000 transactions, 64 MiB of log or ten starts. The three newest are
// kept, and the log since the oldest of them, in case one is damaged. At the
// start the newest good snapshot is read and the log since is replayed:
//
//	crash                              what recovery does
//	within a write to the log          cuts the torn end off; nobody was told of it
//	log file made, nothing in it       removes the file
//	within the write of a snapshot     ignores snapshot.tmp; the log has all
//	snapshot written, old files left   reads the newest, ignores the others
//	damage in what was safe            refuses to start, naming file and position
//
// # Differences from ZooKeeper 3.8
//
//   - Permissions are checked for their form, kept and shown, but never asked:
//     every client may do everything, but for writes to /zookeeper/config, which
//     is read-only. Quotas are not kept either.
//   - Reconfiguration is refused as by a server that has it switched off; SASL is
//     an unknown request.
//   - A check that stands alone, not in a multi, is answered with a header when
//     it succeeds. ZooKeeper does not answer at all.
//   - checkWatches says whether the client itself watches; ZooKeeper says yes as
//     soon as anybody watches the node.
//   - A create with a time to live is refused as by a server that has these nodes
//     switched off, also where ZooKeeper would end on it.
//   - Children are listed sorted, and the ephemeral nodes of a session that ends go
//     sorted; ZooKeeper's orders are those of hash tables.
//   - Ids of sessions are random. The password of a session is its own secret;
//     ZooKeeper computes it from the id.
//   - An expired session ends at the first tick after its time-out, counted from
//     the start of the server. Time for which the server stood still does not count.
//   - stat, srvr and mntr have ZooKeeper's form and the values that exist here,
//     with the version "3.8.0-kafkalab". Other four-letter words are answered as
//     if they were not in the whitelist.
//   - The files in the data folder are of a form of their own. MaxConnections
//     bounds all connections together, not those of one address.
//   - A connection may have 16 identities of 1 KiB; further auth requests fail.
//   - A multiRead that has read 16 MiB before its last read is refused as malformed.
package zkserver
