package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
)

// script is a shell script as a program that says its address with "at ".
func script(dir, text string) ProgramConfig {
	return ProgramConfig{
		Command:  host.Command{Name: "script", Args: []string{"sh", "-c", text}},
		Ready:    func(line string) (string, bool) { return strings.CutPrefix(line, "at ") },
		StoreDir: dir, LogFile: filepath.Join(dir, "script.log"), Grace: 5 * time.Second,
	}
}

func TestProgramIsReadyWhenItSaysSo(t *testing.T) {
	h := localHost(t)
	dir := t.TempDir()
	p, err := StartProgram(t.Context(), h, script(dir, "echo hello >&2; printf 'at '; echo 10.0.0.1:99; exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Target().Addr; got != "10.0.0.1:99" {
		t.Errorf("address %q", got)
	}
	if len(p.Processes()) != 1 || p.StoreDir() != dir {
		t.Errorf("processes %v, store %s", p.Processes(), p.StoreDir())
	}
	// The log is there at once. The pipes may have delivered the other stream's
	// line later.
	if log, err := os.ReadFile(p.Logs()[0]); err != nil || !strings.Contains(string(log), "at 10.0.0.1:99\n") {
		t.Errorf("log while it runs: %q, %v", log, err)
	}
	for range 2 {
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Died():
		t.Error("Died is closed after Stop")
	default:
	}
	log, err := os.ReadFile(p.Logs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := string(log); !strings.Contains(got, "hello\n") || !strings.Contains(got, "at 10.0.0.1:99\n") {
		t.Errorf("log %q lacks lines", got)
	}
}

func TestProgramThatDiesIsNoticed(t *testing.T) {
	dir := t.TempDir()
	p, err := StartProgram(t.Context(), localHost(t), script(dir, "echo at x:1; while [ ! -e "+dir+"/die ]; do sleep 0.01; done; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/die", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Died():
	case <-time.After(10 * time.Second):
		t.Fatal("Died was never closed")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop of a dead program = %v", err)
	}
}

func TestProgramThatIsNeverReady(t *testing.T) {
	h := localHost(t)
	_, err := StartProgram(t.Context(), h, script(t.TempDir(), "echo port 9092 is in use >&2; exit 1"))
	if err == nil || !strings.Contains(err.Error(), "port 9092 is in use") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("a program that ends: %v, want its last words and status", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg := script(t.TempDir(), "echo still looking; echo its disk; exec sleep 60")
	cfg.Ready = func(line string) (string, bool) {
		if line == "its disk" {
			cancel(errors.New("the time is up"))
		}
		return "", false
	}
	_, err = StartProgram(ctx, h, cfg)
	if err == nil || !strings.Contains(err.Error(), "still looking") || !strings.Contains(err.Error(), "the time is up") {
		t.Errorf("a program that is not ready in time: %v", err)
	}
}

func TestProgramOutputIsBounded(t *testing.T) {
	o := &programOutput{}
	s := o.stream()
	for i := range 60_000 {
		fmt.Fprintf(s, "line %6d with as much again as fills it up to sixty-four ones\n", i)
	}
	if _, err := s.Write(make([]byte, 3*keepLineBytes)); err != nil { // a line without an end
		t.Fatal(err)
	}
	if n := len(o.text()); n > 2*keepOutputBytes || n < keepOutputBytes {
		t.Errorf("%d bytes are kept", n)
	}
}
