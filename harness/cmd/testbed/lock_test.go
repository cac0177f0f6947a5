package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/scenario"
)

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	release, by, err := lockFile(path, "the first")
	if err != nil || by != "" {
		t.Fatal(by, err)
	}
	if again, by, err := lockFile(path, "the second"); err != nil || again != nil || by != "the first" {
		t.Errorf("the second: held by %q, %v", by, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	if release, by, err = lockFile(path, "the third"); err != nil || by != "" {
		t.Fatal(by, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	// Whatever is there under that name, it is not followed.
	link := filepath.Join(t.TempDir(), "link.lock")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lockFile(link, "by a link"); err == nil {
		t.Error("a symbolic link was followed")
	}
}

func TestLockPath(t *testing.T) {
	builtIn, err := scenario.LoadTestbed("")
	if err != nil {
		t.Fatal(err)
	}
	other := builtIn
	other.Link.Broker.Namespace = "another"
	local := scenario.Testbed{Kind: host.Local, BrokerHost: host.Config{Dir: "/" + strings.Repeat("long/", 100)}}
	plain := scenario.Testbed{Kind: host.Local}
	ssh := scenario.Testbed{Kind: host.SSH, BrokerHost: host.Config{Addr: "192.168.7.2"}}
	seen := map[string]bool{}
	for _, tb := range []scenario.Testbed{builtIn, other, local, plain, ssh} {
		p := lockPath(tb)
		if seen[p] || filepath.Dir(p) != lockFolder || len(filepath.Base(p)) > 255 {
			t.Errorf("path %q", p)
		}
		seen[p] = true
	}
	builtIn.Link.RateMbps = 7
	if !seen[lockPath(builtIn)] {
		t.Error("another rate is another testbed")
	}
}

// A holder that is killed holds nothing.
func TestKilledHolderLocksNothing(t *testing.T) {
	bin, path := hosttest.Programs(t, "testbed"), filepath.Join(t.TempDir(), "a.lock")
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "testbed"), "lock", "--file", path, "--holder", "process 7")
	said, kill := hosttest.Victim(t, cmd)
	line, err := said.ReadString('\n')
	var answer lockAnswer
	if err != nil || json.Unmarshal([]byte(line), &answer) != nil || answer.HeldBy != "" {
		t.Fatalf("%q, %v", line, err)
	}
	if release, by, err := lockFile(path, "me"); err != nil || release != nil || by != "process 7" {
		t.Errorf("held by %q, %v", by, err)
	}
	kill()
	release, by, err := lockFile(path, "me")
	if err != nil || release == nil {
		t.Fatalf("held by %q, %v", by, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// While a run goes on, a second one, up and down are refused with what the
// first one is.
func TestSecondRunIsRefused(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	file, _ := namespaceTestbed(t, "none")
	tb, err := scenario.LoadTestbed(file)
	if err != nil {
		t.Fatal(err)
	}
	release, by, err := lockFile(lockPath(tb), "process 4711 on here: testbed run --scenario acks")
	if err != nil || release == nil {
		t.Fatal(by, err)
	}
	calls := [][]string{{"run", "--testbed", file, "--scenario", "smoke", "--out", t.TempDir()}, {"up", "--testbed", file}, {"down", "--testbed", file}}
	for _, args := range calls {
		if got := callTestbed(t, bin, args...); got.status != 1 || !strings.Contains(got.err, "process 4711 on here: testbed run --scenario acks") {
			t.Errorf("%s: %+v", args[0], got)
		}
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if got := callTestbed(t, bin, "down", "--testbed", file); got.status != 0 {
		t.Errorf("down: %+v", got)
	}
}

// The lock of two machines is on the broker host, and goes with whoever held
// it, also when that is killed without warning.
func TestSecondRunOverSSHIsRefused(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	site := hosttest.SSH(t, bin)
	tb, err := scenario.LoadTestbed(site.File)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, site.File, bin)
	s.testbed.Link = site.Link
	first := startTestbed(t, s, "up", "--testbed", site.File, "--look-time", "3s")
	waitUntil(t, "the first holds the lock", func() bool {
		text, err := os.ReadFile(lockPath(tb))
		return err == nil && strings.Contains(string(text), "testbed up")
	})
	// It stands still, so that it holds the lock for as long as the second one takes.
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := callTestbed(t, bin, "up", "--testbed", site.File)
	if second.status != 1 || !strings.Contains(second.err, "testbed up --testbed") || !strings.Contains(second.err, "in use") {
		t.Errorf("%+v", second)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	waitUntil(t, "nothing is locked", func() bool {
		release, by, err := lockFile(lockPath(tb), "looked at")
		if err != nil {
			t.Fatal(by, err)
		}
		if release == nil {
			return false
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		return true
	})
}

func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}
