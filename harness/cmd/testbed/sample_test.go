package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"kafkalab/results/resultfile"
)

func TestSampleEndsWithItsInput(t *testing.T) {
	in, endInput := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := runSample(t.Context(), []string{"--interval", "1ms", "--device", "lo"}, stdio{In: in, Out: out, Err: io.Discard})
		out.Close()
		ended <- err
	}()
	samples := 0
	for lines := bufio.NewScanner(read); lines.Scan(); samples++ {
		var s resultfile.Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil || s.MemoryFree <= 0 {
			t.Errorf("line %q: %+v, %v", lines.Text(), s, err)
		}
		if samples == 3 {
			endInput.Close()
		}
	}
	if err := <-ended; err != nil || samples < 4 {
		t.Errorf("%d samples, then %v", samples, err)
	}
}

// As by SIGTERM: the input is still open.
func TestSampleEndsWithItsContext(t *testing.T) {
	in, endInput := io.Pipe()
	defer endInput.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := runSample(ctx, []string{"--interval", "1h"}, stdio{In: in, Out: &out, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("output %q, want the last sample", out.String())
	}
}

func TestRawServerServesUntilItIsStopped(t *testing.T) {
	for _, path := range []string{"tcp", "file", "disk"} {
		ctx, cancel := context.WithCancel(t.Context())
		read, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := runRawServer(ctx, []string{"--path", path, "--dir", t.TempDir()}, stdio{Out: out, Err: io.Discard})
			out.CloseWithError(err)
			ended <- err
		}()
		line, err := bufio.NewReader(read).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "rawserver listens on 127.0.0.1:") {
			t.Errorf("first line %q, %v", line, err)
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the server does not stop")
		}
	}
}

func TestHiddenCommandsRefuse(t *testing.T) {
	for _, tt := range []struct {
		run  func(context.Context, []string, stdio) error
		args string
		want string // in the error
	}{
		{runSample, "--interval 0s", "--interval 0s"},
		{runSample, "now", `"now"`},
		{runSample, "--pids one", "one"},
		{runRawServer, "--path file", "--dir is missing"},
		{runRawServer, "--path pigeon --dir x", "pigeon"},
		{runRawServer, "--color", "--color"},
	} {
		err := tt.run(t.Context(), strings.Fields(tt.args), stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		var usage usageError
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want an error with %q", tt.args, err, tt.want)
		} else if !errors.As(err, &usage) && !strings.Contains(tt.args, "pigeon") {
			t.Errorf("%q: %v is no usage error", tt.args, err)
		}
	}
}
