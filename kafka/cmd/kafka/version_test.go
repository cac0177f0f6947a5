package main

import (
	"runtime/debug"
	"testing"
)

// TestVersionText: what the go command has written down is told, and what it has
// not is not made up.
func TestVersionText(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for want, settings := range map[string][]debug.BuildSetting{
		"kafka of m v1.2.3, commit not known, go9":                             nil,
		"kafka of m v1.2.3, commit 1f (then), go9":                             {setting("vcs.revision", "1f"), setting("vcs.time", "then"), setting("vcs.modified", "false")},
		"kafka of m v1.2.3, commit 1f and changes that are not committed, go9": {setting("vcs.revision", "1f"), setting("vcs.modified", "true")},
	} {
		b := &debug.BuildInfo{GoVersion: "go9", Main: debug.Module{Path: "m", Version: "v1.2.3"}, Settings: settings}
		if got := buildText(b); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
