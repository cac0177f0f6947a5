package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
)

// TestVerifyClaimsNoMoreThanItKnows: sound messages behind bad ones may have been
// acknowledged. That nothing is lost is said only when there are none, before the
// start that cuts them off and after it.
func TestVerifyClaimsNoMoreThanItKnows(t *testing.T) {
	const innocent = "was never promised"
	entry := func(text string) []byte { return message.Append(nil, []byte(text)) }
	bad := entry("bad")
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name          string
		behind        []byte // the bad one
		before, after string
	}{
		{"nothing sound behind", nil, "It is what a crash leaves of messages that were not flushed", innocent},
		{"sound ones behind", append(entry("acknowledged"), entry("too")...), "with 2 sound messages behind it", "Sound messages were cut off too"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "t-0", "00000000000000000000.kafka")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(append(entry("good"), bad...), c.behind...), 0o644); err != nil {
			t.Fatal(err)
		}
		if status, out, errs := runTool(t.Context(), "log", "verify", dir); status != 1 || !strings.Contains(out, c.before) {
			t.Errorf("%s, before the start: status %d: %s%s", c.name, status, out, errs)
		}
		b := kafkatest.Start(t, func(cfg *broker.Config) { cfg.LogDir = dir })
		status, out, errs := runTool(t.Context(), "log", "verify", dir)
		if status != 0 || !strings.Contains(out, c.after) || strings.Contains(out, innocent) != (c.after == innocent) {
			t.Errorf("%s, after the start: status %d: %s%s", c.name, status, out, errs)
		}
		b.Stop()
	}
}
