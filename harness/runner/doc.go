// Package runner measures: it takes scenarios and two hosts, and leaves a
// result with every attempt in it.
//
// One attempt is one system, measured once, in the phases
//
//	reset       the broker host's folder for it is empty, and has the room
//	start       a fresh server, until it takes requests
//	fill        messages that are to be there before, until the server's own
//	            count has them; not measured
//	restart     (consume, if asked for) the server is stopped cleanly and started
//	            again over the same data
//	drop cache  (consume, if asked for) what it stores leaves the page cache
//	warm-up     messages to a queue of their own, and back
//	measure     sending until count or cap, or receiving the backlog
//	drain       (produce) until the server's own count has all that was sent
//	verify      counts compared; what was left of the backlog is consumed
//
// The other kinds of work have their phases in the files named after them.
//
// Several consumers of one backlog run in one client process, each with its own
// connection, checker and clock. Each gets everything: from the one log, or, at a
// broker of queues, from a queue of its own, all of which the fill went to.
//
// The client runs as a process of its own on the client host. It is told what
// to do by a [Spec] on its standard input and reports events, a line of JSON
// each, on its standard output. Before the phases warm-up, measure and verify
// it waits for a line "go", so that the broker host's counters are read while
// nothing moves. When its input ends it ends too: it cannot be left over.
//
// A produce and the consume that empties its backlog share one server and are
// a group: they are put on record together, since only the consuming side
// sees whether what the broker counted is what was sent. A group stands or
// falls as one, and is what a resumed run repeats. Where the queue was filled
// before, the produce is counted from there, and what consumes it gets the fill
// first: within the time for it all of both is verified, and a note says how far
// that came if it was not enough.
//
// A consume without a backlog of another scenario is a group of its own: its
// broker is filled for it, by a client process with the options for filling.
//
// Whatever goes wrong with one group is its outcome, with a reason; the others
// still run. Only the end of the context (the user's interrupt), and a result
// that cannot be written, end a run early.
package runner
