// Package chaos torments consumer groups: consumers and brokers in processes of
// their own, which join, leave, are killed and stopped, lose their sessions and
// their connections, while ZooKeeper is restarted, under a steady load; and a
// checker that compares what each consumer has handled, and when, with what a
// group promises (NetDB'11 §3.2, §3.3). Only tests import it.
//
// # What is checked
//
//   - Every message of every log is handled at least once, and every message that
//     was acknowledged to its producer is among them (R23).
//   - Between two rebalances a partition's messages come in the order of its log,
//     none left out (R24).
//   - No two consumers are handed messages of a partition at the same time (R17).
//   - Messages come twice only after an unclean end, and only those past the last
//     commit; and no commit goes back.
//   - Every partition has an owner that lives within [SettleLimit] after the last
//     trouble.
//
// One message per stream is exempt from the third and the fourth: the one that the
// application has in hand when its partition goes to another. How many there were
// is counted. And no lease covers a session that is ended at the server before its
// time-out has passed, as the storm does too: a consumer that is cut off just then
// hands messages out until its lease is over. What it does within that time is not
// held against it, and counted as well.
//
// # How
//
// Each consumer writes what happens to it to a [Journal] of its own, a record for
// each message that it is handed and one when it is done with it. A record is one
// write, so that what was written survives signal 9; its time is the monotonic
// clock that all processes of the machine share. The group's offsets in ZooKeeper
// are looked at all the time by the test itself.
package chaos
