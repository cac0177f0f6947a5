//go:build hadoop

package hadooptest

import "testing"

// perSplit is how many messages there are in a split.
const perSplit = 400

// TestHadoopLocalJob loads twice what has come, and a third time nothing.
func TestHadoopLocalJob(t *testing.T) { testLoads(t, newWorld(t, localPlace(t))) }

// TestHadoopYarnJob is the same on HDFS and YARN, as a user would do it: Hadoop brings
// the binary to where its tasks run.
func TestHadoopYarnJob(t *testing.T) { testLoads(t, newWorld(t, yarnPlace(t))) }

func testLoads(t *testing.T, w *world) {
	for range 2 {
		w.produce(perSplit)
		p := w.mustPlan(splits)
		w.mustSubmit(w.job(p))
		w.mustCommit(p)
		w.check()
	}
	w.mustPlan(0)
}

// TestHadoopLocalJobWithKilledMappers: the local job runner starts no second attempt,
// so that its job fails as a whole. Nothing of it may be published; the same plan is
// run again, until all goes well. To publish twice changes nothing.
func TestHadoopLocalJobWithKilledMappers(t *testing.T) {
	w := newWorld(t, localPlace(t))
	w.produce(perSplit)
	p := w.mustPlan(splits)
	for _, fault := range []string{killedBefore, killedAmid, killedAfter, failedAfter} {
		w.mustFail(w.faulty(p, "3.0="+fault))
		w.mustHappen("3.0=" + fault)
		w.mustNotCommit(p)
		w.mustBeEmpty()
		w.place.dfs(t, "-rm", "-r", "-f", "-skipTrash", p.Output)
		w.removeMarks()
	}
	w.mustSubmit(w.faulty(p))
	for range 2 {
		w.mustCommit(p)
		w.check()
	}
}
