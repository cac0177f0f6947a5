package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafkalab/harness/env"
	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/raid"
	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// raidTestbed writes a testbed file of two emulated hosts whose RAID 10 is
// removed when the test ends.
func raidTestbed(t *testing.T) (file string, tb scenario.Testbed, array raid.Config) {
	t.Helper()
	hosttest.RAIDConfig(t) // skips where the kernel cannot do it
	file, _ = namespaceTestbed(t, "none")
	tb, err := scenario.LoadTestbed(file)
	if err != nil {
		t.Fatal(err)
	}
	array = raidOf(tb)
	hosttest.GuardRAID(t, array)
	return file, tb, array
}

// What a user types and sees of the RAID 10: made, used, recorded, gone on
// with, removed.
func TestRAID10(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	file, tb, array := raidTestbed(t)
	path, out := nullScenario(t, "ceiling"), t.TempDir()
	early := callTestbed(t, bin, "run", "--testbed", file, "--scenario", path, "--out", out, "--raid10")
	if early.status != 1 || !strings.Contains(early.err, "up --testbed "+file+" --raid10") {
		t.Errorf("before up: %+v", early)
	}
	up := callTestbed(t, bin, "up", "--testbed", file, "--raid10", "--disk-size", "512MiB")
	if up.status != 0 || !strings.Contains(up.err, "mkfs.btrfs") {
		t.Fatalf("up: %+v", up)
	}
	doctor := callTestbed(t, bin, "doctor", "--json", "--raid10", "--testbed", file, "--messages", "1000")
	var findings []env.Finding
	if err := json.Unmarshal([]byte(doctor.out), &findings); err != nil || !strings.Contains(doctor.out, "btrfs raid10 of 6 files") {
		t.Errorf("doctor: %+v, %v", doctor, err)
	}
	run := callTestbed(t, bin, "run", "--testbed", file, "--scenario", path, "--out", out, "--raid10", "--repeat", "1")
	if run.status != 0 {
		t.Fatalf("run: %+v", run)
	}
	r := theRun(t, out)
	if b := r.Run.Testbed.BrokerHost; !r.Run.Testbed.RAID10 || b.Fact("RAID") != "btrfs raid10 of 6 files" ||
		!strings.HasPrefix(b.Fact("file system"), "btrfs on "+array.Data()) || !strings.HasPrefix(b.Fact("disk"), "6 × file (1 GB, on ") || !strings.Contains(b.Fact("sequential write"), "MB/s") {
		t.Errorf("recorded: %v, %+v", r.Run.Testbed.RAID10, b)
	}
	again := callTestbed(t, bin, "run", "--testbed", file, "--resume", r.Dir, "--repeat", "2")
	if r = theRun(t, out); again.status != 0 || !r.Run.Testbed.RAID10 || len(attempts(r, resultfile.Valid)) != 4 {
		t.Errorf("going on: %+v", again)
	}
	if got := callTestbed(t, bin, "run", "--testbed", file, "--resume", r.Dir, "--repeat", "3", "--raid10=false"); got.status != 1 || !strings.Contains(got.err, "--raid10 false: the run to go on with has true") {
		t.Errorf("going on without it: %+v", got)
	}
	wantDown(t, bin, file, tb, array)
}

func wantDown(t *testing.T, bin, file string, tb scenario.Testbed, array raid.Config) {
	t.Helper()
	down := callTestbed(t, bin, "down", "--testbed", file)
	there, err := raid.Left(array)
	if down.status != 0 || err != nil || there || len(left(t, tb.Link)) != 0 {
		t.Errorf("down: %+v, left %v, %v", down, there, err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), array.Dir) {
		t.Errorf("a mount is left: %v", err)
	}
}

