package main

import (
	"bytes"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest"
)

// TestCompressedLine: what a broker bounds is a message as it is sent, so a line
// above that bound goes if it is compressed to less.
func TestCompressedLine(t *testing.T) {
	b := kafkatest.Start(t)
	line := strings.Repeat("a line that is much the same all along, ", 100_000) // 4 MB
	run := func(in string, args ...string) (status int, out, err string) {
		var stdout, stderr bytes.Buffer
		status = realMain(t.Context(), append(args, "--broker-list", b.HostPort(), "--topic", "t"), stdio{strings.NewReader(in), &stdout, &stderr})
		return status, stdout.String(), stderr.String()
	}
	if status, _, msg := run(line, "produce"); status != 1 || !strings.Contains(msg, "line 1 of the input is longer than the 1000000 bytes") {
		t.Errorf("not compressed: status %d, %s", status, msg)
	}
	if status, _, msg := run(line+"\nnext\n", "produce", "--compression", "gzip"); status != 0 {
		t.Fatalf("compressed: status %d, %s", status, msg)
	}
	if status, _, msg := run(line, "produce", "--compression", "gzip", "--max-message-size", "1000"); status != 1 || !strings.Contains(msg, "stopped at line 1 of the input") || !strings.Contains(msg, "at most 1000 are allowed") {
		t.Errorf("compressed to too much: status %d, %s", status, msg)
	}
	if status, out, msg := run("", "consume", "--exit-at-end"); status != 0 || out != line+"\nnext\n" {
		t.Errorf("consumed %d bytes, status %d, %s", len(out), status, msg)
	}
}
