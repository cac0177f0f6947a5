package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/harness/measure"
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
	if got.Needed {
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
}

func (h *memoryHost) Binary(context.Context, string) (string, error) { return h.script, nil }

func (h *memoryHost) Start(ctx context.Context, c host.Command) (p host.Process, err error) {
	p, err = h.Host.Start(ctx, c)
	h.process = p
	return p, err
}

// A run learns whether its memory was held to the end.
func TestMemoryIsHeldToTheEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		bytes        int64
		touched      int64  // of a touching; 0: it is not asked for
		fails, ends  string // what the error at the beginning, and at the end, has in it
	}{
		{"held", `echo '{"bytes":4096,"needed":true}'; read a; echo '{"bytes":4096,"touched_bytes":7,"seconds":1,"needed":true}'; cat`, 4096, 7, "", ""},
		{"no need", `echo '{"bytes":0,"needed":false}'`, 0, 0, "", ""},
		{"ended by itself", `echo '{"bytes":4096,"needed":true}'; echo out of memory >&2; exit 9`, 4096, 0, "", "not held to the end, so that rates may spread: testbed hold-memory"},
		{"does not begin", `echo no right >&2; exit 1`, 0, 0, "no right", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := t.TempDir() + "/testbed"
			if err := os.WriteFile(script, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			h := &memoryHost{Host: hosttest.Open(t, host.Config{Kind: host.Local, Name: "broker", Dir: t.TempDir()}), script: script}
			memory, err := holdMemory(t.Context(), h, stdio{Err: io.Discard})
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || memory.bytes != c.bytes {
				t.Fatalf("%+v, %v", memory, err)
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
