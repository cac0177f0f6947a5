package host_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
)

// A host whose cable is cut hears nothing of it, and is cleaned up all the
// same; the testbed can let go of it in bounded time.
func TestCutCableLeavesNothing(t *testing.T) {
	was := host.SetGuardSilence(3 * time.Second)
	defer host.SetGuardSilence(was)
	tb := hosttest.SSH(t, "")
	h, err := host.Open(t.Context(), tb.Broker)
	if err != nil {
		t.Fatal(err)
	}
	_, pids := startFamily(t, t.Context(), h, family)
	if out, err := exec.Command("ip", "-netns", tb.Link.Broker.Namespace, "link", "set", "dev", "manage", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
	waitNoFile(t, filepath.Dir(h.Dir()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := h.Close(ctx); err == nil {
		t.Error("a host that cannot be reached was closed without an error")
	}
}

// A host that is only slow to be spoken to, or that nothing runs on for a
// while, is not taken for lost.
func TestQuietHostIsKept(t *testing.T) {
	was := host.SetGuardSilence(1500 * time.Millisecond)
	defer host.SetGuardSilence(was)
	tb := hosttest.SSH(t, "")
	h := hosttest.Open(t, tb.Broker)
	// Longer than a guard without a word would last, on the host's own clock.
	if _, err := h.Run(t.Context(), "sleep", "5"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), "true"); err != nil {
		t.Errorf("the host was given up: %v", err)
	}
}
