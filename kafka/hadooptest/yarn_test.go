//go:build hadoop

package hadooptest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHadoopYarnJob is a load on HDFS and YARN without any trouble.
func TestHadoopYarnJob(t *testing.T) {
	w := newWorld(t, yarnPlace(t))
	w.load()
	w.mustPlan(0)
}

// TestHadoopYarnJobWithKilledMappers: each fault a mapper can have, at first attempts
// and at later ones. Hadoop tries four times, and the job succeeds.
func TestHadoopYarnJobWithKilledMappers(t *testing.T) {
	w := newWorld(t, yarnPlace(t))
	w.produce(perSplit)
	p := w.mustPlan(splits)
	faults := []string{
		"0.0=" + killedBefore,
		"1.0=" + killedAmid,
		"2.0=" + killedAfter,
		"3.0=" + failedAfter, "3.1=" + killedAmid, "3.2=" + killedAfter,
	}
	w.mustSubmit(w.faulty(p, faults...))
	w.mustHappen(faults...)
	w.mustCommit(p)
	w.check()
}

// TestHadoopYarnJobWithSpeculativeAttempts: two attempts of a task run at once, and
// both write all of their output. The second one wins where the first one is late, the
// first one where the second one is.
func TestHadoopYarnJobWithSpeculativeAttempts(t *testing.T) {
	w := newWorld(t, yarnPlace(t))
	w.produce(perSplit)
	p := w.mustPlan(splits)
	faults := []string{"0.0=" + late, "0.1=" + slow, "1.0=" + slow, "1.1=" + late}
	j := w.faulty(p, faults...)
	j.settings = settings{
		"mapreduce.map.speculative":                               "true",
		"yarn.app.mapreduce.am.job.task.estimator.class":          "kafkalab.EveryTaskIsLate",
		"mapreduce.job.speculative.retry-after-no-speculate":      "500",
		"mapreduce.job.speculative.retry-after-speculate":         "500",
		"mapreduce.job.speculative.minimum-allowed-tasks":         "10",
		"mapreduce.job.speculative.speculative-cap-running-tasks": "1.0",
	}
	w.mustSubmit(j)
	w.mustHappen(faults...)
	w.mustCommit(p)
	w.check()
}

// commitMoves is after how many of the committer's moves it is interrupted: the files
// of the first task and its result, the file of the second task but not its result.
const commitMoves = "3"

// TestHadoopYarnJobWhoseCommitDies: the application master is gone between two moves
// of the commit. Algorithm 1 cannot go on there, so that Hadoop's next application
// master gives the job up, with a part of the output moved. It is not published; the
// same plan is run again.
func TestHadoopYarnJobWhoseCommitDies(t *testing.T) {
	w := newWorld(t, yarnPlace(t))
	w.produce(perSplit)
	p := w.mustPlan(splits)
	j := w.job(p)
	j.settings = settings{
		"fs.hdfs.impl":          "kafkalab.CommitFaults",
		"kafkalab.commit.moves": commitMoves,
		"kafkalab.commit.then":  "die",
	}
	w.mustFail(j)
	w.mustHaveMovedAPart(p)
	w.mustNotCommit(p)
	w.mustBeEmpty()

	w.place.dfs(t, "-rm", "-r", "-f", "-skipTrash", p.Output)
	w.mustSubmit(w.job(p))
	w.mustCommit(p)
	w.check()
}

// TestHadoopYarnJobKilledInItsCommit: the user kills the job between two moves of its
// commit, and plans anew. The old plan can not be published any more.
func TestHadoopYarnJobKilledInItsCommit(t *testing.T) {
	w := newWorld(t, yarnPlace(t))
	w.produce(perSplit)
	old := w.mustPlan(splits)
	reached := filepath.Join(w.marks, "reached")
	j := w.job(old)
	j.settings = settings{
		"fs.hdfs.impl":            "kafkalab.CommitFaults",
		"kafkalab.commit.moves":   commitMoves,
		"kafkalab.commit.then":    "wait",
		"kafkalab.commit.reached": reached,
	}
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		_, err := w.place.submit(t, j)
		failed <- err
	}()
	t.Cleanup(func() {
		for range failed { // the end of the test has ended the job's client
		}
	})
	for end := time.Now().Add(programLimit); !exists(reached); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-failed:
			t.Fatalf("the job ended before its commit was reached: %v", err)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the commit was not reached within %v", programLimit)
		}
	}
	w.killJob()
	if err := <-failed; err == nil {
		t.Fatal("the job that was killed has succeeded")
	}
	w.mustHaveMovedAPart(old)
	w.mustNotCommit(old)
	w.mustBeEmpty()

	w.produce(perSplit)
	p := w.mustPlan(splits)
	w.mustSubmit(w.job(p))
	w.mustCommit(p)
	w.check()
	w.mustNotCommit(old)
	w.check()
}

// killJob kills the one job that runs, as "mapred job -kill" does.
func (w *world) killJob() {
	w.t.Helper()
	client := func(args ...string) string {
		argv := w.place.argv("128m", w.place.sites, "org.apache.hadoop.mapred.JobClient", args...)
		out, _, err := run(w.t.Context(), w.t.TempDir(), w.place.program(), argv...)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		return out
	}
	jobs := slices.Compact(regexp.MustCompile(`job_\d+_\d+`).FindAllString(client("-list"), -1))
	if len(jobs) != 1 {
		w.t.Fatalf("jobs that run: %v", jobs)
	}
	client("-kill", jobs[0])
}

// mustHaveMovedAPart fails the test unless the commit was interrupted in its midst.
func (w *world) mustHaveMovedAPart(p plan) {
	w.t.Helper()
	listing := w.place.dfs(w.t, "-ls", "-R", p.Output)
	moved := 0
	for line := range strings.Lines(listing) {
		if strings.HasSuffix(strings.TrimSpace(line), ".gz") && !strings.Contains(line, "/_temporary/") {
			moved++
		}
	}
	if moved == 0 || moved == splits || strings.Contains(listing, "/_SUCCESS") {
		w.t.Errorf("%d files of %d tasks were moved by the commit:\n%s", moved, splits, listing)
	}
}
