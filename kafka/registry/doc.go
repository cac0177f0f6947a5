// Package registry keeps the four registries of the paper in ZooKeeper (NetDB'11
// §3.2): which brokers live and what they hold, which consumers a group has, who
// of them owns a partition, and how far each partition has been consumed. It is
// the one place that knows the paths and values of nodes; they are those of Kafka
// 0.7, so that brokers and consumers of 0.7 can share a cluster, and a group, with
// ours.
//
//	path                                                kind        value
//	/brokers/ids/<broker>                               ephemeral   creator:host:port
//	/brokers/topics/<topic>                             persistent  none
//	/brokers/topics/<topic>/<broker>                    ephemeral   number of partitions
//	/brokers/begun/<topic>                              persistent  name of its log, see [Registry.NoteLog]
//	/consumers/<group>/ids/<consumer>                   ephemeral   subscription, see [Subscription]
//	/consumers/<group>/owners/<topic>/<broker>-<p>      ephemeral   thread of a consumer, <consumer>-<n>
//	/consumers/<group>/offsets/<topic>/<broker>-<p>     persistent  offset of the next message
//
// Values are text without a newline, numbers are decimal. What stands above a
// node is persistent, without a value, and made when it is missing. A chroot of
// the connection string comes before all of it.
//
// # What is read may be anything
//
// Nodes are written by others too. Whatever a node holds is checked: names and
// numbers against the bounds of this package ([MaxPartitions], [MaxStreams],
// [MaxPatternBytes], and the length of a value) before anything is made as large
// as they say. A node that makes no sense is named, with its path, in a
// [*BadNodesError], and never keeps the good ones from being returned: who gets
// that error has everything else beside it, and may go on. A node that vanishes
// between the reading of its name and of its value is as if it had not been there.
//
// # Sessions
//
// Ephemeral nodes belong to a session of ZooKeeper, so what makes or removes them
// takes the [coord.Session] that is to own them, and fails with [coord.ErrExpired]
// once that has ended; it is never carried out in a later one. All else goes
// through the client and whatever session it has.
//
// # Differences from Kafka 0.7
//
//   - A node counts as one's own only if it belongs to the session. 0.7 takes any with
//     the same value for its own, and so relies on one that is about to vanish.
//   - A broker takes over what it has left in an older session, in one step; 0.7 fails
//     to start (fault B14).
//   - Owner nodes are made by a multi, and offsets are stored by one that checks the
//     owner node, see [Registry.Commit]. 0.7 makes nodes one by one, and sets offsets
//     whoever owns the partition.
//   - Names are held to what ZooKeeper takes, in [MaxNameBytes]. Numbers have no sign
//     and no leading zeros, the value of a broker exactly three fields, and what is
//     read has bounds.
//   - Quotes and backslashes in the topics of a subscription are escaped, which 0.7
//     writes as they are and cannot read. Patterns are those that Java and RE2 read
//     alike, see [CheckPattern].
//   - Topics and groups can be removed, with their owners and offsets.
//   - The log of a topic can be noted, so that no other one passes for it.
//
// All methods may be called concurrently.
package registry

import "kafkalab/kafka/coord"

// Registry reads and writes the registries of one cluster.
type Registry struct {
	client *coord.Client
}

// New returns the registries that a client of ZooKeeper reaches. It does not
// close the client.
func New(c *coord.Client) *Registry { return &Registry{client: c} }

// Client returns the client of ZooKeeper.
func (r *Registry) Client() *coord.Client { return r.client }
