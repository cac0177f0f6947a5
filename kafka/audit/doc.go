// Package audit finds out whether messages are lost on their way (NetDB'11 §4).
//
// Every message carries the time and the server of its making, and producer id and
// sequence number, in an envelope (package envelope) that a [Producer] puts around it.
// The Producer counts by topic and fixed window of time, and publishes the counts as
// monitoring events ([Event]) to a topic of their own. A checker counts what comes of
// the messages in one tier: the cluster that they are published to or one that mirrors
// it ([Watcher]), or the files of a load ([CountLoaded]). [Compare] compares what the
// checkers have counted with the events, by topic, window, server and tier.
//
// # What is counted
//
// The paper's events are numbers. Here they name the messages too, by their sequence
// numbers, as ranges: so one message that is lost and one that came twice do not cancel
// out. A checker keeps the ranges that have come, those that came twice, and so on.
//
// A window begins at a multiple of its length since 1970, and a message is in the window
// of the time in its envelope: that of its server's clock, whenever it comes.
//
// # Verdicts
//
// A window of a topic and server is, in a tier, complete, doubled, missing, unreported
// or open ([Verdict]). It is open until the tier was known to be caught up (to hold no
// message that was not counted) at some grace after the window's end and after its event
// came, the last one that tells of more than those before. A producer that died before
// its event leaves messages that no event tells of. They are unreported, and never
// complete, as nobody knows how many there were; those that one tier has are missing in
// another one that has not, and so are those whose sequence numbers lie between others.
//
// Verdicts are of what is known: a message that comes late is counted, and makes missing
// ones fewer.
//
// # Times that are wrong
//
//   - A clock that is off by minutes, either way: its messages and events are counted in
//     the windows of its own time. A window in the past is open for the grace after what
//     was last heard of it, so it is not called missing between its messages and events.
//   - A clock that is put back while a producer runs: see [Producer]. One of a checker's
//     host that was far ahead, and is put right: what comes then is counted by its windows
//     again; those that were made sums too early stay sums.
//   - Later than [Limits.Ahead] from now: counted as from the future, not by windows, and
//     the tier is not clean.
//   - Longer ago than [Limits.Keep]: counted as late. Their windows have been judged, and
//     are kept as sums, which a late message does not change.
//
// # What is bounded
//
// [Limits] bound producers, windows and ranges. What is beyond is counted as uncounted,
// logged, shown in metrics and reports, and the tier is not clean any more. A payload
// that is no envelope, or only looks like one, is an error of that message: counted, with
// the last one's text, which is short.
//
// # What a crash leaves
//
// A checker writes positions and counts together, to one file that is replaced whole. What
// comes again after a crash, or after a rebalance, begins at the positions, so it counts
// once. A part of a log that was deleted before it was counted, and a log that began anew,
// are noted, and the tier is not clean. One process uses a state at a time.
//
// A producer that is killed leaves its open window unreported; with a spool the events of
// the windows that were over are published by the next one.
package audit
