//go:build hadoop

package hadooptest

import "testing"

// perSplit is how many messages there are in a split.
const perSplit = 400

// TestHadoopLocalJob loads twice what has come, and a third time nothing. Hadoop
// brings the binary to where its tasks run, as it would for a user.
func TestHadoopLocalJob(t *testing.T) {
	w := newWorld(t, localPlace(t))
	for range 2 {
		w.load()
	}
	w.mustPlan(0)
}

// load produces, and loads what was produced.
func (w *world) load() {
	w.t.Helper()
	w.produce(perSplit)
	p := w.mustPlan(splits)
	w.mustSubmit(w.job(p))
	w.mustCommit(p)
	w.check()
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
