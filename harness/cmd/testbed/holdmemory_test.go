package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/measure"
	"kafkalab/harness/runner"
	"kafkalab/results/resultfile"
)

// It says what it holds, and gives it up with its input.
func TestHoldMemoryEndsWithItsInput(t *testing.T) {
	in, endInput := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := runHoldMemory(t.Context(), []string{"--most", "16777216"}, stdio{In: in, Out: out, Err: io.Discard})
		out.Close()
		ended <- err
	}()
	var got heldMemory
	lines := bufio.NewReader(read)
	line, err := lines.ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &got) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if got.Needed != measure.TakesMemoryBack() || got.Bytes < 0 || got.Bytes > 16777216 || !got.Needed && got.Bytes > 0 {
		t.Errorf("%+v", got)
	}
	if got.Needed && got.WhyNot == "" {
		if _, err := io.WriteString(endInput, touchAsk); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil || json.Unmarshal([]byte(line), &got) != nil || got.Seconds <= 0 {
			t.Errorf("%q, %v", line, err)
		}
	}
	endInput.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := runHoldMemory(t.Context(), []string{"--most", "-1"}, stdio{In: in, Out: io.Discard, Err: io.Discard}); err == nil || !strings.Contains(err.Error(), "--most -1") {
		t.Errorf("%v", err)
	}
}

// memoryHost is this machine, on which "testbed hold-memory" is a script.
type memoryHost struct {
	host.Host
	script  string
	process host.Process
	started func()
}

func (h *memoryHost) Binary(context.Context, string) (string, error) { return h.script, nil }

func (h *memoryHost) Start(ctx context.Context, c host.Command) (p host.Process, err error) {
	p, err = h.Host.Start(ctx, c)
	h.process = p
	h.started()
	return p, err
}

// hosting starts to hold the memory of a host on which script is the program.
func hosting(ctx context.Context, t *testing.T, script string, std stdio, started func()) (*memoryHost, *memoryHold, error) {
	t.Helper()
	path := t.TempDir() + "/testbed"
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := &memoryHost{Host: hosttest.Open(t, host.Config{Kind: host.Local, Name: "broker", Dir: t.TempDir()}), script: path, started: started}
	memory, err := holdMemory(ctx, h, std)
	return h, memory, err
}

// A run learns whether its memory was held to the end.
func TestMemoryIsHeldToTheEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		bytes        int64
		touched      int64  // of a touching; 0: it is not asked for
		fails, ends  string // what the error at the beginning, and at the end, has in it
		says         string // and what is said at the beginning
	}{
		{"held", `echo '{"bytes":4096,"needed":true}'; read a; echo '{"bytes":4096,"touched_bytes":7,"seconds":1,"needed":true}'; cat`, 4096, 7, "", "", "4KiB of free memory held"},
		{"no need", `echo '{"bytes":0,"needed":false}'`, 0, 0, "", "", ""},
		{"cannot be", `echo '{"bytes":0,"needed":true,"why_not":"too small a group"}'`, 0, 0, "", "", "not held, so that rates may spread: too small a group"},
		{"ended by itself", `echo '{"bytes":4096,"needed":true}'; echo out of memory >&2; exit 9`, 4096, 0, "", "not held to the end, so that rates may spread: testbed hold-memory", ""},
		{"does not begin", `echo no right >&2; exit 1`, 0, 0, "no right", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said strings.Builder
			h, memory, err := hosting(t.Context(), t, c.script, stdio{Err: &said}, func() {})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || memory.bytes != c.bytes {
				t.Fatalf("%+v, %v", memory, err)
			}
			if !strings.Contains(said.String(), c.says) {
				t.Errorf("said %q", &said)
			}
			if c.touched > 0 {
				if got, err := memory.touch(t.Context()); err != nil || got.TouchedBytes != c.touched {
					t.Errorf("%+v, %v", got, err)
				}
			}
			if c.ends != "" {
				<-h.process.Done()
			}
			if err := memory.giveUp(t.Context()); (err == nil) != (c.ends == "") || err != nil && !strings.Contains(err.Error(), c.ends) {
				t.Errorf("at the end: %v", err)
			}
			if err := h.process.Wait(t.Context()); c.ends == "" && err != nil && !strings.Contains(err.Error(), "signal") {
				t.Errorf("how it ended: %v", err)
			}
		})
	}
}

