package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/host/hosttest"
	"kafkalab/plots"
)

// What is drawn is what a live cluster holds: its brokers, every partition with
// its owners, all that was published, and the files of a log as its broker
// lists them.
func TestDrawLiveCluster(t *testing.T) {
	h := hosttest.Open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir(), BinDir: hosttest.Programs(t, "kafka")})
	var told strings.Builder
	topology, log, err := liveCluster(t.Context(), h, 2, stdio{Out: &told, Err: &told})
	if err != nil {
		t.Fatal(err)
	}
	c := topology.Clusters[0]
	if len(topology.Clusters) != 2 || len(c.Brokers) != 2 || len(c.Groups) != len(drawGroups)+1 || len(c.Producers) != len(drawProducers) {
		t.Fatalf("%+v", topology)
	}
	visible := map[string]int64{}
	partitions := 0
	for _, b := range c.Brokers {
		for _, p := range b.Partitions {
			visible[p.Topic] += p.Watermark
			partitions++
		}
	}
	for _, want := range drawTopics {
		if visible[want.name] != published(want.name) {
			t.Errorf("of %s %d bytes are visible, %d were published", want.name, visible[want.name], published(want.name))
		}
	}
	for i, g := range c.Groups[:len(drawGroups)] {
		if len(g.Members) != drawGroups[i].members {
			t.Errorf("group %s has %d members", g.Name, len(g.Members))
		}
		for _, p := range g.Partitions {
			if p.Owner == nil || p.Committed == nil {
				t.Errorf("group %s: %+v", g.Name, p)
			}
		}
	}
	// The mirror is a group of the live cluster, and the replica cluster has as many
	// bytes, which a group and a load read.
	replica := topology.Clusters[1]
	if mirror := c.Groups[len(drawGroups)]; mirror.Name != drawMirrorGroup || len(mirror.Partitions) != partitions || len(topology.Mirrors) != 1 || topology.Mirrors[0].To != replica.Name {
		t.Errorf("group %+v, mirrors %+v", mirror, topology.Mirrors)
	}
	copied := map[string]int64{}
	for _, p := range replica.Brokers[0].Partitions {
		copied[p.Topic] += p.Watermark
	}
	for _, want := range drawTopics {
		if copied[want.name] != published(want.name) {
			t.Errorf("of %s %d bytes are at the replica cluster, %d were published", want.name, copied[want.name], published(want.name))
		}
	}
	if len(replica.Groups) != 1 || len(replica.Groups[0].Members) != 1 || len(replica.Loads) != 1 {
		t.Errorf("%+v", replica)
	}
	if all := len(c.Groups[1].Partitions); all != partitions {
		t.Errorf("%d partitions, and the group of both topics has %d", partitions, all)
	}
	if len(log.Segments) < 2 || log.Watermark != log.Segments[len(log.Segments)-1].End {
		t.Errorf("%+v", log)
	}
	dir := t.TempDir()
	if err := plots.WriteDrawings(dir, topology, log); err != nil {
		t.Fatal(err)
	}
	drawings, err := plots.LiveDrawings(dir)
	if err != nil || len(drawings) != 4 {
		t.Errorf("%d drawings, %v", len(drawings), err)
	}
}

// A cluster that does not come up is an error that says who failed and how.
func TestDrawSaysWhatFailed(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kafka"), []byte("#!/bin/sh\necho the disk is gone >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := hosttest.Open(t, host.Config{Name: "here", Kind: host.Local, Dir: t.TempDir(), BinDir: bin})
	_, _, err := liveCluster(t.Context(), h, 1, stdio{Out: os.Stdout, Err: &strings.Builder{}})
	if err == nil || !strings.Contains(err.Error(), "zookeeper ended before it served") || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("%v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c := &drawnCluster{host: h}
	never := func(context.Context) (string, error) { return "one partition is missing", nil }
	if err := c.until(over, "it is so", never); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "one partition is missing") {
		t.Errorf("%v", err)
	}
}

func TestDrawFlags(t *testing.T) {
	for _, args := range [][]string{{"--brokers", "0"}, {"--brokers", "5"}, {"--outt", "x"}, {"more"}} {
		var u usageError
		if _, err := call(runDraw, args...); !errors.As(err, &u) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Two of one second get folders of their own.
func TestTimedFolder(t *testing.T) {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	out := t.TempDir()
	for _, want := range []string{"20261130T120000Z-drawings", "20261130T120000Z-drawings-2"} {
		if dir, err := timedFolder(out, began, "drawings", func(dir string) error { return os.Mkdir(dir, 0o755) }); err != nil || dir != filepath.Join(out, want) {
			t.Errorf("%s, %v", dir, err)
		}
	}
}
