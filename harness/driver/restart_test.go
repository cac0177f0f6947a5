package driver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program comes back after a clean end and after a kill, as a process of its
// own at the same address, and neither end is a death.
func TestProgramRestarts(t *testing.T) {
	h := localHost(t)
	dir := t.TempDir()
	// It writes down how it ended.
	p, err := StartProgram(t.Context(), h, script(dir, `trap 'echo clean >> `+dir+`/ends; exit 0' TERM; echo at here:1; while :; do sleep 0.02; done`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var restarter Restarter = p
	if err := restarter.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("Restart of a program that runs: %v", err)
	}
	pids := map[int]bool{p.Processes()[0].PID(): true}
	for i, end := range []func(context.Context) error{restarter.Shut, restarter.Kill} {
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Processes()[0].Done():
		default:
			t.Fatal("it has not ended")
		}
		if err := restarter.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		pids[p.Processes()[0].PID()] = true
		if got := p.Target().Addr; got != "here:1" {
			t.Errorf("after restart %d it is at %q", i+1, got)
		}
	}
	select {
	case <-p.Died():
		t.Error("Died is closed, although the testbed ended it")
	default:
	}
	if len(pids) != 3 {
		t.Errorf("processes %v, three are wanted", pids)
	}
	if ends, err := os.ReadFile(filepath.Join(dir, "ends")); err != nil || string(ends) != "clean\n" {
		t.Errorf("clean ends: %q, %v; one is wanted, as a kill is none", ends, err)
	}
	if err := p.Processes()[0].Signal(t.Context(), os.Kill); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Died():
	case <-time.After(10 * time.Second):
		t.Error("it ended by itself, and Died is open")
	}
}

// A program that comes back somewhere else is of no use to its clients.
func TestProgramRestartsElsewhere(t *testing.T) {
	h := localHost(t)
	dir := t.TempDir()
	p, err := StartProgram(t.Context(), h, script(dir, `echo at $$; exec sleep 60`))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "and does now at") {
		t.Errorf("Restart: %v", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(p.Logs()[0]); err != nil || strings.Count(string(log), "at ") < 2 || !strings.Contains(string(log), "--- the testbed starts it again") {
		t.Errorf("log %q, %v", log, err)
	}
}
