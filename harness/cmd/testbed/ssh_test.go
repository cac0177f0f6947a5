package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
)

// countSSH puts a program before ssh on the PATH that notes each call, and
// returns how many there were.
func countSSH(t *testing.T) func() int {
	t.Helper()
	real, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho call >> '%s'\nexec '%s' \"$@\"\n", calls, real)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() int {
		text, err := os.ReadFile(calls)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
}

// mostCalls is how many calls of ssh may come before the first attempt: each
// takes a tenth of a second on a good network, and much more on a busy host.
const mostCalls = 30

// A run over ssh starts without asking the hosts the same thing for every
// system.
func TestSSHStartsWithFewCalls(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	tb := hosttest.SSH(t, bin)
	s := newSite(t, tb.File, bin)
	s.testbed.Link = tb.Link
	calls := countSSH(t)
	start := time.Now()
	r := startTestbed(t, s, "run", "--testbed", tb.File, "--scenario", "smoke", "--out", t.TempDir())
	r.waitFor("[1/")
	t.Logf("%d calls of ssh and %v before the first attempt", calls(), time.Since(start).Round(time.Millisecond))
	if n := calls(); n > mostCalls {
		t.Errorf("%d calls of ssh before the first attempt, %d at most are wanted", n, mostCalls)
	}
	r.interrupt()
}
