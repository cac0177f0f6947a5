// Package runner measures: it takes scenarios and two hosts, and leaves a
// result with every attempt in it.
//
// One attempt is one system, measured once, in the phases
//
//	reset    the broker host's folder for it is empty, and has the room
//	start    a fresh server, until it takes requests
//	warm-up  messages to a queue of their own, and back
//	measure  sending until count or cap, or receiving the backlog
//	drain    (produce) until the server's own count has all that was sent
//	verify   counts compared; what was left of the backlog is consumed
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
// falls as one, and is what a resumed run repeats.
//
// Whatever goes wrong with one group is its outcome, with a reason; the others
// still run. Only the end of the context (the user's interrupt), and a result
// that cannot be written, end a run early.
package runner
