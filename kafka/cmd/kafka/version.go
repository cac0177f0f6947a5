package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// versionText says what the program was built from, as far as the go command has
// written it down: version, commit, and Go.
func versionText() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "kafka, built without module support: nothing is known of its version"
	}
	return buildText(b)
}

func buildText(b *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range b.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	switch {
	case commit == "":
		commit = "not known"
	case settings["vcs.modified"] == "true":
		commit += " and changes that are not committed"
	}
	if at := settings["vcs.time"]; at != "" {
		commit += " (" + at + ")"
	}
	return fmt.Sprintf("kafka of %s %s, commit %s, %s", b.Main.Path, cmp.Or(b.Main.Version, "(devel)"), commit, b.GoVersion)
}
