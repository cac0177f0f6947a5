// Package etl loads topics into dated files: the Hadoop load of the paper
// (NetDB'11 §4, rule R30). It plans splits, reads them straight from the brokers in
// tasks that may fail and be repeated, and publishes what they made together with
// the offsets up to which they read, so that each message is in the output exactly
// once. Nothing is deduplicated for that: a message is where its offset is.
//
// A load is three steps, which "kafka etl plan", "map" and "commit" take one by one
// for a MapReduce job, and [Folder.Run] together on one machine:
//
//  1. [Folder.Plan] asks the brokers what they hold behind the offsets that were
//     published last, and cuts that into splits, none of which is larger than a bound.
//  2. [Map] reads one split and writes its messages, by topic and date, compressed,
//     into a folder that belongs to this attempt alone. The [Result] that it returns
//     tells each file with its length and what it holds.
//  3. [Folder.Commit] checks that each split has exactly one result which covers
//     exactly its offsets, and that each file is there with its length; writes the
//     new offsets and a manifest of the files beside them; publishes all that by
//     renaming one folder; and then lays the files out.
//
// # The output folder
//
// It is a local folder, or one of HDFS ("hdfs://host:port/path"):
//
//	<topic>/2026/11/29/<broker>-<partition>-<start>-<end>.gz        messages of a split and a day
//	<topic>/2026/11/29/<broker>-<partition>-<start>-<end>-s7.avro   those written with Avro schema 7
//	_etl/plans/<plan>/plan.json                                     a plan, and in "splits" one line for each task
//	_etl/output/<plan>/                                             what the tasks of a plan have made
//	_etl/runs/<number>/manifest.json, offsets.json, …               what is published
//	_etl/lock                                                       held by who works on a local folder
//
// Start and end are the offsets of the split, end exclusive, and not those of the
// day. Days are those of UTC.
//
// # Why that is exactly once
//
// A run is published when its folder has the name _etl/runs/<number>, and that is one
// rename, which is atomic and fails when the name is taken. The number is that of the
// run before and 1, and a plan says which run it goes on from: of two plans that
// start from the same offsets one is published and the other refused, however they
// overlap. Before the rename nothing counts: output that is left behind is thrown away
// and its offsets are read again. After it everything does: the files have names that
// say which offsets they hold, and whoever comes next finds those that are not yet
// laid out in the folder of the run, and moves them; moving one twice changes
// nothing. No run is published before the one before it has been laid out.
//
// On a local folder every file, and every folder in which a name was made, is synced
// before the rename, and the folder of the runs after it. The rename of a file or
// folder is taken to be atomic, also in a power loss, as it is in every file system
// with a journal.
//
// # Trouble
//
// What retention has deleted before it was loaded is a [Gap] in the plan, or in the
// result of a task that was overtaken, and so in the manifest. A partition whose log
// ends before what was loaded (a topic deleted and made again, a disk replaced) is
// left alone and reported each time: offsets that are used twice would name two
// things by one name, so it belongs into another output folder. A broker that is not
// reached is reported and its partitions wait. A message with no time, or one that
// is too far off, is filed under the day of its arrival and counted. One whose Avro
// bytes do not fit its schema is kept as it is in a file of raw messages and counted.
package etl
