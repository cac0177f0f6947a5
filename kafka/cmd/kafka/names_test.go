package main

import (
	"bytes"
	"strings"
	"testing"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
)

// TestB17NamesHaveOneRule: whatever tool a topic is named to, a name is legal or
// it is not, for the same reason, and before anything is made (fault B17).
func TestB17NamesHaveOneRule(t *testing.T) {
	b := kafkatest.Start(t)
	tools := map[string][]string{
		"produce":         {"produce", "--broker-list", b.HostPort(), "--topic", "NAME"},
		"consume":         {"consume", "--broker-list", b.HostPort(), "--exit-at-end", "--topic", "NAME"},
		"offsets":         {"offsets", "--broker-list", b.HostPort(), "--topic", "NAME"},
		"topics create":   {"topics", "create", "--broker-list", b.HostPort(), "--", "NAME"},
		"topics describe": {"topics", "describe", "--broker-list", b.HostPort(), "--", "NAME"},
		"topics delete":   {"topics", "delete", "--broker-list", b.HostPort(), "--", "NAME"},
		"audit watch":     {"audit", "watch", "--tier", "t", "--state", "s", "--zk-connect", "127.0.0.1:1", "--topic", "NAME"},
		"perf produce":    {"perf", "produce", "--broker-list", b.HostPort(), "--messages", "1", "--topic", "NAME"},
		"perf consume":    {"perf", "consume", "--broker-list", b.HostPort(), "--topic", "NAME"},
	}
	run := func(args []string, name string) (int, string) {
		args = append([]string(nil), args...)
		args[len(args)-1] = name
		var out, errs bytes.Buffer
		return realMain(t.Context(), args, stdio{In: strings.NewReader(""), Out: &out, Err: &errs}), errs.String()
	}
	for _, name := range []string{"", ".", "..", "../x", "x/y", "a\x00b", "a\nb", "\x7f", "\xff", "\ue000", strings.Repeat("a", 250)} {
		why := message.CheckTopic(name)
		if why == nil {
			t.Fatalf("%q is legal", name)
		}
		for tool, args := range tools {
			if status, errs := run(args, name); status != 2 || !strings.Contains(errs, why.Error()) {
				t.Errorf("%s %q: status %d, %s", tool, name, status, errs)
			}
		}
	}
	var made bytes.Buffer
	if status := realMain(t.Context(), []string{"topics", "list", "--broker-list", b.HostPort()}, stdio{Out: &made, Err: &made}); status != 0 || made.Len() > 0 {
		t.Fatalf("status %d, topics: %s", status, made.String())
	}
	legal := []string{"a.b", "a_b", "A", "a-1", "with blank", "ünïcode", "-", strings.Repeat("a", 249)}
	for _, name := range legal {
		if status, errs := run(tools["topics create"], name); status != 0 {
			t.Errorf("%q: %s", name, errs)
		}
		if status, errs := run(tools["offsets"], name); status != 0 {
			t.Errorf("%q: %s", name, errs)
		}
	}
}
