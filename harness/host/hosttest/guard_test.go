package hosttest_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host/hosttest"
)

// killedTest says to this test program that it is the one to be killed.
const killedTest = "KAFKALAB_KILLED_TEST"

// A test that is killed leaves no namespace, nor what ran in it.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv(killedTest) != "" {
		beKilled(t)
		return
	}
	hosttest.Root(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTestLeavesNothing$")
	cmd.Env = append(os.Environ(), killedTest+"=1")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the test ended by itself: %v\n%s", err, out)
	}
	namespace := strings.TrimSpace(string(out))
	if !strings.HasPrefix(namespace, "kltest-") {
		t.Fatalf("it said %q", out)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat("/run/netns/" + namespace); errors.Is(err, fs.ErrNotExist) {
			return
		} else if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s is still there: %v", namespace, err)
		}
	}
}

// beKilled makes a link, runs a program in it, and dies as by SIGKILL.
func beKilled(t *testing.T) {
	c := hosttest.Link(t)
	sleeper := exec.Command("ip", "netns", "exec", c.Broker.Namespace, "sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString(c.Broker.Namespace + "\n"); err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	t.Fatal(err)
}
