package main

import (
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/harness/scenario"
	"kafkalab/results/resultfile"
)

// sitting is what a run says of itself that measures a rival which may not be
// installed, on one disk or another.
func sitting(version, disk string) resultfile.Run {
	rows := func(version string) []resultfile.Setting {
		persistence := "files"
		if version == notInstalled {
			persistence = notInstalled
		}
		return []resultfile.Setting{{Row: "version", Value: version}, {Row: "persistence", Value: persistence}}
	}
	facts := []resultfile.Fact{{Name: "kernel", Value: "Linux 6.1"}, {Name: "disk", Value: disk}}
	return resultfile.Run{
		Commit: "0123456789ab", Messages: 10, Repeat: 1,
		Testbed: resultfile.Testbed{Kind: "local", ClientHost: resultfile.Host{Name: "client"}, BrokerHost: resultfile.Host{Name: "broker", Facts: facts}},
		Scenarios: []resultfile.Scenario{{Name: "s", Work: resultfile.Produce, PayloadBytes: 200, Systems: []resultfile.System{
			{ID: "own", Role: resultfile.RoleSystem, Settings: rows("1")}, {ID: "rival", Role: resultfile.RoleSystem, Settings: rows(version)},
		}}},
	}
}

// A run is not gone on with on another disk or with another version of a system;
// a system that was installed since is described as it was measured.
func TestResumeMixesNothing(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now resultfile.Run
		want     string // of the error; "": the version of the rival afterwards
		version  string
	}{
		{"nothing changed", sitting("1", "sda"), sitting("1", "sda"), "", "1"},
		{"another version", sitting("1", "sda"), sitting("2", "sda"), `the version of s/rival was "1" and is "2"`, ""},
		{"another disk", sitting("1", "sda"), sitting("1", "nvme0n1"), `of broker the disk was "sda" and is "nvme0n1"`, ""},
		{"installed since", sitting(notInstalled, "sda"), sitting("2", "sda"), "", "2"},
		{"removed since", sitting("1", "sda"), sitting(notInstalled, "sda"), "", "1"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		w, err := resultfile.Create(dir, c.was)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w, err = reopen(dir, c.now, scenario.Selection{})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		systems := w.Run().Scenarios[0].Systems
		if got := systems[1].Settings; got[0].Value != c.version || got[1].Value != "files" || systems[0].Settings[0].Value != "1" {
			t.Errorf("%s: %+v", c.name, systems)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Memory that was held in one sitting and not in another was held for no run, and
// the run says that it was in part.
func TestResumeWithMemoryHeldInPart(t *testing.T) {
	for _, c := range []struct {
		was, now, held int64
		part           bool
	}{{0, 0, 0, false}, {8192, 4096, 4096, false}, {4096, 0, 0, true}, {0, 4096, 0, true}} {
		before, again := sitting("1", "sda"), sitting("1", "sda")
		before.Testbed.HeldMemoryBytes, again.Testbed.HeldMemoryBytes = c.was, c.now
		dir := filepath.Join(t.TempDir(), "run")
		w, err := resultfile.Create(dir, before)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if w, err = reopen(dir, again, scenario.Selection{}); err != nil {
			t.Fatal(err)
		}
		if bed := w.Run().Testbed; bed.HeldMemoryBytes != c.held || bed.HeldInPart != c.part {
			t.Errorf("%d and then %d: %d, in part: %t", c.was, c.now, bed.HeldMemoryBytes, bed.HeldInPart)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
