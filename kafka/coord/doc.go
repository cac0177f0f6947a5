// Package coord is one client of ZooKeeper, on go-zookeeper/zk: sessions one
// after the other, requests bounded in time, watches that miss nothing, ephemeral
// nodes that are made again, and a lease (NetDB'11 §3.2). It knows nothing of
// what Kafka keeps in ZooKeeper.
//
// # Sessions
//
// A [Client] goes through sessions; a [Session] lives as long as the server has
// it, over any number of connections. When the server has said that a session is
// gone, the client makes the next, and [Client.OnSession] tells. Each session has
// a library connection of its own, which is closed at its end and makes no network
// connection any more: whatever is left in its queue is dropped, not carried out
// in a later session. What must not happen in another session than it was meant
// for is asked of the Session, the rest of the Client.
//
// # Requests
//
// Each request is bounded by its context and by [Config.RequestTimeout]. One that
// only reads is sent again when its answer is lost. A change is not, since it may
// have been carried out: the error is then [ErrInDoubt] too. Put, Create of the
// nodes above, DeleteTree and CreateEphemeral may be repeated and are.
//
// # The lease
//
// A broker without state cannot fence an old owner off, so an owner must know by
// itself when it may no longer act. [Session.Valid] says so, from proofs: answers
// of the server that the session was alive after they were asked for. The lease
// lasts one negotiated time-out from the sending of the last answered proof, while
// the server ends the session no earlier than one time-out after it has last heard
// of it. Between Valid and what is done on the strength of it the process may be
// stopped: what was begun then is beyond the lease.
//
// A proof is a handshake, for which a member asks its leader, or a sync. A sync is
// used since the member that a client is connected to has to send it to its leader,
// and the answer comes from there behind all that the leader has decided before,
// the end of the session too: had that been decided, the connection would be closed
// instead. A ping or a read is answered by the member alone: by one that is cut off
// as well, for several ticks, while its leader ends the session.
//
// With one server that is all there is to it. An ensemble leaves these gaps:
//
//   - A member tells its leader of the sessions it has heard of only when the
//     leader pings it, every half tick. One that is cut off from its leader after
//     it has answered a proof, and before the next such ping, has not passed that
//     proof on. The leader then counts from what it was told before, which may be
//     older by the time between two requests of the session: the third of the
//     time-out at which the library pings, at most. The client will find another
//     member in less than the third of a time-out or so that remains, and its
//     handshake there closes the gap; if it cannot, or is stopped just then, its
//     lease may end up to a third of a time-out after the session.
//   - A leader that is cut off from the majority goes on answering until it steps
//     down, after syncLimit ticks without them, when the others have given it up as
//     well. The leader that they elect gives each session a whole
//     time-out anew, from its election on; so the lease is over before unless the
//     election took less time than the old leader was late.
//   - The clocks of client and server must run at about the same speed, and the
//     monotonic clock of Linux stands still while a machine (not a process) is
//     suspended.
//
// # Watches
//
// ZooKeeper's watches fire once. [Client.WatchChildren] and [Client.WatchData] are
// loops that arm, read, tell and wait, over lost connections (the watches are set
// again as of the last transaction that was seen before), expired sessions and the
// deletion of the node. After errors they pause, longer each time up to a second.
package coord
