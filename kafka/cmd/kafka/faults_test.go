package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/client"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
	"kafkalab/kafka/wire"
)

// runTool runs the program as a user would and returns its exit status and what
// it printed.
func runTool(ctx context.Context, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = realMain(ctx, args, stdio{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

// TestB01VerifyShowsWhatWasCut: a record that a crash has torn, at any byte, is
// cut off when the broker starts, and how much that was is shown (fault B01).
func TestB01VerifyShowsWhatWasCut(t *testing.T) {
	whole := message.Append(message.Append(nil, []byte("one")), []byte("two"))
	torn := message.Append(nil, []byte("three"))
	for cut := 1; cut < len(torn); cut++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "t-0", "00000000000000000000.kafka")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(bytes.Clone(whole), torn[:cut]...), 0o644); err != nil {
			t.Fatal(err)
		}
		b := kafkatest.Start(t, func(c *broker.Config) { c.LogDir = dir })
		status, out, errs := runTool(t.Context(), "log", "verify", dir)
		if want := fmt.Sprintf("%d bytes were cut off at offset %d by a recovery", cut, len(whole)); status != 0 || !strings.Contains(out, want) {
			t.Errorf("cut at byte %d: status %d: %s%s", cut, status, out, errs)
		}
		if status, out, errs = runTool(t.Context(), "consume", "--broker-list", b.HostPort(), "--topic", "t", "--exit-at-end"); status != 0 || out != "one\ntwo\n" {
			t.Errorf("cut at byte %d: status %d: %s%s", cut, status, out, errs)
		}
		b.Stop()
	}
}

// TestB10LargerThanAFetch: messages around and far above the fetch size are
// printed and measured, and one that is larger than may be fetched at all is an
// error that says so, not a stall (fault B10).
func TestB10LargerThanAFetch(t *testing.T) {
	b := kafkatest.Start(t, func(c *broker.Config) { c.MaxMessageBytes = 16 << 20 })
	conn, err := client.Dial(t.Context(), b.HostPort(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	append1 := func(topic string, size int) {
		t.Helper()
		set := message.Append(nil, bytes.Repeat([]byte{'x'}, size))
		if _, err := conn.AckedProduce(t.Context(), topic, 0, set, wire.AcksFlushed, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	sizes := []int{1 << 10, 10<<10 - 1, 10 << 10, 1 << 20, 1 << 10}
	want := ""
	for _, size := range sizes {
		append1("t", size)
		want += strings.Repeat("x", size) + "\n"
	}
	status, out, errs := runTool(t.Context(), "consume", "--broker-list", b.HostPort(), "--topic", "t", "--fetch-size", "10KiB", "--exit-at-end")
	if status != 0 || out != want {
		t.Errorf("consume: status %d, %d bytes of %d: %s", status, len(out), len(want), errs)
	}
	status, out, errs = runTool(t.Context(), "perf", "consume", "--broker-list", b.HostPort(), "--topic", "t", "--fetch-size", "10KiB")
	if status != 0 || !strings.HasPrefix(out, "5 messages, ") || !strings.Contains(out, "5 not from perf") {
		t.Errorf("perf consume: status %d: %s%s", status, out, errs)
	}
	append1("large", 10)
	append1("large", 9<<20)
	for _, args := range [][]string{{"consume", "--exit-at-end"}, {"perf", "consume"}} {
		status, _, errs := runTool(t.Context(), append(args, "--broker-list", b.HostPort(), "--topic", "large", "--fetch-size", "10KiB")...)
		if status != 1 || !strings.Contains(errs, "offset 19") || !strings.Contains(errs, fmt.Sprint(9<<20+message.Overhead0)) {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
}

// perf writes a profile of its own time where it is told to, and fails where it
// cannot.
func TestPerfProfile(t *testing.T) {
	b := kafkatest.Start(t)
	file := filepath.Join(t.TempDir(), "profile")
	perf := func(file string) (int, string) {
		status, _, errs := runTool(t.Context(), "perf", "produce", "--broker-list", b.HostPort(), "--topic", "t", "--messages", "1000", "--cpu-profile", file)
		return status, errs
	}
	if status, errs := perf(file); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if profile, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(profile, []byte("\x1f\x8b")) {
		t.Errorf("%.20q, %v", profile, err)
	}
	if status, errs := perf(filepath.Join(file, "no folder")); status != 1 || !strings.Contains(errs, "--cpu-profile") {
		t.Errorf("status %d: %s", status, errs)
	}
}
