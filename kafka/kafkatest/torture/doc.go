// Package torture loads a real broker process, remembers what the broker has
// promised, and checks after a crash whether it has kept that. It is a kit for
// tests: the kill -9 test of this package uses it, and those that take the power
// or the disk away.
//
//	bin := torture.Build(t)                             // the kafka binary
//	ledger := torture.NewLedger(seed)
//	b := torture.Start(t, bin, "broker", "--log-dir", dir, "--listen", "127.0.0.1:0")
//	ledger.CreateTopic(ctx, b.Addr(), "t", 3)           // and remember it
//	for range rounds {
//		load := ledger.StartLoad(b.Addr(), torture.LoadConfig{Seed: …})
//		…                                                // as long as it pleases
//		load.CrashAhead()                                // from now on connections may break; PowerLossAhead if the power goes
//		b.Kill()                                         // or whatever else is to go wrong
//		load.Stop()                                      // waits for its goroutines
//		b = torture.Start(t, bin, …)
//		snapshot, err := ledger.Read(ctx, b.Addr())      // all messages of all partitions
//		report := ledger.Check(snapshot, torture.CheckOptions{Crash: torture.Killed})
//		if err := report.Err(); err != nil { … }         // what was promised and not kept
//		total.Add(report)                                // what each level of acks has lost
//	}
//
// Nothing may be produced between a crash and the Check that follows it, and
// after the Check everything that it has found counts as promised: recovery
// flushes before it shows.
//
// # What is promised
//
// Each [Stream] is one connection that sends numbered messages to one partition
// at one [Level], so the broker reads them in order. Whatever happens:
//
//   - Nothing is in a log that was not sent, and nothing damaged. A message is in
//     it once.
//   - Of each stream the log holds the messages in order, without a gap, from the
//     first one on: a crash takes an end away and nothing else. (Sets that the
//     broker refused may be missing.)
//   - What an earlier Check has found is there, unchanged, at its offset, unless
//     retention has removed it, and retention leaves what it has to leave.
//   - A set that was acknowledged as appended or flushed is at the offset that the
//     answer named, if that offset is within the log.
//   - What a consumer has seen is there, at its offset, unless the power was lost
//     and the broker shows messages before they are flushed.
//   - A topic whose creation was answered is there with its partitions, one whose
//     deletion was answered is gone.
//
// And by the kind of [Crash]:
//
//	                 acks   none      received  appended  flushed
//	the process dies        an end    an end    nothing   nothing may be lost
//	the power is lost       an end    an end    an end    nothing
//
// [Report] counts how much of what may be lost was.
package torture
