package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// countSSH puts a program before ssh on the PATH that notes each call, and
// returns how many there were before the first one that named a file, which is
// waited for.
func countSSH(t *testing.T) func(file string) int {
	t.Helper()
	real, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	// One line a call, written at once: calls may come together.
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$(printf '%%s ' \"$@\" | tr '\\n' ' ')\" >> '%s'\nexec '%s' \"$@\"\n", calls, real)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func(file string) int {
		for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			text, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if before, _, found := bytes.Cut(text, []byte(file)); found {
				return bytes.Count(before, []byte("\n"))
			}
		}
		t.Fatalf("no call of ssh named %s within a minute", file)
		return 0
	}
}

// mostCalls is how many calls of ssh may come before the first attempt: each
// takes a tenth of a second on a good network, and much more on a busy host. It
// was 30 before the run looked at the hosts' clocks, at its own rate, and at what
// brokers can be held to.
const mostCalls = 36

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
	// An attempt begins with a look at how busy the hosts are, again and again.
	n := calls("/proc/stat")
	t.Logf("%d calls of ssh and %v before the first attempt", n, time.Since(start).Round(time.Millisecond))
	if n > mostCalls {
		t.Errorf("%d calls of ssh before the first attempt, %d at most are wanted", n, mostCalls)
	}
	r.interrupt()
}

// The connection to the broker host is lost in the middle of an attempt: the
// broker ends, nothing is left on either host, the attempt is on record, and
// the run can be gone on with.
func TestSSHConnectionLostInAnAttempt(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	tb := hosttest.SSH(t, bin)
	s := newSite(t, tb.File, bin)
	s.testbed.Link = tb.Link
	before, out := s.traces(), t.TempDir()
	r := startTestbed(t, s, "run", "--testbed", tb.File, "--scenario", "fig4-producer", "--system", "kafka-b50", "--messages", "3000000", "--repeat", "1", "--cap", "none", "--out", out)
	r.waitFor("Kafka, batch 50: measure")
	s.waitForProcess(r, "kafka broker")
	if err := syscall.Kill(masterSSH(t, s, tb.Broker.SSH.Target), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.waitUntil(r, "the broker has ended", func() bool {
		for _, p := range s.processes(s.testbed.BrokerHost.Dir) {
			if strings.Contains(p, "kafka broker") {
				return false
			}
		}
		return true
	})
	got := r.wantStatus(2*time.Minute, 1)
	s.wantOnly(before)
	run := theRun(t, out)
	if len(run.Run.Attempts) != 1 || run.Run.Attempts[0].Outcome != resultfile.Failed || run.Run.Attempts[0].Reason == "" {
		t.Errorf("on record: %+v\n%s", run.Run.Attempts, got.err)
	}
	startTestbed(t, s, "run", "--testbed", tb.File, "--resume", run.Dir).wantStatus(3*time.Minute, 0)
	s.wantOnly(before)
	if kept := theRun(t, out).Run.Attempts; len(kept) != 2 || kept[0].Outcome != resultfile.Failed || kept[1].Outcome != resultfile.Valid {
		t.Errorf("after going on: %+v", kept)
	}
}

// masterSSH is the ssh that holds the connection to a host.
func masterSSH(t *testing.T, s *site, target string) int {
	t.Helper()
	for pid, what := range s.processes(s.testbed.BrokerHost.SSH.ConfigFile) {
		if strings.Contains(what, "ControlMaster=yes") && strings.Contains(what, " "+target+" ") {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no ssh holds the connection")
	return 0
}
