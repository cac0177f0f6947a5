package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/results/resultfile"
)

// shifted answers as a host whose clock is ahead by that much, and whose
// answers take their time, but for one.
func shifted(ahead time.Duration) (questions io.Writer, answers *bufio.Reader, end func()) {
	in, asks := io.Pipe()
	got, out := io.Pipe()
	go func() {
		for n, lines := 0, bufio.NewScanner(in); lines.Scan(); n++ {
			wait := 20 * time.Millisecond
			if n == 3 {
				wait = 0
			}
			now := time.Now()
			time.Sleep(wait)
			fmt.Fprintln(out, now.Add(ahead).UnixNano())
		}
		out.Close()
	}()
	return asks, bufio.NewReaderSize(got, maxClockLine), func() { asks.Close() }
}

func TestTheShortestWayTellsTheClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			questions, answers, end := shifted(ahead)
			got, err := exchange(questions, answers, 0)
			end()
			if want := (reading{ahead: ahead}); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v, without the half of a way of 20 ms", got, err, want)
			}
		})
	}
}

func TestTheClockAnswers(t *testing.T) {
	in, questions := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- AnswerClock(in, out) }()
	got, err := exchange(questions, bufio.NewReaderSize(answers, maxClockLine), time.Millisecond)
	if err != nil || got.ahead.Abs() > got.off {
		t.Errorf("this machine's clock against itself: %+v, %v", got, err)
	}
	questions.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestADeafHelperIsAnError(t *testing.T) {
	for _, text := range []string{"", "what\n", strings.Repeat("9", 100)} {
		if got, err := exchange(io.Discard, bufio.NewReaderSize(strings.NewReader(text), maxClockLine), time.Hour); err == nil {
			t.Errorf("%q was taken for a time: %+v", text, got)
		}
	}
}

func TestDifferenceOfClocks(t *testing.T) {
	got := difference(reading{ahead: 2 * time.Second, off: time.Millisecond}, reading{ahead: -time.Second, off: 3 * time.Millisecond})
	want := resultfile.Clock{OffsetSeconds: -3, ErrorSeconds: 0.004}
	if math.Abs(got.OffsetSeconds-want.OffsetSeconds) > 1e-12 || math.Abs(got.ErrorSeconds-want.ErrorSeconds) > 1e-12 || got.Same {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A host whose "testbed clock" is another program with the same answers.
func clockHost(t *testing.T, script string) host.Host {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(bin+"/testbed", []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return hosttest.Local(t, bin)
}

func TestAHostIsAskedForItsTime(t *testing.T) {
	h := clockHost(t, "while read x; do date +%s%N; done\n")
	got, err := askClock(t.Context(), h, 50*time.Millisecond)
	if err != nil || got.ahead.Abs() > got.off || got.off <= 0 {
		t.Errorf("this machine's clock against itself: %+v, %v", got, err)
	}
	clock, err := Clocks(t.Context(), h, h, time.Second)
	if err != nil || clock != (resultfile.Clock{Same: true}) {
		t.Errorf("one machine: %+v, %v; want one clock", clock, err)
	}
	if _, err := askClock(t.Context(), clockHost(t, "echo no clock here >&2; exit 1\n"), time.Second); err == nil || !strings.Contains(err.Error(), "no clock here") {
		t.Errorf("a host without a clock: %v, want what it said", err)
	}
}

// elsewhere is a host that says it is another machine.
type elsewhere struct{ host.Host }

func (e elsewhere) Run(ctx context.Context, args ...string) ([]byte, error) {
	if slices.Equal(args, []string{"cat", bootID}) {
		return []byte("another one\n"), nil
	}
	return e.Host.Run(ctx, args...)
}

func TestClocksOfTwoMachines(t *testing.T) {
	client := clockHost(t, "while read x; do date +%s%N; done\n")
	broker := elsewhere{clockHost(t, "while read x; do echo $(($(date +%s%N) - 3600000000000)); done\n")}
	got, err := Clocks(t.Context(), client, broker, 100*time.Millisecond)
	if err != nil || got.Same {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.ErrorSeconds <= 0 || math.Abs(got.OffsetSeconds+3600) > got.ErrorSeconds {
		t.Errorf("a broker's clock that is an hour behind: %+v", got)
	}
}