// A run whose memory is no longer held says so once, and goes on.
func TestLostMemoryIsToldOnce(t *testing.T) {
	std := stdio{Out: io.Discard, Err: io.Discard}
	_, memory, err := hosting(t.Context(), t, `echo '{"bytes":4096,"needed":true}'; read a; echo out of memory >&2; exit 9`, std, func() {})
	if err != nil {
		t.Fatal(err)
	}
	const lost = "not held to the end, so that rates may spread: testbed hold-memory"
	if err := memory.hold(t.Context()); err == nil || !strings.Contains(err.Error(), lost) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("%v", err)
	}
	if err := memory.hold(t.Context()); err != nil {
		t.Errorf("once more: %v", err)
	}
	if got, err := memory.touch(t.Context()); err != nil || got != (measure.Held{}) {
		t.Errorf("touching: %+v, %v", got, err)
	}
	// And its result does not say that it was held.
	results, err := resultfile.Create(t.TempDir()+"/run", resultfile.Run{Started: time.Now(), Commit: "test", Messages: 1, Repeat: 1, Testbed: resultfile.Testbed{HeldMemoryBytes: 4096}})
	if err != nil {
		t.Fatal(err)
	}
	if err := newRunFlags(std).measure(t.Context(), runner.Plan{Results: results}, memory, std); err == nil || !strings.Contains(err.Error(), lost) {
		t.Errorf("at the end: %v", err)
	}
	if bed := results.Run().Testbed; bed.HeldMemoryBytes != 0 || !bed.HeldInPart {
		t.Errorf("%d bytes are held by the result, in part: %t", bed.HeldMemoryBytes, bed.HeldInPart)
	}
	if err := results.Close(); err != nil {
		t.Error(err)
	}
}

// Where as much cannot be mapped as the machine has, it says so.
func TestHoldMemoryWithoutRoomToMap(t *testing.T) {
	const room = 3_000_000 << 10
	program := filepath.Join(hosttest.Programs(t, "testbed"), "testbed")
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -v 3000000 && exec "$0" hold-memory </dev/null`, program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all unix.Sysinfo_t
	if err := unix.Sysinfo(&all); err != nil {
		t.Fatal(err)
	}
	if !measure.TakesMemoryBack() || int64(all.Totalram)*int64(all.Unit) < room {
		return // it has no need, or room
	}
	var got heldMemory
	if err := json.Unmarshal(out, &got); err != nil || got.WhyNot == "" || got.Bytes != 0 {
		t.Errorf("%q, %v", out, err)
	}
}

// A machine whose memory takes too long is measured without.
func TestTakingMemoryIsBounded(t *testing.T) {
	was := holdMemoryLimit
	defer func() { holdMemoryLimit = was }()
	holdMemoryLimit = time.Millisecond
	var said strings.Builder
	h, memory, err := hosting(t.Context(), t, `exec cat`, stdio{Err: &said}, func() {})
	if err != nil || memory.bytes != 0 || !strings.Contains(said.String(), "is not held, so that rates may spread: it could not be taken within 1ms") {
		t.Fatalf("%+v, %v, said %q", memory, err, &said)
	}
	<-h.process.Done()
	if err := memory.giveUp(t.Context()); err != nil {
		t.Error(err)
	}
}

// An interrupt ends the taking, and the process.
func TestTakingMemoryIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	h, _, err := hosting(ctx, t, `exec cat`, stdio{Err: io.Discard}, interrupt)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
	<-h.process.Done()
}