// Ctrl-C leaves nothing of it, and kill -9 leaves nothing after down.
func TestRAID10InterruptedAndKilled(t *testing.T) {
	bin := hosttest.Programs(t, "testbed")
	file, tb, array := raidTestbed(t)
	s := newSite(t, file, bin)
	for _, at := range []string{"disk-6.img\n", "mkfs.btrfs", "mount -t btrfs", "TCP goodput"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			r := startTestbed(t, s, "up", "--testbed", file, "--raid10", "--disk-size", "256MiB", "--look-time", "3s")
			if at == "TCP goodput" {
				s.waitUntil(r, "it measures", func() bool { return measuring(t, tb.Link) })
			} else {
				r.waitFor(at)
			}
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			select {
			case <-r.ended:
			case <-time.After(patience):
				t.Fatalf("%v at %q: up does not end:\n%s", sig, at, r.err)
			}
			if there, err := raid.Left(array); sig == syscall.SIGINT && (there || err != nil || len(left(t, tb.Link)) != 0) {
				t.Errorf("Ctrl-C at %q left something: %v\n%s", at, err, r.err)
			}
			wantDown(t, bin, file, tb, array)
		}
	}
}

// A run that is killed with its data on the RAID 10 leaves nothing in the way
// of down.
func TestRAID10DownAfterAKilledRun(t *testing.T) {
	bin := hosttest.Programs(t, "testbed", "kafka")
	file, tb, array := raidTestbed(t)
	if up := callTestbed(t, bin, "up", "--testbed", file, "--raid10", "--disk-size", "1GiB"); up.status != 0 {
		t.Fatalf("up: %+v", up)
	}
	tb.BrokerHost.Dir = array.Data()
	s := newSite(t, file, bin)
	r := startTestbed(t, s, "run", "--testbed", file, "--raid10", "--scenario", "smoke", "--system", "kafka-b50", "--messages", "1000000", "--out", t.TempDir())
	r.waitFor("Kafka, batch 50: measure")
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	wantDown(t, bin, file, tb, array)
}

// A kernel without btrfs is told from anything else, with the ways out, and
// what was made before is removed.
func TestRAID10WithoutKernel(t *testing.T) {
	hosttest.Root(t)
	bin := hosttest.Programs(t, "testbed")
	file, l := namespaceTestbed(t, "none")
	none := filepath.Join(t.TempDir(), "filesystems")
	if err := os.WriteFile(none, []byte("nodev\ttmpfs\n\text4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"this kernel cannot make the RAID 10: it has no btrfs": {"up", "--testbed", file, "--raid10", "--disk-size", "256MiB"},
		"the kernel has no btrfs loaded":                       {"doctor", "--testbed", file, "--messages", "1"},
	} {
		// modprobe would load it behind our back.
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", `mount --bind "$1" /proc/filesystems && shift && exec "$@"`, "sh", none, filepath.Join(bin, "testbed")}, args...)...)
		out, _ := cmd.CombinedOutput() // it fails, or finds more that is missing
		if !strings.Contains(string(out), want) {
			t.Errorf("%v says\n%s", args, out)
		}
		if args[0] == "up" && (!strings.Contains(string(out), "leave out --raid10") || cmd.ProcessState.ExitCode() != 1) {
			t.Errorf("no way out, or status %d:\n%s", cmd.ProcessState.ExitCode(), out)
		}
	}
	if left := left(t, l); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRAID10NeedsEmulatedHosts(t *testing.T) {
	tb := localTestbed(t)
	for _, args := range [][]string{{"up", "--raid10", "--testbed", tb}, {"up", "--disk-size", "1GiB", "--testbed", tb}, {"up", "--raid10", "--disk-size", "1x"}, {"up", "--raid10", "--disk-size", "1MiB"}} {
		var u usageError
		if err := runHere(args); !errors.As(err, &u) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := runHere([]string{"doctor", "--raid10", "--testbed", tb}); err == nil || !strings.Contains(err.Error(), string(host.Local)) {
		t.Errorf("doctor: %v", err)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"6GiB": 6 << 30, "512MiB": 512 << 20, "1KiB": 1024, "77": 77, "2TiB": 2 << 40,
		"": 0, "GiB": 0, "-1": 0, "0": 0, "6GB": 0, "9223372036854775807KiB": 0} {
		got, err := parseSize(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
