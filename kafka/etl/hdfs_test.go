package etl

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/message"
)

// useShell makes the test's own program the shell of HDFS, and returns the folder that it
// works in.
func useShell(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	root := t.TempDir()
	t.Setenv(shellRoot, root)
	t.Setenv(HDFSCommandVariable, self)
	return root
}

// mapAll maps the splits of a plan as tasks of a job do, whose committer keeps them all.
func mapAll(t *testing.T, f *Folder, plan *Plan, root string) {
	t.Helper()
	out := filepath.Join(root, "loaded", filepath.FromSlash(planOutput(plan.ID)))
	text := ""
	for _, s := range plan.Splits {
		r, err := Map(testContext(t), s, f.Output(plan.ID), MapConfig{})
		must(t, err)
		line, err := r.Line()
		must(t, err)
		text += line + "\t\n"
	}
	must(t, os.WriteFile(filepath.Join(out, "part-00000"), []byte(text), 0o644))
	must(t, os.WriteFile(filepath.Join(out, jobEnded), nil, 0o644))
}

// A load into HDFS, through its shell: plan, map, commit, once more, and again after the
// commit has died at any of its commands.
func TestHDFS(t *testing.T) {
	root := useShell(t)
	c := startCluster(t, 1)
	c.create("clicks", 2)
	f, err := OpenFolder(shellHost + "/loaded/")
	must(t, err)
	f.now = testFolder(vfs.OS(), "").now
	for round := range 2 {
		c.publish(0, "clicks", 0, 20, noon, message.CodecNone)
		c.publish(0, "clicks", 1, 20, noon, message.CodecGzip)
		cfg := c.config("clicks").PlanConfig
		cfg.SplitBytes = 1000
		plan, err := f.Plan(testContext(t), cfg)
		must(t, err)
		if len(plan.Splits) < 2 || f.Input(plan.ID) != shellHost+"/loaded/_etl/plans/"+plan.ID+"/splits" {
			t.Fatalf("%+v, %s", plan, f.Input(plan.ID))
		}
		mapAll(t, f, plan, root)
		m, err := f.Commit(testContext(t), plan.ID)
		must(t, err)
		if m.Run != int64(round+1) || m.Messages != 40 {
			t.Errorf("%+v", m)
		}
		if _, err := f.Commit(testContext(t), plan.ID); err != nil {
			t.Errorf("committed again: %v", err)
		}
		dir := t.TempDir()
		must(t, copyOut(filepath.Join(root, "loaded"), dir))
		readOutput(t, vfs.OS(), dir).holdsEach(t, c.sent)
	}
	if plan, err := f.Plan(testContext(t), c.config("clicks").PlanConfig); err != nil || !plan.Empty() {
		t.Errorf("with nothing to load: %+v, %v", plan, err)
	}
	if _, err := f.Run(testContext(t), c.config("clicks")); err == nil {
		t.Error("run loads into HDFS")
	}
	cfg := c.config("a b").PlanConfig
	if _, err := f.Plan(testContext(t), cfg); err == nil {
		t.Error("a topic is planned whose name the shell does not take")
	}
}

// A commit whose process dies behind any of the shell's commands is done again by the
// next one.
func TestHDFSCommitDies(t *testing.T) {
	root := useShell(t)
	c := startCluster(t, 1)
	f, err := OpenFolder(shellHost + "/loaded")
	must(t, err)
	self := f.store.(*hdfs).argv
	for n := 0; ; n++ {
		c.publish(0, "clicks", 0, 10, noon, message.CodecNone)
		plan, err := f.Plan(testContext(t), c.config("clicks").PlanConfig)
		must(t, err)
		mapAll(t, f, plan, root)
		// Commands that change something are let through n times, and then none is.
		left := filepath.Join(t.TempDir(), "left")
		must(t, os.WriteFile(left, make([]byte, n), 0o644))
		script := filepath.Join(t.TempDir(), "shell")
		must(t, os.WriteFile(script, []byte(`#!/bin/sh
case "$1" in
-put|-mv|-mkdir|-rm)
	n=$(wc -c < "`+left+`")
	[ "$n" -gt 0 ] || { echo "the process is dead" >&2; exit 1; }
	truncate -s $((n - 1)) "`+left+`" ;;
esac
exec "`+self[0]+`" "$@"
`), 0o755))
		dying, err := OpenFolder(shellHost + "/loaded")
		must(t, err)
		dying.store.(*hdfs).argv = []string{script}
		_, died := dying.Commit(testContext(t), plan.ID)
		again, err := OpenFolder(shellHost + "/loaded")
		must(t, err)
		m, err := again.Commit(testContext(t), plan.ID)
		must(t, err)
		if m.Messages != 10 {
			t.Errorf("after %d commands: %+v", n, m)
		}
		dir := t.TempDir()
		must(t, copyOut(filepath.Join(root, "loaded"), dir))
		readOutput(t, vfs.OS(), dir).holdsEach(t, c.sent)
		if t.Failed() {
			t.Fatalf("after %d commands: %v", n, died)
		}
		if died == nil {
			if n < 4 {
				t.Errorf("a commit has %d commands only", n)
			}
			return
		}
	}
}

// What the shell says when it fails is told, and when it is not there at all.
func TestHDFSFails(t *testing.T) {
	t.Setenv(HDFSCommandVariable, "/no/such/program dfs")
	f, err := OpenFolder("hdfs://nn:8020/loaded")
	must(t, err)
	_, _, err = f.Offsets(testContext(t))
	if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without a shell: %v", err)
	}
	contains(t, err.Error(), "/no/such/program dfs -ls hdfs://nn:8020/loaded/_etl/runs")
	for _, out := range []string{"", "hdfs://nn", "hdfs://nn/", "s3://bucket/x", "hdfs://nn/x?y=z"} {
		if _, err := OpenFolder(out); err == nil {
			t.Errorf("output folder %q is taken", out)
		}
	}
}

// Two commits that have both looked and found the number of their run free: the rename
// of one wins, the other one learns of it, and changes nothing.
func TestTwoCommitsAtOnce(t *testing.T) {
	useShell(t)
	onHDFS, err := OpenFolder(shellHost + "/loaded")
	must(t, err)
	for name, f := range map[string]*Folder{"hdfs": onHDFS, "local": testFolder(vfs.OS(), t.TempDir())} {
		ctx := testContext(t)
		manifests := [2]*Manifest{}
		for i := range manifests {
			id := newPlanID(1, noon, false)
			m := &Manifest{Run: 1, Plan: id, Files: []Published{}}
			manifests[i] = m
			err := f.publish(ctx, planOutput(id), m, []Offset{{Partition{Topic: "clicks"}, int64(10 + i)}})
			if i == 0 {
				must(t, err)
			} else if !errors.Is(err, ErrOvertaken) {
				t.Errorf("%s: the second one: %v", name, err)
			}
		}
		m, err := f.manifest(ctx, 1)
		must(t, err)
		run, offsets, err := f.Offsets(ctx)
		if m.Plan != manifests[0].Plan || run != 1 || len(offsets) != 1 || offsets[0].Next != 10 || err != nil {
			t.Errorf("%s: plan %s, run %d, offsets %v, %v", name, m.Plan, run, offsets, err)
		}
	}
}
