package broker_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var statusLine = regexp.MustCompile(`(?m)^(VmHWM|VmRSS):\s+(\d+) kB$`)

// resident returns how much memory a process has now, and has had at most.
func resident(t testing.TB, pid int) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range statusLine.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if m[1] == "VmRSS" {
			now = n << 10
		} else {
			most = n << 10
		}
	}
	if now == 0 || most == 0 {
		t.Fatalf("no memory in the status of process %d:\n%s", pid, text)
	}
	return now, most
}

// split returns how much memory a broker process has now for requests that do not
// fit into the smallest buffers, and how much for all else. The former is in
// mappings without a reservation, which Go's runtime does not make. A kernel that
// never overcommits does not mark them; then all is in the rest.
func split(t testing.TB, pid int) (requests, rest int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var inMapping int64 // the one whose lines are read
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "Rss:":
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatalf("%q in the mappings of process %d: %v", line, pid, err)
			}
			inMapping = n << 10
		case "VmFlags:": // the last line of a mapping
			if slices.Contains(fields, "nr") {
				requests += inMapping
			} else {
				rest += inMapping
			}
		}
	}
	if rest == 0 {
		t.Fatalf("no memory in the mappings of process %d:\n%s", pid, text)
	}
	return requests, rest
}
